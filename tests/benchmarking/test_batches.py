"""As much of a batch is measured as fits into time and memory, never more."""

from fractions import Fraction

import pytest

from tokenworlds.benchmarking.batches import Probe, fit_rows, ladder, read_fraction, share_of
from tokenworlds.benchmarking.memory import Memory
from tokenworlds.core.errors import UserError

GIB = 2**30


class Work:
    """An update that takes time and memory: some in any case, and more for every row."""

    def __init__(self, seconds: tuple[float, float], gib: float, available: float | None) -> None:
        self.seconds, self.gib = seconds, gib
        self.available = None if available is None else round(available * GIB)
        self.tried: list[int] = []

    def probe(self, rows: int) -> Probe:
        self.tried.append(rows)
        once, each = self.seconds
        grown = GIB + round(self.gib * rows * GIB)
        return Probe(rows, once + each * rows, Memory(GIB, grown, self.available))


@pytest.mark.parametrize(
    ("full", "rows"),
    [
        (16, [1, 2, 4, 8, 16]),
        (1024, [16, 32, 64, 128, 256, 512, 1024]),
        (1, [1]),
        (5, [1, 2, 3, 5]),
    ],
)
def test_a_batch_is_halved_at_most_six_times(full: int, rows: list[int]) -> None:
    assert ladder(full) == rows


def test_a_batch_that_fits_is_measured_whole() -> None:
    work = Work((0.0, 0.1), 0.0, None)
    assert fit_rows(64, 10.0, work.probe) == 64
    assert work.tried == [1]


def test_the_largest_part_within_the_time_is_taken() -> None:
    assert fit_rows(64, 10.0, Work((0.0, 0.5), 0.0, None).probe) == 16


def test_a_cost_that_does_not_grow_is_found_out_from_more_rows() -> None:
    work = Work((1.0, 0.1), 0.0, None)
    assert fit_rows(64, 10.0, work.probe) == 64
    assert work.tried == [1, 8]


def test_two_rows_at_least_tell_what_grows() -> None:
    work = Work((30.0, 20.0), 0.001, 20.0)
    assert fit_rows(64, 10.0, work.probe) == 2
    assert fit_rows(64, 10.0, Work((30.0, 20.0), 6.0, 20.0).probe) == 1


def test_no_more_than_half_of_the_memory_is_taken() -> None:
    work = Work((0.0, 0.001), 1.0, 20.0)
    assert fit_rows(16, 10.0, work.probe) == 8
    assert max(work.tried) <= 8


def test_work_that_never_fits_is_measured_at_the_least() -> None:
    assert fit_rows(64, 10.0, Work((0.0, 30.0), 0.0, None).probe) == 2
    assert fit_rows(64, 10.0, Work((0.0, 0.1), 30.0, 20.0).probe) == 1


def test_shares_are_read_as_users_write_them() -> None:
    assert read_fraction("auto") is None
    assert read_fraction("1/4") == read_fraction("0.25") == Fraction(1, 4)
    assert (share_of(16, Fraction(1, 4)), share_of(3, Fraction(1, 8))) == (4, 1)
    for text in ("0", "2", "-1/2", "half", "1/0", "nan"):
        with pytest.raises(UserError, match="--fraction takes auto, or a share"):
            read_fraction(text)
