"""Imagination: acting inside a world, one step after the other."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import torch
from jaxtyping import Float
from torch import Generator, Tensor

from tokenworlds.core.protocols import World
from tokenworlds.core.types import Carry, Outcome, View, stack_outcomes

Observed = TypeVar("Observed")
Step = Callable[[Carry, Tensor, Generator | None], tuple[Carry, Outcome]]


@dataclass(frozen=True, slots=True)
class ImaginedStep(Generic[Observed]):
    """An action in a state, its outcome, and the state after it."""

    before: Observed
    action: Tensor
    outcome: Outcome
    after: Observed


def imagine(
    world: World,
    carry: Carry,
    *,
    read: Callable[[View], Observed],
    act: Callable[[Observed], Tensor],
    steps: int,
    generator: Generator | None,
    step: Step | None = None,
) -> Iterator[ImaginedStep[Observed]]:
    """Act in the world from a state. No gradient flows through the world.

    `read` is called once for each state: decoding a frame is expensive. `act` is called once for
    each step, in order; it may keep a memory and gradients. `step` replaces the world's own.
    """
    step = step or world.step
    before = read(world.view(carry))
    for _ in range(steps):
        action = act(before)
        with torch.no_grad():
            carry, outcome = step(carry, action, generator)
            after = read(world.view(carry))
        yield ImaginedStep(before, action, outcome, after)
        before = after


@dataclass(frozen=True, slots=True)
class Trajectory:
    """Time first. `observed` has one step more than the rest: the state after the last action."""

    observed: Any
    action: Tensor
    reward: Float[Tensor, "T B"]
    terminated: Float[Tensor, "T B"]


def rollout(
    imagined: Iterator[ImaginedStep[Any]], stack: Callable[[list[Any]], Any] = torch.stack
) -> Trajectory:
    """Collect all steps; `stack` joins the observed states along a new first axis."""
    steps = list(imagined)
    outcome = stack_outcomes([step.outcome for step in steps])
    return Trajectory(
        stack([steps[0].before, *(step.after for step in steps)]),
        torch.stack([step.action for step in steps]),
        outcome.reward,
        outcome.terminated,
    )
