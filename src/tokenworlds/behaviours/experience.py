"""What a behaviour without memory learns from: steps of a dream, or real ones."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, Protocol, runtime_checkable

import torch
from einops import rearrange
from jaxtyping import Bool, Float
from torch import Generator, Tensor

from tokenworlds.core.errors import UserError
from tokenworlds.core.protocols import View, World
from tokenworlds.core.types import Segment
from tokenworlds.nets.returns import survival

Look = Literal["feature", "frame"]


@runtime_checkable
class Describing(Protocol):
    """A world that can tell what it showed at every step of a segment, not only at the last."""

    def describe(self, segment: Segment) -> tuple[Float[Tensor, "B T *D"], Bool[Tensor, "B T"]]:
        """The features, and whether each is known to be the one that was seen."""
        ...


@dataclass(frozen=True, slots=True)
class Experience:
    """Time first. `seen` has one step more than the rest: what the last action led to.

    Where `cut` is set, it is not known what followed. `weight` is how much a step counts.
    """

    seen: Float[Tensor, "T1 B *D"]
    action: Tensor
    reward: Float[Tensor, "T B"]
    terminated: Float[Tensor, "T B"]
    cut: Bool[Tensor, "T B"]
    weight: Float[Tensor, "T B"]


@torch.no_grad()
def dream(
    world: World,
    segment: Segment,
    horizon: int,
    looks_at: Look,
    act: Callable[[Tensor], Tensor],
    generator: Generator | None,
) -> Experience:
    """Act in the world from the end of a segment; a step counts by the chance to get there."""
    carry = world.start(segment, horizon)
    seen, actions, outcomes = [look(world.view(carry), looks_at)], [], []
    for _ in range(horizon):
        actions.append(act(seen[-1]))
        carry, dreamt = world.step(carry, actions[-1], generator)
        seen.append(look(dreamt, looks_at))
        outcomes.append(torch.stack([dreamt.reward, dreamt.terminated]))
    reward, terminated = torch.stack(outcomes, dim=1)
    cut = torch.zeros_like(terminated, dtype=torch.bool)
    return Experience(
        torch.stack(seen), torch.stack(actions), reward, terminated, cut, survival(terminated)
    )


def look(view: View, looks_at: Look) -> Tensor:
    """What the behaviour reads of a state, made now."""
    return view.feature if looks_at == "feature" else view.frame


@torch.no_grad()
def look_back(world: World, segment: Segment, looks_at: Look) -> Experience:
    """The steps of a segment but the last, whose action is not looked at.

    The frame that followed a truncation was not stored: what came of that step is not known.
    """
    if segment.first.shape[1] < 2:
        raise UserError("real steps are learned from two on: a segment's last is only judged")
    seen, known = show(world, segment, looks_at)
    follows = segment.mask[:, 1:] & ~segment.first[:, 1:]
    cut = ~segment.terminated[:, :-1] & (segment.truncated[:, :-1] | ~follows)
    weight = (segment.mask & known)[:, :-1] & ~cut
    rest = (segment.action[:, :-1], segment.reward[:, :-1], segment.terminated[:, :-1].float())
    return Experience(*map(time_first, (seen, *rest, cut, weight.float())))


def show(
    world: World, segment: Segment, looks_at: Look
) -> tuple[Float[Tensor, "B T *D"], Bool[Tensor, "B T"]]:
    """What the behaviour reads of every step, and whether it is what it read there."""
    if looks_at == "frame":
        return world.seen(segment), segment.mask
    if isinstance(world, Describing):
        return world.describe(segment)
    raise UserError(
        f"features of real steps are told by the world 'real', not by {type(world).__name__}: "
        "choose looks_at='frame' or experience='dream', or that world"
    )


def time_first(x: Tensor) -> Tensor:
    """With batch and time exchanged."""
    return rearrange(x, "b t ... -> t b ...")
