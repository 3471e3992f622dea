"""What all rows of a batch take, told from a part of it and from half of that part.

A cost is some in any case and more for every row; two measurements tell the two apart.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import hypot

from tokenworlds.benchmarking.calibration import Calibration
from tokenworlds.benchmarking.flops import Flops
from tokenworlds.benchmarking.memory import Memory
from tokenworlds.benchmarking.timing import Timing


@dataclass(frozen=True, slots=True)
class Line:
    """What there is in any case, and what each row adds."""

    fixed: float
    slope: float

    def at(self, rows: int) -> float:
        """What so many rows take."""
        return self.fixed + self.slope * rows


@dataclass(frozen=True, slots=True)
class Sample:
    """What work on so many rows took."""

    rows: int
    flops: Flops
    memory: Memory
    timing: Timing


@dataclass(frozen=True, slots=True)
class Whole:
    """What all rows take; `fixed` are the seconds that do not grow with them, if any were told."""

    flops: Flops
    memory: int
    timing: Timing
    fixed: float


def parts_of(rows: int, full: int) -> list[int]:
    """What is measured for a figure: those rows, and first half of them if they are not all."""
    return [rows] if rows in (1, full) else [rows // 2, rows]


def line_through(rows: tuple[int, int], taken: tuple[float, float], least: float = 0.0) -> Line:
    """The line that meets what more rows took, and what fewer took as far as both are believed.

    Nothing is fixed below zero, so a row adds no more than in proportion; and no less than `least`,
    which keeps a slow moment of the fewer rows from making more of them cheap.
    """
    (few, many), (before, after) = rows, taken
    proportional = after / many
    slope = min(max((after - before) / (many - few), least), proportional)
    return Line(after - slope * many, slope)


def extrapolate(samples: Sequence[Sample], full: int, reach: Calibration) -> Whole:
    """From one sample in proportion, from two along a line."""
    most = samples[-1]
    if len(samples) == 1:
        factor = full / most.rows
        timing, memory = most.timing.scaled(factor), most.memory.full(factor)
        return Whole(most.flops.scaled(factor), memory, timing, 0.0)
    less, rows = samples[0], (samples[0].rows, most.rows)
    flops = Flops(
        line_through(rows, (less.flops.matmul, most.flops.matmul)).at(full),
        line_through(rows, (less.flops.convolution, most.flops.convolution)).at(full),
    )
    growth = float(less.memory.growth), float(most.memory.growth)
    grown = line_through(rows, growth).at(full)
    # A row cannot be done in less than its operations take at their best.
    pace = most.flops.seconds(reach) / most.rows
    line = line_through(rows, (less.timing.median, most.timing.median), pace)
    timing = along(line, less, most, full)
    return Whole(flops, most.memory.before + round(grown), timing, line.fixed)


def along(line: Line, less: Sample, most: Sample, full: int) -> Timing:
    """The time of all rows; what either of two times may be off by is off by more at its end."""
    reach = (full - most.rows) / (most.rows - less.rows)
    off = hypot((1 + reach) * most.timing.distance, reach * less.timing.distance)
    median = line.at(full)
    lower = max(median - off, most.timing.lower)
    return Timing(median, lower, median + off, most.timing.repeats)
