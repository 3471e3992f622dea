"""In which order steps are collected and learners updated.

`Epochs` is the manner of IRIS (Micheli et al., 2023) and of Δ-IRIS (2024).
"""

from bisect import bisect_left
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from tokenworlds.core.clocks import Ratio
from tokenworlds.core.config import Component, ConfigOf
from tokenworlds.core.errors import unknown

PIECE = 10
"""Steps of every stream, or updates, in one phase of an epoch: a stop waits for no more."""


@dataclass(frozen=True, slots=True)
class Phase:
    """Collect this many steps of every stream, then update each learner this many times."""

    collect: int
    updates: Mapping[str, int]
    random: bool = False


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a run is: agent steps of all streams, and updates of each learner."""

    steps: int = 0
    updates: Mapping[str, int] = field(default_factory=dict)

    @property
    def gradient_steps(self) -> int:
        """Updates of all learners together."""
        return sum(self.updates.values())

    def left(self, goal: "Progress") -> "Progress":
        """What is still to do on the way to a goal."""
        due = {name: max(n - self.updates.get(name, 0), 0) for name, n in goal.updates.items()}
        return Progress(max(goal.steps - self.steps, 0), due)

    def reaches(self, goal: "Progress") -> bool:
        """Whether nothing is left to do."""
        left = self.left(goal)
        return not left.steps and not left.gradient_steps


@runtime_checkable
class Schedule(Protocol):
    """The way of a run, built with two facts: its `streams`, and `total`, its agent steps.

    Whatever it says is a function of the progress of the run.
    """

    @property
    def goal(self) -> Progress:
        """The progress of a run that is over."""
        ...

    def phases(self, progress: Progress) -> Iterator[Phase]:
        """Phases until the goal; begun anew from a later progress they go on where that was."""
        ...

    def age(self, progress: Progress) -> int:
        """How old a run is, in agent steps: what all that is done every so many steps goes by.

        It may go on where no steps are collected any more.
        """
        ...


class Interleaved(Component):
    """A step of every stream, then the updates that are due; random play before the first."""

    @dataclass(frozen=True, kw_only=True, slots=True)
    class Config(ConfigOf["Interleaved"]):
        """Choices: `updates` of each learner per agent step after the warm-up."""

        warm_up: int = 1032
        updates: Mapping[str, float] = field(default_factory=dict)

    def __init__(self, config: Config, *, streams: int, total: int) -> None:
        self.config = config
        self.streams = streams
        self.steps = round_up(total, streams)

    @property
    def goal(self) -> Progress:
        """All steps, and the updates that are due then."""
        return Progress(self.steps, self._due(self.steps, {}))

    def phases(self, progress: Progress) -> Iterator[Phase]:
        """The warm-up as one phase, then one phase for each step of the streams."""
        steps, done = progress.steps, dict(progress.updates)
        warm = min(round_up(self.config.warm_up, self.streams), self.steps)
        if steps < warm:
            yield Phase((warm - steps) // self.streams, {}, random=True)
            steps = warm
        while steps < self.steps:
            steps += self.streams
            due = self._due(steps, done)
            done = {name: done.get(name, 0) + count for name, count in due.items()}
            yield Phase(1, due)

    def age(self, progress: Progress) -> int:
        """The steps themselves."""
        return progress.steps

    def _due(self, steps: int, done: Mapping[str, int]) -> dict[str, int]:
        learned = steps - self.config.warm_up
        return {
            name: Ratio(per_step).due(learned, done.get(name, 0))
            for name, per_step in self.config.updates.items()
        }


class Epochs(Component):
    """Steps of all streams, then the updates of one learner after the other, over and over."""

    @dataclass(frozen=True, kw_only=True, slots=True)
    class Config(ConfigOf["Epochs"]):
        """Choices: `steps` of all streams together and `updates` of each learner, in their order.

        The first epoch may have another number of steps (0 is the same), and random play. When
        all steps of the run are collected, `final_epochs` without any follow. A learner may wait
        until so many epochs are over, and make `first_updates` in the first of its own.
        """

        steps: int = 200
        first_steps: int = 0
        random_first: bool = False
        final_epochs: int = 0
        updates: Mapping[str, int] = field(default_factory=dict)
        start_after: Mapping[str, int] = field(default_factory=dict)
        first_updates: Mapping[str, int] = field(default_factory=dict)

        def __post_init__(self) -> None:
            counts = (self.updates, self.start_after, self.first_updates)
            numbers = [n for named in counts for n in named.values()]
            if self.steps < 1 or min(self.first_steps, self.final_epochs, *numbers) < 0:
                raise ValueError(f"{self} is no plan: steps takes 1 or more, the others 0 or more")
            for name in (*self.start_after, *self.first_updates):
                if name not in self.updates:
                    raise unknown("learner of the epochs", name, self.updates)

    def __init__(self, config: Config, *, streams: int, total: int) -> None:
        self.config = config
        self.streams = streams
        self.total = total
        self.first = config.first_steps or config.steps
        self.collecting = 1 + -(-max(total - self.first, 0) // config.steps)
        self.epochs = self.collecting + config.final_epochs

    @property
    def goal(self) -> Progress:
        """Where the last epoch ends."""
        return self.end(self.epochs)

    def end(self, epochs: int) -> Progress:
        """The progress of a run that has done so many epochs."""
        updates = {name: self._updates(name, epochs) for name in self.config.updates}
        return Progress(round_up(min(self._nominal(epochs), self.total), self.streams), updates)

    def epoch(self, progress: Progress) -> int:
        """Epochs that are over."""
        return bisect_left(
            range(self.epochs), True, key=lambda done: not progress.reaches(self.end(done + 1))
        )

    def phases(self, progress: Progress) -> Iterator[Phase]:
        """Epochs in small pieces, each of collecting or of one learner."""
        for done in range(self.epoch(progress), self.epochs):
            left = progress.left(self.end(done + 1))
            random = self.config.random_first and done == 0
            for count in pieces(left.steps // self.streams):
                yield Phase(count, {}, random=random)
            for name, due in left.updates.items():
                for count in pieces(due):
                    yield Phase(0, {name: count})
            progress = self.end(done + 1)

    def age(self, progress: Progress) -> int:
        """That of the epochs done, and of the present one by the share of its work.

        An epoch without steps of its own counts like the others.
        """
        done = self.epoch(progress)
        if done == self.epochs:
            return self._ended(done)
        begin, end = self.end(done), self.end(done + 1)
        whole, left = begin.left(end), progress.left(end)
        work = whole.steps + whole.gradient_steps
        rest = left.steps + left.gradient_steps
        span = self._ended(done + 1) - self._ended(done)
        return self._ended(done) + span * (work - rest) // work if work else self._ended(done)

    def _ended(self, epochs: int) -> int:
        """The age at the end of an epoch."""
        final = max(epochs - self.collecting, 0)
        return self.end(epochs).steps + final * self.config.steps

    def _updates(self, learner: str, epochs: int) -> int:
        """Updates of a learner in so many epochs."""
        each = self.config.updates[learner]
        first = self.config.first_updates.get(learner, each)
        trained = max(epochs - self.config.start_after.get(learner, 0), 0)
        return first + (trained - 1) * each if trained else 0

    def _nominal(self, epochs: int) -> int:
        """Steps of so many epochs if the run and its streams let them."""
        return self.first + (epochs - 1) * self.config.steps if epochs else 0


def round_up(steps: int, streams: int) -> int:
    """The least number of steps, as many as these, that all streams have an equal share in."""
    return -(-steps // streams) * streams


def pieces(count: int) -> Iterator[int]:
    """A number in pieces of at most `PIECE`, the last one the smallest."""
    for begin in range(0, count, PIECE):
        yield min(PIECE, count - begin)
