"""Checks of a card: one update of each family on it, compared with the same update on the CPU."""

import copy
import dataclasses
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from tokenworlds.agent import Agent
from tokenworlds.benchmarking.same_chance import Chance
from tokenworlds.benchmarking.workloads import random_segment
from tokenworlds.core.config import variant
from tokenworlds.core.precision import Precision, computing, lack_of_bfloat16
from tokenworlds.core.types import ActionSpace, FrameShape, Segment
from tokenworlds.recipes.catalogue import load
from tokenworlds.runs.recipe import Recipe
from tokenworlds.training.learner import Learner

FAMILIES = ("step-vq-m", "storm", "git-storm", "iris", "delta-iris", "swm", "dreamer-v3", "ppo")
TOLERANCES: Mapping[Precision, tuple[float, float]] = {
    "float32": (1e-3, 1e-4),
    "bfloat16": (0.05, 0.005),
}
"""The relative and absolute difference from the CPU's float32 that losses may have."""
ROWS, STEPS, HORIZON = 2, 6, 3
TIMED = 3


@dataclass(frozen=True, slots=True)
class Comparison:
    """How far the losses of a family are from the CPU's, as a share of what is allowed."""

    family: str
    precision: Precision
    worst: float
    term: str
    seconds: Mapping[str, float]

    @property
    def agrees(self) -> bool:
        return self.worst <= 1.0

    def text(self) -> str:
        times = ", ".join(f"{name} {1e3 * spent:.0f} ms" for name, spent in self.seconds.items())
        if self.agrees:
            return f"agrees with the CPU ({self.worst:.0%} of the tolerance); {times}"
        relative, absolute = TOLERANCES[self.precision]
        return (
            f"{self.term} differs from the CPU by {self.worst:.3g} times the tolerance "
            f"({relative:g} relative, {absolute:g} absolute); {times}"
        )


def compare(family: str, device: str, precision: Precision) -> Comparison:
    """One update of every learner of a family, from the same weights with the same chance."""
    recipe = small(load(family, "nano").recipe)
    torch.manual_seed(0)
    shape = FrameShape(recipe.resolution, recipe.resolution, 1 if recipe.grey else 3)
    agent = Agent.build(recipe, shape, ActionSpace(4))
    chance = Chance()
    expected, _ = update_all(copy.deepcopy(agent), recipe, "float32", chance)
    found, seconds = update_all(agent.to(device), recipe, precision, chance.again())
    term, worst = worst_term(expected, found, precision)
    return Comparison(family, precision, worst, term, seconds)


def small(recipe: Recipe) -> Recipe:
    """Short dreams of few rows, and no dropout, whose kernels draw numbers of their own."""
    changes: dict[str, Any] = {"behaviour.horizon": HORIZON}
    for name, learning in recipe.learning.items():
        changes[f"learning.{name}.batch"] = ROWS
        changes[f"learning.{name}.length"] = min(learning.length, STEPS)
    found: Recipe = without_dropout(variant(recipe, changes))
    return found


def without_dropout(config: Any) -> Any:
    if not dataclasses.is_dataclass(config) or isinstance(config, type):
        return config
    changed = {}
    for field in dataclasses.fields(config):
        value = getattr(config, field.name)
        changed[field.name] = 0.0 if field.name == "dropout" else without_dropout(value)
    return replace(config, **changed)


def update_all(
    agent: Agent, recipe: Recipe, precision: Precision, chance: Chance
) -> tuple[dict[str, Tensor], dict[str, float]]:
    """The losses of one update of each learner, and the seconds of a later one."""
    generator = torch.Generator(agent.device).manual_seed(0)
    trainables = agent.trainables(generator)
    context = partial(computing, agent.device, precision)
    found: dict[str, Tensor] = {}
    learners = []
    for name, learning in recipe.learning.items():
        learner = Learner(name, learning, trainables[name], context)
        segment = segment_of(agent, learner)
        with chance:
            metrics, _ = learner.update(segment)
        found |= {key: value.cpu() for key, value in metrics.items() if "/loss/" in key}
        learners.append((learner, segment))
    seconds = {learner.name: time_update(learner, segment) for learner, segment in learners}
    return found, seconds


def time_update(learner: Learner, segment: Segment) -> float:
    times = []
    for _ in range(TIMED):
        begin = time.perf_counter()
        metrics, _ = learner.update(segment)
        for value in metrics.values():
            value.item()  # Waits for the card.
        times.append(time.perf_counter() - begin)
    return min(times)


def segment_of(agent: Agent, learner: Learner) -> Segment:
    size = (learner.learning.batch, learner.learning.length)
    generator = torch.Generator().manual_seed(1)
    segment = random_segment(agent.frame_shape, agent.action_space, *size, generator)
    return segment.to(agent.device)


def worst_term(
    expected: Mapping[str, Tensor], found: Mapping[str, Tensor], precision: Precision
) -> tuple[str, float]:
    """The loss that is farthest from what it should be, in units of the tolerance."""
    relative, absolute = TOLERANCES[precision]
    shares = {
        name: float((found[name] - value).abs() / (absolute + relative * value.abs()))
        for name, value in expected.items()
    }
    worst = max(shares, key=lambda name: shares[name] if shares[name] == shares[name] else 1e9)
    return worst, shares[worst]


def precisions(device: str) -> list[Precision]:
    """Those that the card has."""
    return ["float32"] if lack_of_bfloat16(device) else ["float32", "bfloat16"]
