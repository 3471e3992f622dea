"""A world and a behaviour playing together: frames in, actions out."""

from dataclasses import dataclass
from typing import cast

import torch
from jaxtyping import Bool, UInt8
from torch import Generator, Tensor, nn

from tokenworlds.core.precision import Precision, computing
from tokenworlds.core.protocols import Behaviour, World
from tokenworlds.core.trees import where_rows
from tokenworlds.core.types import ActionSpace, Carry, Part


@dataclass(frozen=True, slots=True)
class PlayerCarry:
    """What a player remembers: the world's state, the behaviour's, and its last action."""

    world: Carry
    behaviour: Carry
    action: Tensor


class Player(nn.Module):
    """Observes with the world and acts with the behaviour; remembers nothing by itself."""

    world: World
    behaviour: Behaviour

    def __init__(
        self,
        world: World,
        behaviour: Behaviour,
        action_space: ActionSpace,
        precision: Precision = "float32",
    ) -> None:
        super().__init__()
        self.precision = precision
        self.world = world
        self.behaviour = behaviour
        self.action_space = action_space

    def initial(self, batch: int) -> PlayerCarry:
        """At the start of everything."""
        return PlayerCarry(
            None, self.behaviour.initial(batch), self.action_space.zeros(batch, device=self.device)
        )

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return next(self.parameters()).device

    def parts(self, generator: Generator | None) -> dict[str, Part]:
        """What learns, by the name of its learner; dreams are drawn from the generator."""
        world, behaviour = self.world, self.behaviour
        dreaming = Part(
            cast(nn.Module, behaviour), lambda segment: behaviour.lessons(world, segment, generator)
        )
        return {**world.parts(), "behaviour": dreaming}

    @torch.no_grad()
    def act(
        self,
        frame: UInt8[Tensor, "B H W C"],
        first: Bool[Tensor, " B"],
        carry: PlayerCarry,
        generator: Generator | None,
        temperature: float = 1.0,
    ) -> tuple[Tensor, PlayerCarry]:
        """Choose an action for each frame; where an episode opens, the past is forgotten."""
        frame, first = frame.to(self.device), first.to(self.device)
        if carry.world is None:
            first = torch.ones_like(first)
        memory = where_rows(first, self.behaviour.initial(len(frame)), carry.behaviour)
        with computing(self.device, self.precision):
            world = self.world.observe(frame, carry.action, first, carry.world, generator)
            view = self.world.view(world)
            action, memory = self.behaviour.act(view, memory, generator, temperature)
        return action, PlayerCarry(world, memory, action)
