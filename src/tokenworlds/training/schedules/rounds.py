"""Schedules in rounds: each round collects many steps, then makes many updates."""

from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from tokenworlds.core.progress import Phase, Progress

PIECE = 10
"""Steps of every environment, or updates, in one phase of a round: a stop waits no longer."""


@dataclass(frozen=True, slots=True)
class Blocks:
    """The `total` steps of a run in blocks of `steps`, the first of `first` (0: `steps`).

    The last block takes what is left.
    """

    steps: int
    first: int
    total: int

    @property
    def count(self) -> int:
        return 1 + -(-max(self.total - (self.first or self.steps), 0) // self.steps)

    def end(self, blocks: int) -> int:
        """Steps in the first `blocks` blocks."""
        first = self.first or self.steps
        return min(first + (blocks - 1) * self.steps, self.total) if blocks else 0


class Rounds(ABC):
    """A schedule defined by the progress at the end of each round."""

    prefill_key: ClassVar[str] = "schedule.first_steps"
    rounds: int

    @abstractmethod
    def end(self, rounds: int) -> Progress:
        """The progress after this many rounds."""

    @abstractmethod
    def end_step(self, rounds: int) -> int:
        """The step of the run after this many rounds."""

    @abstractmethod
    def round_phases(self, done: int, progress: Progress) -> Iterator[Phase]:
        """The phases that are left of the round after `done` rounds."""

    @property
    def goal(self) -> Progress:
        return self.end(self.rounds)

    def done(self, progress: Progress) -> int:
        """Complete rounds."""
        return bisect_left(
            range(self.rounds), True, key=lambda done: not progress.reaches(self.end(done + 1))
        )

    def phases(self, progress: Progress) -> Iterator[Phase]:
        for done in range(self.done(progress), self.rounds):
            yield from self.round_phases(done, progress)
            progress = progress.furthest(self.end(done + 1))

    def step(self, progress: Progress) -> int:
        """Interpolated within a round by the share of its steps and updates that are done."""
        done = self.done(progress)
        if done == self.rounds:
            return self.end_step(done)
        end = self.end(done + 1)
        whole, rest = work(self.end(done).left(end)), work(progress.left(end))
        span = self.end_step(done + 1) - self.end_step(done)
        return self.end_step(done) + span * (whole - rest) // whole


def work(left: Progress) -> int:
    """Steps and updates, counted alike."""
    return left.steps + left.update_count


def collecting(steps: int, random: bool) -> Iterator[Phase]:
    """`steps` of every environment, in pieces."""
    return (Phase(count, {}, random=random) for count in pieces(steps))


def updating(name: str, updates: int) -> Iterator[Phase]:
    """`updates` of one learner, in pieces; none if the number is negative."""
    return (Phase(0, {name: count}) for count in pieces(updates))


def pieces(count: int) -> Iterator[int]:
    """A number in pieces of at most `PIECE`, the last one the smallest."""
    for begin in range(0, count, PIECE):
        yield min(PIECE, count - begin)
