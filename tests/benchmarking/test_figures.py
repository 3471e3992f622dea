"""A figure is what was timed, brought to the whole, in seconds and in cal."""

from fractions import Fraction

import pytest
import torch
from fake_clock import FakeClock

from tokenworlds.benchmarking.calibration import Calibration
from tokenworlds.benchmarking.figures import Figure, Plan, take_figures
from tokenworlds.benchmarking.subjects import Kind, Subject
from tokenworlds.benchmarking.timing import Act, Clock, Timing

REACH = Calibration(seconds=0.5, spread=0.0, matmul=1e6, convolution=1e5)


class Bench:
    """Work on a clock of its own: each row takes a second and a product of matrices.

    `overhead` are seconds that any number of rows takes.
    """

    def __init__(self, overhead: float = 0.0) -> None:
        self.clock, self.overhead = FakeClock(), overhead
        self.told: list[str] = []

    def subject(self, name: str, kind: Kind, rows: int) -> Subject:
        return Subject(name, kind, rows, 10, lambda part: self.prepare(name, part))

    def prepare(self, name: str, rows: int) -> Act:
        matrix = torch.ones(10, 10)

        def act() -> None:
            self.told.append(name)
            self.clock.now += self.overhead + rows
            torch.stack([matrix] * rows) @ matrix

        return act

    def calibrate(self, clock: Clock) -> Calibration:
        assert clock is self.clock
        self.told.append("calibration")
        return REACH

    def take(self, subjects: list[Subject], plan: Plan) -> list[Figure]:
        return list(take_figures(subjects, plan, self.calibrate, self.clock))


@pytest.mark.parametrize("overhead", [0.0, 3.0])
def test_the_whole_is_told_from_a_part_and_half_of_it(overhead: float) -> None:
    bench = Bench(overhead)
    (figure,) = bench.take([bench.subject("world", "update", 16)], Plan(5.0, Fraction(1, 4)))
    assert (figure.batch, figure.rows, figure.fewer, figure.is_scaled) == (16, 4, 2, True)
    assert figure.seconds == Timing(16.0 + overhead, 16.0 + overhead, 16.0 + overhead, 3)
    assert figure.fixed == overhead
    assert figure.flops == 16 * 2000


def test_numbers_are_those_of_the_whole() -> None:
    bench = Bench()
    (figure,) = bench.take([bench.subject("world", "update", 16)], Plan(5.0, Fraction(1, 4)))
    assert (figure.seconds.median, figure.seconds.repeats) == (16.0, 3)
    assert figure.cal == 32.0
    assert figure.steps_per_second == 10.0
    assert figure.flops == 16 * 2000
    assert figure.share == pytest.approx(16 * 2000 / 1e6 / 16.0)
    assert figure.calibration.seconds == REACH.seconds


def test_the_calibration_is_timed_right_before_and_after_each_figure() -> None:
    bench = Bench()
    subjects = [bench.subject(name, "update", 2) for name in ("world", "behaviour")]
    bench.take(subjects, Plan(1.0, Fraction(1)))
    # The first update makes the optimiser's averages, the second counts operations and memory.
    taken = [*["world"] * 2, "calibration", *["world"] * 3, "calibration"]
    assert bench.told == [*taken, *(word.replace("world", "behaviour") for word in taken)]


def test_a_single_row_stands_for_all_in_proportion() -> None:
    bench = Bench(overhead=1.0)
    (figure,) = bench.take([bench.subject("world", "update", 16)], Plan(5.0, Fraction(1, 16)))
    assert (figure.rows, figure.fewer, figure.fixed) == (1, 0, 0.0)
    assert figure.seconds.median == 32.0


def test_what_fits_is_measured_and_a_dream_as_much_as_the_update_it_is_part_of() -> None:
    bench = Bench()
    subjects = [
        bench.subject("world", "update", 4),
        bench.subject("behaviour", "update", 64),
        bench.subject("autoencoder", "autoencoder", 4),
        bench.subject("dream", "dream", 64),
        bench.subject("acting", "acting", 1),
        bench.subject("environment", "environment", 16),
    ]
    figures = bench.take(subjects, Plan(9.0))
    assert [figure.rows for figure in figures] == [4, 8, 4, 8, 1, 16]
    assert [figure.seconds.median for figure in figures] == [4.0, 64.0, 4.0, 64.0, 1.0, 16.0]
