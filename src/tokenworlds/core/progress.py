"""Clocks and progress of a run: functions of counters, which checkpoints need not save."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import chain, repeat


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
        return int(max(steps, 0) * as_fraction(self.per_step))

    def due(self, steps: int, done: int) -> int:
        """Updates due after `steps` steps, of which some are done."""
        return max(self.total(steps) - done, 0)


def as_fraction(number: int | float) -> Fraction:
    """The simplest fraction that a float stands for: 0.1 is 1/10, 1 / 3 is 1/3."""
    exact = Fraction(number)
    simple = exact.limit_denominator(10**6)
    return simple if float(simple) == float(number) else exact


@dataclass(frozen=True, slots=True)
class Phase:
    """Collect this many steps of every environment, then update each learner this many times."""

    collect: int
    updates: Mapping[str, int]
    random: bool = False

    @property
    def learners(self) -> Iterator[str]:
        """The learner of each update, in order."""
        return chain.from_iterable(repeat(name, count) for name, count in self.updates.items())


@dataclass(frozen=True, slots=True)
class Progress:
    """Agent steps of all environments, and updates of each learner.

    `gradient_steps` count the steps of all optimisers; a goal has none, because an update of PPO
    makes several.
    """

    steps: int = 0
    updates: Mapping[str, int] = field(default_factory=dict)
    gradient_steps: int = 0

    @property
    def update_count(self) -> int:
        return sum(self.updates.values())

    def left(self, goal: "Progress") -> "Progress":
        due = {name: max(n - self.updates.get(name, 0), 0) for name, n in goal.updates.items()}
        return Progress(max(goal.steps - self.steps, 0), due)

    def furthest(self, other: "Progress") -> "Progress":
        """The larger of both numbers, for steps and for each learner."""
        names = {**self.updates, **other.updates}
        updates = {n: max(self.updates.get(n, 0), other.updates.get(n, 0)) for n in names}
        return Progress(max(self.steps, other.steps), updates)

    def reaches(self, goal: "Progress") -> bool:
        left = self.left(goal)
        return not left.steps and not left.update_count


def round_up(steps: int, num_envs: int) -> int:
    """The least multiple of `num_envs` that is at least `steps`."""
    return -(-steps // num_envs) * num_envs
