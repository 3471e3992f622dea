"""Clocks that are functions of counters, so that checkpoints need not save them."""

from dataclasses import dataclass
from fractions import Fraction


@dataclass(frozen=True, slots=True)
class Every:
    """Due each time a counter passes a multiple of `steps`; 0 means never."""

    steps: int

    def __post_init__(self) -> None:
        if self.steps < 0:
            raise ValueError(f"every {self.steps} steps is no interval; 0 means never")

    def due(self, previous: int, now: int) -> bool:
        """Whether the counter passed a multiple between `previous` and `now`.

        At the start `previous` is -1, so that 0 counts as passed.
        """
        return self.steps > 0 and now // self.steps > previous // self.steps


@dataclass(frozen=True, slots=True)
class Ratio:
    """A number of updates per step, without drift over any number of steps."""

    per_step: int | float

    def __post_init__(self) -> None:
        if not 0 <= self.per_step < float("inf"):
            raise ValueError(f"{self.per_step} updates per step is no ratio")

    def total(self, steps: int) -> int:
        """Updates due after `steps` steps."""
        return int(max(steps, 0) * as_fraction(self.per_step))

    def due(self, steps: int, done: int) -> int:
        """Updates due after `steps` steps, of which some are done."""
        return max(self.total(steps) - done, 0)


@dataclass(frozen=True, slots=True)
class Until:
    """Holds until a counter reaches `steps`."""

    steps: int

    def holds(self, count: int) -> bool:
        return count < self.steps

    def left(self, count: int) -> int:
        return max(self.steps - count, 0)


def as_fraction(number: int | float) -> Fraction:
    """The simplest fraction that a float stands for: 0.1 is 1/10, 1 / 3 is 1/3."""
    exact = Fraction(number)
    simple = exact.limit_denominator(10**6)
    return simple if float(simple) == float(number) else exact
