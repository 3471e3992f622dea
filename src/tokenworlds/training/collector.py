"""Takes real steps: the agent acts in all environments, and replay stores what happened."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Generator, Tensor

from tokenworlds.agent import Agent, AgentCarry
from tokenworlds.core.capabilities import KeepsLatents
from tokenworlds.core.group import ALONE, Group
from tokenworlds.core.trees import named_tensors, restore_tensors, where_rows
from tokenworlds.core.types import Segment
from tokenworlds.envs.vector import Finished, VectorEnv
from tokenworlds.evaluation.episodes import random_actions
from tokenworlds.replay.store import ReplayStore
from tokenworlds.runs.recipe import Collection


class LatentStore:
    """The world's state at each replay step: the one it acted on, then that of later updates."""

    def __init__(self, world: KeepsLatents, num_envs: int) -> None:
        self.world = world
        self._latents = np.zeros((num_envs, 0, world.latent_size), np.float32)
        self._length = 0

    def append(self, latents: Float[Tensor, "N D"]) -> None:
        """Add the states of one step of every environment."""
        if self._length == self._latents.shape[1]:
            room = max(1024, self._length)
            self._latents = np.pad(self._latents, ((0, 0), (0, room), (0, 0)))
        self._latents[:, self._length] = latents.cpu().numpy()
        self._length += 1

    def truncate(self, length: int) -> None:
        """Forget the states of steps that replay does not hold."""
        self._length = length

    def complete(self, segment: Segment, starts: Int[np.ndarray, "B 2"]) -> Segment:
        """The segment with the state of its first step."""
        found = torch.from_numpy(self._latents[starts[:, 0], starts[:, 1]])
        return replace(segment, latent=found.to(segment.first.device))

    def write(self, latents: Float[Tensor, "B t D"], starts: Int[np.ndarray, "B 2"]) -> None:
        """Replace the states after the first step of each segment.

        Where segments overlap, the last row counts, so that a run can be repeated exactly.
        """
        time = starts[:, 1:] + 1 + np.arange(latents.shape[1])
        self._latents[starts[:, :1], time] = latents.detach().cpu().numpy()

    def state(self) -> dict[str, Tensor]:
        return {"latents": torch.from_numpy(self._latents[:, : self._length].copy())}

    def restore(self, state: Mapping[str, Tensor]) -> None:
        self._latents = state["latents"].numpy().copy()
        self._length = self._latents.shape[1]


class Collector:
    """Steps all environments with the agent, or at random."""

    def __init__(
        self,
        envs: VectorEnv,
        replay: ReplayStore,
        agent: Agent,
        generator: Generator,
        collection: Collection,
        latents: LatentStore | None = None,
        group: Group = ALONE,
    ) -> None:
        self.envs = envs
        self.replay = replay
        self.agent = agent
        self.generator = generator
        self.collection = collection
        self.latents = latents
        self.group = group
        self.carry = agent.initial(len(envs))

    def collect(self, steps: int, random: bool) -> list[Finished]:
        """Take this many steps in every environment; returns the games that ended."""
        for _ in range(steps):
            frame, first = self.envs.frames, self.envs.first
            with self._taking_back():
                action = self._choose_action(random).cpu().numpy()
                step = self.envs.step(action)
            self.replay.append(frame, first, action, step.reward, step.terminated, step.truncated)
        return self.envs.finished()

    @contextmanager
    def _taking_back(self) -> Iterator[None]:
        """If a step fails, go back to the state before its action was chosen.

        A KV cache is written in place, but a repeated step writes the same slot again.
        """
        carry, state = self.carry, self.generator.get_state()
        try:
            yield
        except BaseException:
            self.carry = carry
            self.generator.set_state(state)
            if self.latents is not None:
                self.latents.truncate(self.replay.length)
            raise

    def _choose_action(self, random: bool) -> Tensor:
        if random and self.latents is None:
            return self.group.follow(self._random_action())
        frame, first = torch.from_numpy(self.envs.frames), torch.from_numpy(self.envs.first)
        temperature = self.collection.temperature
        action, carry = self.agent.act(frame, first, self.carry, self.generator, temperature)
        if self.latents is not None:
            self.latents.append(self.latents.world.latents(carry.world))
        # Other devices may round to other actions.
        action = self.group.follow(self._random_action() if random else self._mix_random(action))
        # The history must hold the action that is executed.
        self.carry = replace(carry, action=action)
        return action

    def _mix_random(self, action: Tensor) -> Tensor:
        share, generator = self.collection.random_share, self.generator
        if share == 0.0:
            return action
        replaced = torch.rand(len(action), generator=generator, device=generator.device) < share
        return where_rows(replaced, self._random_action(), action)

    def _random_action(self) -> Tensor:
        return random_actions(self.agent.action_space, len(self.envs), self.generator)

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Tensors and JSON that `restore` needs."""
        return dict(named_tensors(self.carry)), {"envs": self.envs.state()}

    def restore(self, tensors: Mapping[str, Tensor], rest: Mapping[str, Any]) -> list[str]:
        """Restore a state; returns notes about environments that could not be restored."""
        self.carry = self.agent.initial(len(self.envs))
        if any(name.startswith("world.") for name in tensors):
            self.carry = restore_tensors(self._example_carry(), tensors)
        return self.envs.restore(rest["envs"])

    def _example_carry(self) -> AgentCarry:
        """A carry with the right structure and any values."""
        frame, first = torch.from_numpy(self.envs.frames), torch.from_numpy(self.envs.first)
        _, carry = self.agent.act(frame, first, self.carry, torch.Generator(self.agent.device))
        return carry
