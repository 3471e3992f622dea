"""Schedules in rounds: much is collected, then much is learned, over and over."""

from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass

from tokenworlds.core.progress import Phase, Progress

PIECE = 10
"""Steps of every stream, or updates, in one phase of a round: a stop waits for no more."""


@dataclass(frozen=True, slots=True)
class Blocks:
    """The `total` steps of a run in blocks of `steps`; the first may have another number.

    A `first` of 0 is no other number, and the last block takes what is left.
    """

    steps: int
    first: int
    total: int

    @property
    def count(self) -> int:
        """Blocks of the whole run."""
        return 1 + -(-max(self.total - (self.first or self.steps), 0) // self.steps)

    def end(self, blocks: int) -> int:
        """Steps of so many blocks."""
        first = self.first or self.steps
        return min(first + (blocks - 1) * self.steps, self.total) if blocks else 0


class Rounds(ABC):
    """A schedule made from where its rounds end, and from what is left of one."""

    rounds: int

    @abstractmethod
    def end(self, rounds: int) -> Progress:
        """The progress of a run that has done so many rounds."""

    @abstractmethod
    def ended(self, rounds: int) -> int:
        """The age of a run that has done so many rounds."""

    @abstractmethod
    def turn(self, done: int, progress: Progress) -> Iterator[Phase]:
        """What is left of the round that follows so many."""

    @property
    def goal(self) -> Progress:
        """Where the last round ends."""
        return self.end(self.rounds)

    def done(self, progress: Progress) -> int:
        """Rounds that are over."""
        return bisect_left(
            range(self.rounds), True, key=lambda done: not progress.reaches(self.end(done + 1))
        )

    def phases(self, progress: Progress) -> Iterator[Phase]:
        """Rounds in small pieces."""
        for done in range(self.done(progress), self.rounds):
            yield from self.turn(done, progress)
            progress = self.end(done + 1)

    def age(self, progress: Progress) -> int:
        """That of the rounds done, and of the present one by the share of its work."""
        done = self.done(progress)
        if done == self.rounds:
            return self.ended(done)
        end = self.end(done + 1)
        whole, rest = work(self.end(done).left(end)), work(progress.left(end))
        span = self.ended(done + 1) - self.ended(done)
        return self.ended(done) + span * (whole - rest) // whole


def work(left: Progress) -> int:
    """Steps and updates, counted alike."""
    return left.steps + left.update_count


def collecting(steps: int, random: bool) -> Iterator[Phase]:
    """So many steps of every stream, in pieces."""
    return (Phase(count, {}, random=random) for count in pieces(steps))


def updating(name: str, updates: int) -> Iterator[Phase]:
    """So many updates of one learner, in pieces."""
    return (Phase(0, {name: count}) for count in pieces(updates))


def pieces(count: int) -> Iterator[int]:
    """A number in pieces of at most `PIECE`, the last one the smallest."""
    for begin in range(0, count, PIECE):
        yield min(PIECE, count - begin)


def round_up(steps: int, num_envs: int) -> int:
    """The least number of steps, as many as these, that all environments have an equal share in."""
    return -(-steps // num_envs) * num_envs
