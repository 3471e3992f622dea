"""Where dreams start, and the world's states while they run."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float, Int, UInt8
from numpy.typing import NDArray
from torch import Generator, Tensor

from tokenworlds.agent import BEHAVIOUR, JOINT
from tokenworlds.agent import Agent as AgentModule
from tokenworlds.api.agent import Agent
from tokenworlds.api.imagination import segment_of
from tokenworlds.core.errors import UserError, unknown
from tokenworlds.core.trees import map_tensors
from tokenworlds.core.types import Carry, Segment
from tokenworlds.evaluation.dreams import to_uint8
from tokenworlds.replay.sampling import Windows, gather
from tokenworlds.replay.store import ReplayStore

STARTS = ("replay", "reset")
Starts = Callable[[int, np.random.Generator], Segment]
"""From a count and a generator: the real steps before each dream."""
TERMINATES = 0.5
"""A dream ends where the predicted probability of a termination is higher."""


def choose_starts(agent: Agent, wanted: str | None) -> Starts:
    """Starts from the run's replay, or from resets of the real environment.

    By default from replay, if the agent has one.
    """
    if wanted is None:
        wanted = "reset" if agent.replay is None else "replay"
    if wanted not in STARTS:
        raise unknown("start of a dream", wanted, STARTS)
    if wanted == "reset":
        return starts_from_resets(agent)
    if agent.replay is None:
        raise UserError(
            "this agent has no replay to dream from: load it from its run, or take starts='reset'"
        )
    return starts_from_replay(agent.replay, context_of(agent.module, agent.replay))


def context_of(module: AgentModule, replay: ReplayStore) -> int:
    """As many real steps before a dream as when the policy learned, if replay has them."""
    learning = {} if module.recipe is None else module.recipe.learning
    found = learning.get(BEHAVIOUR) or learning.get(JOINT)
    return min(max(module.world.frames, found.length if found else 1), replay.length)


def starts_from_replay(replay: ReplayStore, length: int) -> Starts:
    def sample(count: int, rng: np.random.Generator) -> Segment:
        windows = Windows.of(replay, length)
        return gather(replay, windows.locate(rng.integers(len(windows), size=count)), length)

    return sample


def starts_from_resets(agent: Agent) -> Starts:
    env = agent.make_env()

    def sample(count: int, rng: np.random.Generator) -> Segment:
        seeds = rng.integers(2**31, size=count).tolist()
        frames = np.stack([env.reset(seed=seed)[0] for seed in seeds])
        return segment_of(frames[:, None], agent.module.action_space.zeros(count, 1))

    return sample


@dataclass(frozen=True, slots=True)
class Cohort:
    """Dreams that began together: their places in the batch, their state and their age.

    A KV cache has one position for all of its rows, so dreams of different ages have states of
    their own.
    """

    places: Int[np.ndarray, " n"]
    carry: Carry
    age: int


class DreamStep(NamedTuple):
    """The results of a step, for the places that took it."""

    places: Int[np.ndarray, " n"]
    frames: UInt8[np.ndarray, "n H W C"]
    rewards: Float[np.ndarray, " n"]
    terminated: Bool[np.ndarray, " n"]
    truncated: Bool[np.ndarray, " n"]


class Dreams:
    """Running dreams in numbered places. A dream that ends leaves its place."""

    def __init__(self, module: AgentModule, starts: Starts, horizon: int) -> None:
        self._module, self._starts, self.horizon = module, starts, horizon
        self._cohorts: list[Cohort] = []

    @torch.no_grad()
    def begin(
        self, places: NDArray[np.intp], rng: np.random.Generator
    ) -> UInt8[np.ndarray, "n H W C"]:
        """Begin dreams in these places, instead of those that run there; returns their frames."""
        keep = [(cohort, ~np.isin(cohort.places, places)) for cohort in self._cohorts]
        self._cohorts = [select(cohort, kept) for cohort, kept in keep if kept.any()]
        segment = self._starts(len(places), rng).to(self._module.device)
        carry = self._module.world.start(segment, self.horizon)
        self._cohorts.append(Cohort(places, carry, 0))
        return to_uint8(self._module.world.view(carry).frame)

    @torch.no_grad()
    def step(self, actions: Tensor, generator: Generator) -> DreamStep:
        """Step every running dream with the action of its place."""
        stepped = [self._step(cohort, actions, generator) for cohort in self._cohorts]
        self._cohorts = [cohort for cohort, _ in stepped if cohort is not None]
        return DreamStep(*map(np.concatenate, zip(*(step for _, step in stepped), strict=True)))

    def _step(
        self, cohort: Cohort, actions: Tensor, generator: Generator
    ) -> tuple[Cohort | None, DreamStep]:
        world, age = self._module.world, cohort.age + 1
        chosen = actions[torch.from_numpy(cohort.places)].to(self._module.device)
        carry, outcome = world.step(cohort.carry, chosen, generator)
        terminated = (outcome.terminated > TERMINATES).cpu().numpy()
        truncated = np.full(len(terminated), age >= self.horizon) & ~terminated
        frames = to_uint8(world.view(carry).frame)
        rewards = outcome.reward.float().cpu().numpy()
        going = ~(terminated | truncated)
        left = select(replace(cohort, carry=carry, age=age), going) if going.any() else None
        return left, DreamStep(cohort.places, frames, rewards, terminated, truncated)


def select(cohort: Cohort, kept: NDArray[np.bool_]) -> Cohort:
    if kept.all():
        return cohort
    rows = torch.from_numpy(kept)
    carry = map_tensors(lambda leaf: leaf[rows.to(leaf.device)], cohort.carry)
    return replace(cohort, places=cohort.places[kept], carry=carry)
