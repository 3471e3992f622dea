"""Which windows of replay the learners see.

`DynamicFrequency` is DRAMA's rule (Wang et al., 2024), which STEP-VQ inherits; `EpisodeCounts` is
that of Δ-IRIS (Micheli et al., 2024), and with an exponent of 0 that of IRIS.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from jaxtyping import Float, Int
from numpy.typing import NDArray

from tokenworlds.core.config import Component, ConfigOf
from tokenworlds.core.errors import UserError, unknown
from tokenworlds.replay.episodes import Episodes
from tokenworlds.replay.segments import Windows

WORLD = "world"
BEHAVIOUR = "behaviour"


class Sampler(Protocol):
    """Shared by the learners of an agent, each of which draws under its name.

    Built with the fact `batches`: the windows each learner draws at a time. What is drawn is a
    function of the generator and of `state`.
    """

    def sample(
        self, learner: str, windows: Windows, batch: int, rng: np.random.Generator
    ) -> Int[np.ndarray, "B 2"]:
        """Draw windows and remember them; returns the stream and time at which each starts."""
        ...

    def state(self) -> dict[str, np.ndarray]:
        """What was remembered."""
        ...

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        """Remember what a state remembers, and nothing else."""
        ...


class Uniform(Component):
    """Every window is as likely as any other, at every draw."""

    @dataclass(frozen=True, kw_only=True, slots=True)
    class Config(ConfigOf["Uniform"]):
        """Nothing to choose."""

    def __init__(self, config: Config, *, batches: Mapping[str, int]) -> None:
        self.config = config

    def sample(
        self, learner: str, windows: Windows, batch: int, rng: np.random.Generator
    ) -> Int[np.ndarray, "B 2"]:
        """Draw windows independently."""
        return windows.locate(rng.integers(len(windows), size=batch))

    def state(self) -> dict[str, np.ndarray]:
        """Nothing is remembered."""
        return {}

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        """Nothing is remembered."""


class Latest(Component):
    """The newest steps of every stream, in the order of the environments: nothing is drawn."""

    @dataclass(frozen=True, kw_only=True, slots=True)
    class Config(ConfigOf["Latest"]):
        """Nothing to choose."""

    def __init__(self, config: Config, *, batches: Mapping[str, int]) -> None:
        self.config = config

    def sample(
        self, learner: str, windows: Windows, batch: int, rng: np.random.Generator
    ) -> Int[np.ndarray, "B 2"]:
        """One window of each stream: the batch must be as large as there are environments."""
        if batch != windows.num_envs:
            raise UserError(
                f"learning.{learner}.batch={batch} does not fit the latest steps of "
                f"{windows.num_envs} environments: it takes {windows.num_envs}, one row each"
            )
        return windows.locate(np.arange(1, batch + 1) * windows.starts - 1)

    def state(self) -> dict[str, np.ndarray]:
        """Nothing is remembered."""
        return {}

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        """Nothing is remembered."""


class DynamicFrequency(Component):
    """Windows seen less often are likelier; imagination begins where the world has learned.

    The learner called "behaviour" is held against the counts of the one called "world"; any other
    only against its own.
    """

    @dataclass(frozen=True, kw_only=True, slots=True)
    class Config(ConfigOf["DynamicFrequency"]):
        """Counts are divided by a temperature: the higher, the closer to uniform."""

        temperature: float = 10.0
        behaviour_temperature: float = 10.0

    def __init__(self, config: Config, *, batches: Mapping[str, int]) -> None:
        if BEHAVIOUR in batches and WORLD not in batches:
            raise UserError(
                f"dynamic frequency sampling needs a learner {WORLD!r} beside {BEHAVIOUR!r}: "
                f"there are {', '.join(sorted(batches))}"
            )
        self.config = config
        self.batches = dict(batches)
        self._counts = {name: np.zeros((0, 0), np.int32) for name in batches}

    def sample(
        self, learner: str, windows: Windows, batch: int, rng: np.random.Generator
    ) -> Int[np.ndarray, "B 2"]:
        """Draw windows, each at most once if there are enough, and count them."""
        starts = windows.locate(draw(self.scores(learner, windows).ravel(), batch, rng))
        self._counts[learner] = grown(self._counts[learner], windows.num_envs, windows.steps)
        np.add.at(self._counts[learner], (starts[:, 0], starts[:, 1]), 1)
        return starts

    def scores(self, learner: str, windows: Windows) -> Float[np.ndarray, "N T"]:
        """The log-weight of every window for a learner, as things stand."""
        own = self.counts(learner, windows)
        if learner != BEHAVIOUR:
            return -own / self.config.temperature
        ratio = self.batches[BEHAVIOUR] / self.batches[WORLD]
        lead = self.counts(WORLD, windows) - own / ratio
        return np.minimum(0.0, lead) / self.config.behaviour_temperature

    def counts(self, learner: str, windows: Windows) -> Int[np.ndarray, "N T"]:
        """How often a learner drew a window that starts where each of these does."""
        if learner not in self._counts:
            raise unknown("learner", learner, self._counts)
        counts = grown(self._counts[learner], windows.num_envs, windows.steps)
        return counts[: windows.num_envs, : windows.starts]

    def state(self) -> dict[str, np.ndarray]:
        """The counts of every learner, by stream and time."""
        return {name: counts.copy() for name, counts in self._counts.items()}

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        """Take over counts."""
        self._counts = {name: np.array(state[name], np.int32) for name in self.batches}


class EpisodeCounts(Component):
    """An episode, the likelier the less it was drawn from; then a step of it, and a window there.

    The step is anywhere in the window; for the learner called "behaviour" it is the last. At the
    ends of a stream the window is moved inside. It may hold steps of the episodes before and after.
    """

    @dataclass(frozen=True, kw_only=True, slots=True)
    class Config(ConfigOf["EpisodeCounts"]):
        """Choices: an episode drawn from n times weighs (1 / (1 + n)) ** exponent.

        Draws are not counted while replay holds no more steps than `count_after`.
        """

        exponent: float = 1.0
        count_after: int = 0

    def __init__(self, config: Config, *, batches: Mapping[str, int]) -> None:
        self.config = config
        self._counts = {name: np.zeros(0, np.int64) for name in batches}
        self._episodes = Episodes()

    def sample(
        self, learner: str, windows: Windows, batch: int, rng: np.random.Generator
    ) -> Int[np.ndarray, "B 2"]:
        """Draw windows independently, and count their episodes."""
        weights = self.weights(learner, windows)
        episode = rng.choice(len(weights), size=batch, p=weights)
        found = self._episodes
        step = rng.integers(found.begin[episode], found.end[episode])
        last = windows.length - 1
        place = last if learner == BEHAVIOUR else rng.integers(windows.length, size=batch)
        if windows.num_envs * windows.steps > self.config.count_after:
            np.add.at(self._counts[learner], episode, 1)
        start = np.clip(step - place, 0, windows.starts - 1)
        return np.stack([found.stream[episode], start], axis=-1)

    def weights(self, learner: str, windows: Windows) -> Float[np.ndarray, "*rest"]:
        """The probability of every episode for a learner, in the order in which they began."""
        if learner not in self._counts:
            raise unknown("learner", learner, self._counts)
        self._episodes.grow(windows)
        counts = self._counts[learner]
        counts = np.pad(counts, (0, len(self._episodes) - len(counts)))
        self._counts[learner] = counts
        return probabilities(-self.config.exponent * np.log1p(counts))

    def state(self) -> dict[str, np.ndarray]:
        """The counts of every learner, by episode."""
        return {name: counts.copy() for name, counts in self._counts.items()}

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        """Take over counts; where episodes are is looked up in replay anew."""
        self._counts = {name: np.array(state[name], np.int64) for name in self._counts}
        self._episodes = Episodes()


def draw(
    scores: Float[np.ndarray, " T"], count: int, rng: np.random.Generator
) -> Int[np.ndarray, " B"]:
    """Indices with probabilities softmax(scores), without replacement if there are enough."""
    if count > len(scores):
        return rng.choice(len(scores), size=count, p=probabilities(scores))
    # The largest of scores with Gumbel noise are draws without replacement, in their order.
    keys = scores + rng.gumbel(size=len(scores))
    best = np.argpartition(keys, -count)[-count:]
    order = np.argsort(keys[best])[::-1]
    return np.take(best, order)


def probabilities(scores: Float[np.ndarray, " T"]) -> Float[np.ndarray, " T"]:
    """Softmax."""
    weights: NDArray[np.float64] = np.exp(scores - scores.max())
    return weights / float(weights.sum())


def grown(counts: Int[np.ndarray, "N T"], num_envs: int, steps: int) -> Int[np.ndarray, "*rest"]:
    """Counts with room for this many environments and steps, new ones at zero."""
    rows = max(num_envs - counts.shape[0], 0)
    columns = max(steps - counts.shape[1], 0)
    if not (rows or columns):
        return counts
    return np.pad(counts, ((0, rows), (0, columns)))
