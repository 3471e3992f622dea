"""Clocks that are functions of counters, so that a resumed run needs nothing saved for them."""

from dataclasses import dataclass
from fractions import Fraction


@dataclass(frozen=True, slots=True)
class Every:
    """Something that happens each time a counter passes a multiple of `steps`; 0 is never."""

    steps: int

    def __post_init__(self) -> None:
        if self.steps < 0:
            raise ValueError(f"every {self.steps} steps is no interval; 0 means never")

    def due(self, previous: int, now: int) -> bool:
        """Whether it should happen, the counter having gone from `previous` to `now`.

        A `previous` of -1 says that the counter has just begun, so that 0 counts as passed.
        """
        return self.steps > 0 and now // self.steps > previous // self.steps


@dataclass(frozen=True, slots=True)
class Ratio:
    """So many updates for each step, without drift over any number of steps."""

    per_step: int | float

    def __post_init__(self) -> None:
        if not 0 <= self.per_step < float("inf"):
            raise ValueError(f"{self.per_step} updates per step is no ratio")

    def total(self, steps: int) -> int:
        """Updates due after this many steps in all."""
        return int(max(steps, 0) * as_fraction(self.per_step))

    def due(self, steps: int, done: int) -> int:
        """Updates due after this many steps in all, of which some are done."""
        return max(self.total(steps) - done, 0)


@dataclass(frozen=True, slots=True)
class Until:
    """Something that goes on until a counter reaches `steps`."""

    steps: int

    def holds(self, count: int) -> bool:
        """Whether it still goes on."""
        return count < self.steps

    def left(self, count: int) -> int:
        """Steps to go."""
        return max(self.steps - count, 0)


def as_fraction(number: int | float) -> Fraction:
    """The simple fraction that a float was meant to be: 0.1 is 1/10, 1 / 3 is 1/3."""
    exact = Fraction(number)
    simple = exact.limit_denominator(10**6)
    return simple if float(simple) == float(number) else exact
