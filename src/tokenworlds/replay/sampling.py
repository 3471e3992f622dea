"""Windows of consecutive steps in replay, and the samplers that choose them for each learner.

`DynamicFrequency` is the rule of DRAMA (Wang et al., 2024), which STEP-VQ inherits. `EpisodeCounts`
is that of Δ-IRIS (Micheli et al., 2024), and with an exponent of 0 that of IRIS.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import torch
from jaxtyping import Bool, Float, Int, UInt8
from numpy.typing import NDArray

from tokenworlds.core.config import Component, ConfigOf
from tokenworlds.core.errors import UserError, unknown
from tokenworlds.core.types import Segment
from tokenworlds.replay.store import ReplayStore

WORLD = "world"
BEHAVIOUR = "behaviour"
OPEN = np.iinfo(np.int64).max
"""The end of an episode that is still running."""


@dataclass(frozen=True, slots=True)
class Windows:
    """All windows of `length` steps in `num_envs` environments of `steps` steps; at least one.

    `first` marks the steps that open an episode; without it each environment has one episode.
    """

    num_envs: int
    steps: int
    length: int
    first: Bool[np.ndarray, "N T"] | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        if not 1 <= self.length <= self.steps:
            raise UserError(
                f"a segment of {self.length} steps does not fit into replay, which holds "
                f"{self.steps} steps of each of {self.num_envs} environments: choose a length "
                f"between 1 and {self.steps}, or collect more steps first"
            )

    @classmethod
    def of(cls, store: ReplayStore, length: int) -> "Windows":
        return cls(store.num_envs, store.length, length, store.records["first"])

    @property
    def starts(self) -> int:
        """The number of windows in each environment."""
        return self.steps - self.length + 1

    def __len__(self) -> int:
        return self.num_envs * self.starts

    def opens(self, since: int) -> Bool[np.ndarray, "N T"]:
        """Which steps from `since` on open an episode; the first step of an environment does."""
        found = np.zeros((self.num_envs, self.steps - since), np.bool_)
        if self.first is not None:
            found[:] = self.first[:, since : self.steps]
        if since == 0:
            found[:, 0] = True
        return found

    def locate(self, index: Int[np.ndarray, " B"]) -> Int[np.ndarray, "B 2"]:
        """Environment and time at which windows start, numbered env by env."""
        return np.stack(np.divmod(index, self.starts), axis=-1)


def gather(
    store: ReplayStore,
    starts: Int[np.ndarray, "B 2"],
    length: int,
    device: str = "cpu",
    offsets: Int[np.ndarray, "B 2"] | None = None,
) -> Segment:
    """Read the windows that start at (env, time) and send them to a device.

    `first` marks only real starts of episodes; a model starts every window from its initial carry.
    Frames are sent as bytes, to CUDA asynchronously from pinned memory. With `offsets`, all frames
    of a window are shifted by so many pixels down and to the right.
    """
    pinned = device.startswith("cuda")
    shape = store.frame_shape
    size = (len(starts), length, shape.height, shape.width, shape.channels)
    frame = torch.empty(size, dtype=torch.uint8, pin_memory=pinned)
    for row in np.lexsort(starts.T[::-1]):  # In the order of the disk.
        env, time = starts[row].tolist()
        store.read_frames(env, time, frame[row].numpy())
        if offsets is not None:
            frame[row] = torch.from_numpy(shift_frames(frame[row].numpy(), *offsets[row].tolist()))
    records = store.records[starts[:, :1], starts[:, 1:] + np.arange(length)]
    fields = {name: torch.from_numpy(records[name].copy()) for name in records.dtype.names or ()}
    fields["mask"] = torch.ones(records.shape, dtype=torch.bool)
    if pinned:
        fields = {name: field.pin_memory() for name, field in fields.items()}
    return Segment(frame=frame, **fields).to(torch.device(device))


def draw_offsets(
    rng: np.random.Generator, batch: int, most: int, step: int
) -> Int[np.ndarray, "B 2"]:
    """How far the frames of each window are shifted: multiples of `step`, at most `most`."""
    count = most // step
    return rng.integers(-count, count + 1, size=(batch, 2)) * step


def shift_frames(
    frames: UInt8[np.ndarray, "T H W C"], down: int, right: int
) -> UInt8[np.ndarray, "T H W C"]:
    """Move what frames show, and repeat the pixels of the edge that it leaves."""
    height, width = frames.shape[1:3]
    rows = (np.arange(height) - down).clip(0, height - 1)
    columns = (np.arange(width) - right).clip(0, width - 1)
    return frames[:, rows][:, :, columns]


class Uniform(Component):
    """All windows are equally likely."""

    @dataclass(frozen=True, kw_only=True, slots=True)
    class Config(ConfigOf["Uniform"]):
        pass

    def __init__(self, config: Config, *, batches: Mapping[str, int]) -> None:
        self.config = config

    def sample(
        self, learner: str, windows: Windows, batch: int, rng: np.random.Generator
    ) -> Int[np.ndarray, "B 2"]:
        return windows.locate(rng.integers(len(windows), size=batch))

    def state(self) -> dict[str, np.ndarray]:
        return {}

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        pass


class OnlineUniform(Component):
    """New windows first, each once and in order, then uniformly sampled ones (DreamerV3).

    The steps of each environment are cut into consecutive windows for that purpose.
    """

    @dataclass(frozen=True, kw_only=True, slots=True)
    class Config(ConfigOf["OnlineUniform"]):
        pass

    def __init__(self, config: Config, *, batches: Mapping[str, int]) -> None:
        self.config = config
        self._served = dict.fromkeys(batches, 0)

    def sample(
        self, learner: str, windows: Windows, batch: int, rng: np.random.Generator
    ) -> Int[np.ndarray, "B 2"]:
        length = windows.length
        complete = windows.steps // length * windows.num_envs
        served = self._served[learner]
        new = np.arange(served, min(served + batch, complete))
        self._served[learner] = served + len(new)
        online = np.stack([new % windows.num_envs, new // windows.num_envs * length], axis=1)
        others = windows.locate(rng.integers(len(windows), size=batch - len(new)))
        return np.concatenate([online, others])

    def state(self) -> dict[str, np.ndarray]:
        """How many new windows each learner has read."""
        return {name: np.array(count) for name, count in self._served.items()}

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        self._served = {name: int(state[name]) for name in self._served}


class Latest(Component):
    """The newest steps of each environment, in the order of the environments."""

    @dataclass(frozen=True, kw_only=True, slots=True)
    class Config(ConfigOf["Latest"]):
        pass

    def __init__(self, config: Config, *, batches: Mapping[str, int]) -> None:
        self.config = config

    def sample(
        self, learner: str, windows: Windows, batch: int, rng: np.random.Generator
    ) -> Int[np.ndarray, "B 2"]:
        if batch != windows.num_envs:
            raise UserError(
                f"learning.{learner}.batch={batch} does not fit sampler=latest, which reads one "
                f"row of each environment: choose {windows.num_envs}"
            )
        return windows.locate(np.arange(1, batch + 1) * windows.starts - 1)

    def state(self) -> dict[str, np.ndarray]:
        return {}

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        pass


class DynamicFrequency(Component):
    """Windows sampled less often are likelier.

    The learner "behaviour" prefers windows on which the learner "world" has trained; every other
    learner uses only its own counts.
    """

    @dataclass(frozen=True, kw_only=True, slots=True)
    class Config(ConfigOf["DynamicFrequency"]):
        """Counts are divided by a temperature: the higher, the closer to uniform."""

        temperature: float = 10.0
        behaviour_temperature: float = 10.0

    def __init__(self, config: Config, *, batches: Mapping[str, int]) -> None:
        if BEHAVIOUR in batches and WORLD not in batches:
            raise UserError(
                f"sampler=dynamic_frequency needs a learner {WORLD!r} beside {BEHAVIOUR!r}: "
                f"the learners are {', '.join(sorted(batches))}"
            )
        self.config = config
        self.batches = dict(batches)
        self._counts = {name: np.zeros((0, 0), np.int32) for name in batches}

    def sample(
        self, learner: str, windows: Windows, batch: int, rng: np.random.Generator
    ) -> Int[np.ndarray, "B 2"]:
        """Sample and count windows, without replacement if there are enough."""
        indices = sample_indices(self.scores(learner, windows).ravel(), batch, rng)
        starts = windows.locate(indices)
        self._counts[learner] = grown(self._counts[learner], windows.num_envs, windows.steps)
        np.add.at(self._counts[learner], (starts[:, 0], starts[:, 1]), 1)
        return starts

    def scores(self, learner: str, windows: Windows) -> Float[np.ndarray, "N T"]:
        """The log-weight of each window."""
        own = self.counts(learner, windows)
        if learner != BEHAVIOUR:
            return -own / self.config.temperature
        ratio = self.batches[BEHAVIOUR] / self.batches[WORLD]
        lead = self.counts(WORLD, windows) - own / ratio
        return np.minimum(0.0, lead) / self.config.behaviour_temperature

    def counts(self, learner: str, windows: Windows) -> Int[np.ndarray, "N T"]:
        """How often a learner sampled a window with the start of each of these."""
        if learner not in self._counts:
            raise unknown("learner", learner, self._counts)
        counts = grown(self._counts[learner], windows.num_envs, windows.steps)
        return counts[: windows.num_envs, : windows.starts]

    def state(self) -> dict[str, np.ndarray]:
        """The counts of each learner, by environment and time."""
        return {name: counts.copy() for name, counts in self._counts.items()}

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        self._counts = {name: np.array(state[name], np.int32) for name in self.batches}


class EpisodeCounts(Component):
    """Sample an episode, the likelier the less it was sampled; then a step, then a window.

    The step lies anywhere in the window; for the learner "behaviour" it is the last one. Windows
    are shifted to fit into their environment, and may contain steps of neighbouring episodes.
    """

    @dataclass(frozen=True, kw_only=True, slots=True)
    class Config(ConfigOf["EpisodeCounts"]):
        """An episode that was sampled n times has weight (1 / (1 + n)) ** exponent.

        Samples are not counted while replay holds at most `count_after` steps.
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
        """Sample windows independently, and count their episodes."""
        weights = self.weights(learner, windows)
        episode = rng.choice(len(weights), size=batch, p=weights)
        found = self._episodes
        step = rng.integers(found.begin[episode], found.end[episode])
        last = windows.length - 1
        place = last if learner == BEHAVIOUR else rng.integers(windows.length, size=batch)
        if windows.num_envs * windows.steps > self.config.count_after:
            np.add.at(self._counts[learner], episode, 1)
        start = np.clip(step - place, 0, windows.starts - 1)
        return np.stack([found.env[episode], start], axis=-1)

    def weights(self, learner: str, windows: Windows) -> Float[np.ndarray, "*rest"]:
        """The probability of each episode, in the order in which they began."""
        if learner not in self._counts:
            raise unknown("learner", learner, self._counts)
        self._episodes.grow(windows)
        counts = self._counts[learner]
        counts = np.pad(counts, (0, len(self._episodes) - len(counts)))
        self._counts[learner] = counts
        return probabilities(-self.config.exponent * np.log1p(counts))

    def state(self) -> dict[str, np.ndarray]:
        """The counts of each learner, by episode."""
        return {name: counts.copy() for name, counts in self._counts.items()}

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        self._counts = {name: np.array(state[name], np.int64) for name in self._counts}
        self._episodes = Episodes()


class Episodes:
    """The environment, begin and end of each episode, in the order in which they began.

    `grow` reads only steps that are new, and never changes the number of an episode.
    """

    def __init__(self) -> None:
        self.steps = 0
        self.env = np.zeros(0, np.int64)
        self.begin = np.zeros(0, np.int64)
        self._end = np.zeros(0, np.int64)
        self._latest: dict[int, int] = {}

    def __len__(self) -> int:
        return len(self.begin)

    @property
    def end(self) -> Int[np.ndarray, "*rest"]:
        """The time after the last step of each episode; for a running one, the present."""
        return np.minimum(self._end, self.steps)

    def grow(self, windows: Windows) -> None:
        """Add the episodes that began since the last call."""
        time, env = np.nonzero(windows.opens(self.steps).T)
        known, time = len(self), time + self.steps
        self.env = np.concatenate([self.env, env])
        self.begin = np.concatenate([self.begin, time])
        self._end = np.concatenate([self._end, np.full(len(time), OPEN)])
        for number in range(known, len(self)):
            row = int(self.env[number])
            if row in self._latest:
                self._end[self._latest[row]] = self.begin[number]
            self._latest[row] = number
        self.steps = windows.steps


def sample_indices(
    scores: Float[np.ndarray, " T"], count: int, rng: np.random.Generator
) -> Int[np.ndarray, " B"]:
    """Indices with probabilities softmax(scores), without replacement if there are enough."""
    if count > len(scores):
        return rng.choice(len(scores), size=count, p=probabilities(scores))
    # Gumbel top-k: the largest scores with Gumbel noise are samples without replacement, in order.
    keys = scores + rng.gumbel(size=len(scores))
    best = np.argpartition(keys, -count)[-count:]
    order = np.argsort(keys[best])[::-1]
    return np.take(best, order)


def probabilities(scores: Float[np.ndarray, " T"]) -> Float[np.ndarray, " T"]:
    """Softmax."""
    weights: NDArray[np.float64] = np.exp(scores - scores.max())
    return weights / float(weights.sum())


def grown(counts: Int[np.ndarray, "N T"], num_envs: int, steps: int) -> Int[np.ndarray, "*rest"]:
    """Counts padded with zeros to at least this many environments and steps."""
    rows = max(num_envs - counts.shape[0], 0)
    columns = max(steps - counts.shape[1], 0)
    if not (rows or columns):
        return counts
    return np.pad(counts, ((0, rows), (0, columns)))
