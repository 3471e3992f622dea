"""A cost that is partly fixed is told apart from one that grows with the rows."""

import pytest

from tokenworlds.benchmarking.calibration import Calibration
from tokenworlds.benchmarking.extrapolation import (
    Line,
    Sample,
    Whole,
    extrapolate,
    line_through,
    parts_of,
)
from tokenworlds.benchmarking.flops import Flops
from tokenworlds.benchmarking.memory import Memory
from tokenworlds.benchmarking.timing import Timing

REACH = Calibration(seconds=0.5, spread=0.0, matmul=10.0, convolution=5.0)


def sample(rows: int, seconds: float, memory: int = 0, distance: float = 0.0) -> Sample:
    """One product of matrices for each row, a tenth of a second at best, and 3 in any case."""
    timing = Timing(seconds, seconds - distance, seconds + distance, 5)
    return Sample(rows, Flops(3.0 + rows, 2.0 * rows), Memory(100, 100 + memory, None), timing)


def test_what_is_measured_is_a_part_and_half_of_it_unless_it_is_all_or_one() -> None:
    assert [parts_of(rows, 16) for rows in (1, 2, 5, 8, 16)] == [[1], [1, 2], [2, 5], [4, 8], [16]]


def test_an_affine_cost_is_recovered_exactly() -> None:
    whole = extrapolate([sample(2, 5.0, memory=50), sample(4, 7.0, memory=70)], 64, REACH)
    assert whole == Whole(
        flops=Flops(67.0, 128.0),
        memory=100 + 30 + 64 * 10,
        timing=Timing(67.0, 67.0, 67.0, 5),
        fixed=3.0,
    )


def test_nothing_fixed_is_below_zero() -> None:
    """More than in proportion is noise, or caches: rows are not made dearer by it."""
    assert line_through((2, 4), (1.0, 4.0)) == Line(0.0, 1.0)


def test_no_row_is_faster_than_its_operations() -> None:
    slow_by_chance = [sample(2, 8.0), sample(4, 8.0)]
    pace = (7.0 / 10.0 + 8.0 / 5.0) / 4
    whole = extrapolate(slow_by_chance, 64, REACH)
    assert whole.timing.median == pytest.approx(8.0 + 60 * pace)
    assert line_through((2, 4), (9.0, 8.0)) == Line(8.0, 0.0)


def test_where_the_machine_beats_its_calibration_the_rows_are_in_proportion() -> None:
    assert line_through((2, 4), (0.5, 1.0), least=7.0) == Line(0.0, 0.25)


def test_what_two_times_may_be_off_by_is_told_at_the_far_end() -> None:
    """The whole is 7 times the one less 6 times the other."""
    fewer, more = sample(2, 4.0, distance=0.4), sample(4, 6.0, distance=0.3)
    timing = extrapolate([fewer, more], 16, REACH).timing
    assert timing.median == pytest.approx(18.0)
    assert timing.distance == pytest.approx(((7 * 0.3) ** 2 + (6 * 0.4) ** 2) ** 0.5)
