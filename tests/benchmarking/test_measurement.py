"""The rows that are run, the extrapolation to the whole batch, and the measurement itself."""

from fractions import Fraction

import pytest
import torch
from bench_examples import FakeClock

from tokenworlds.benchmarking import measurement
from tokenworlds.benchmarking.measurement import (
    Line,
    Measurement,
    Plan,
    Probe,
    Sample,
    extrapolate,
    fit_line,
    fit_rows,
    halvings,
    measure_workloads,
    read_fraction,
    take_fraction,
)
from tokenworlds.benchmarking.meters import Calibration, Flops, MemoryUse, Task, Timing
from tokenworlds.benchmarking.workloads import Kind, Workload
from tokenworlds.core.errors import UserError

GIB = 2**30
RATES = Calibration(seconds=0.5, spread=0.0, matmul_rate=10.0, convolution_rate=5.0)
FAST = Calibration(seconds=0.5, spread=0.0, matmul_rate=1e6, convolution_rate=1e5)


class AffineUpdate:
    """An update with a fixed time and a time per row, and with memory per row."""

    def __init__(self, seconds: tuple[float, float], gib: float, available: float | None) -> None:
        self.seconds, self.gib = seconds, gib
        self.available = None if available is None else round(available * GIB)
        self.tried: list[int] = []

    def probe(self, rows: int) -> Probe:
        self.tried.append(rows)
        fixed, each = self.seconds
        peak = GIB + round(self.gib * rows * GIB)
        return Probe(rows, fixed + each * rows, MemoryUse(GIB, peak, self.available))


@pytest.mark.parametrize(
    ("batch", "rows"),
    [
        (16, [1, 2, 4, 8, 16]),
        (1024, [16, 32, 64, 128, 256, 512, 1024]),
        (1, [1]),
        (5, [1, 2, 3, 5]),
    ],
)
def test_a_batch_is_halved_at_most_six_times(batch: int, rows: list[int]) -> None:
    assert halvings(batch) == rows


def test_a_batch_that_fits_is_run_whole() -> None:
    update = AffineUpdate((0.0, 0.1), 0.0, None)
    assert fit_rows(64, 10.0, update.probe) == 64
    assert update.tried == [1]


def test_the_largest_part_within_the_time_limit_is_run() -> None:
    assert fit_rows(64, 10.0, AffineUpdate((0.0, 0.5), 0.0, None).probe) == 16


def test_two_probes_reveal_a_fixed_cost() -> None:
    update = AffineUpdate((1.0, 0.1), 0.0, None)
    assert fit_rows(64, 10.0, update.probe) == 64
    assert update.tried == [1, 8]


def test_at_least_two_rows_are_run_if_memory_allows() -> None:
    update = AffineUpdate((30.0, 20.0), 0.001, 20.0)
    assert fit_rows(64, 10.0, update.probe) == 2
    assert fit_rows(64, 10.0, AffineUpdate((30.0, 20.0), 6.0, 20.0).probe) == 1


def test_at_most_half_of_the_memory_is_used() -> None:
    update = AffineUpdate((0.0, 0.001), 1.0, 20.0)
    assert fit_rows(16, 10.0, update.probe) == 8
    assert max(update.tried) <= 8


def test_an_update_that_never_fits_is_run_on_the_fewest_rows() -> None:
    assert fit_rows(64, 10.0, AffineUpdate((0.0, 30.0), 0.0, None).probe) == 2
    assert fit_rows(64, 10.0, AffineUpdate((0.0, 0.1), 30.0, 20.0).probe) == 1


def test_fractions_are_read_in_several_notations() -> None:
    assert read_fraction("auto") is None
    assert read_fraction("1/4") == read_fraction("0.25") == Fraction(1, 4)
    assert (take_fraction(16, Fraction(1, 4)), take_fraction(3, Fraction(1, 8))) == (4, 1)
    for text in ("0", "2", "-1/2", "half", "1/0", "nan"):
        with pytest.raises(UserError, match="--fraction takes auto, or a fraction"):
            read_fraction(text)


def sample(rows: int, seconds: float, memory: int = 0, half_range: float = 0.0) -> Sample:
    """One matmul operation for each row, a tenth of a second at full speed, and 3 fixed."""
    timing = Timing(seconds, seconds - half_range, seconds + half_range, 5)
    return Sample(rows, Flops(3.0 + rows, 2.0 * rows), MemoryUse(100, 100 + memory, None), timing)


def test_a_single_sample_is_scaled_in_proportion() -> None:
    whole, fixed = extrapolate([sample(4, 7.0, memory=50)], 16, RATES)
    timing = Timing(28.0, 28.0, 28.0, 5)
    assert whole == Sample(16, Flops(28.0, 32.0), MemoryUse(100, 300, None), timing)
    assert fixed == 0.0
    shrunk, _ = extrapolate([sample(4, 7.0, memory=-10)], 16, RATES)
    assert shrunk.memory.peak == 100


def test_an_affine_cost_is_recovered_exactly() -> None:
    whole, fixed = extrapolate([sample(2, 5.0, memory=50), sample(4, 7.0, memory=70)], 64, RATES)
    assert whole == Sample(
        rows=64,
        flops=Flops(67.0, 128.0),
        memory=MemoryUse(100, 100 + 30 + 64 * 10, None),
        timing=Timing(67.0, 67.0, 67.0, 5),
    )
    assert fixed == 3.0


def test_the_fixed_cost_is_never_negative() -> None:
    """Growth beyond proportion is noise or caches and does not raise the slope."""
    assert fit_line((2, 4), (1.0, 4.0)) == Line(0.0, 1.0)


def test_no_row_is_faster_than_its_operations() -> None:
    slow_by_chance = [sample(2, 8.0), sample(4, 8.0)]
    min_slope = (7.0 / 10.0 + 8.0 / 5.0) / 4
    whole, _ = extrapolate(slow_by_chance, 64, RATES)
    assert whole.timing.median == pytest.approx(8.0 + 60 * min_slope)
    assert fit_line((2, 4), (9.0, 8.0)) == Line(8.0, 0.0)


def test_a_cost_below_the_calibration_is_proportional() -> None:
    assert fit_line((2, 4), (0.5, 1.0), min_slope=7.0) == Line(0.0, 0.25)


def test_extrapolation_multiplies_the_spread() -> None:
    """The whole is 7 times the larger sample minus 6 times the smaller."""
    fewer, more = sample(2, 4.0, half_range=0.4), sample(4, 6.0, half_range=0.3)
    whole, _ = extrapolate([fewer, more], 16, RATES)
    assert whole.timing.median == pytest.approx(18.0)
    assert whole.timing.half_range == pytest.approx(((7 * 0.3) ** 2 + (6 * 0.4) ** 2) ** 0.5)


class FakeBench:
    """Workloads on a fake clock: each row takes a second and a matmul, plus `overhead` seconds."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.clock, self.overhead = FakeClock(monkeypatch), 0.0
        self.log: list[str] = []
        monkeypatch.setattr(measurement, "calibrate", self.calibrate)

    def workload(self, name: str, kind: Kind, rows: int, learner: str = "") -> Workload:
        return Workload(name, kind, rows, 10, lambda part: self.prepare(name, part), learner)

    def prepare(self, name: str, rows: int) -> Task:
        matrix = torch.ones(10, 10)

        def task() -> None:
            self.log.append(name)
            self.clock.now += self.overhead + rows
            torch.stack([matrix] * rows) @ matrix

        return task

    def calibrate(self) -> Calibration:
        self.log.append("calibration")
        return FAST

    def measure(self, workloads: list[Workload], plan: Plan) -> list[Measurement]:
        return list(measure_workloads(workloads, plan))


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> FakeBench:
    return FakeBench(monkeypatch)


@pytest.mark.parametrize("overhead", [0.0, 3.0])
def test_the_whole_is_extrapolated_from_a_part_and_half_of_it(
    overhead: float, bench: FakeBench
) -> None:
    bench.overhead = overhead
    (found,) = bench.measure([bench.workload("world", "update", 16)], Plan(5.0, Fraction(1, 4)))
    assert (found.batch, found.rows, found.half_rows, found.is_extrapolated) == (16, 4, 2, True)
    assert found.seconds == Timing(16.0 + overhead, 16.0 + overhead, 16.0 + overhead, 3)
    assert found.fixed_seconds == overhead
    assert found.flops == 16 * 2000


@pytest.mark.parametrize(("rows", "half_rows"), [(1, 0), (2, 1), (5, 2), (8, 4), (16, 0)], ids=str)
def test_half_the_rows_are_run_too_unless_all_or_one_are(
    rows: int, half_rows: int, bench: FakeBench
) -> None:
    (found,) = bench.measure([bench.workload("world", "update", 16)], Plan(1.0, Fraction(rows, 16)))
    assert (found.rows, found.half_rows) == (rows, half_rows)


def test_numbers_are_of_the_whole_batch(bench: FakeBench) -> None:
    (found,) = bench.measure([bench.workload("world", "update", 16)], Plan(5.0, Fraction(1, 4)))
    assert (found.seconds.median, found.seconds.repeats) == (16.0, 3)
    assert found.cal == 32.0
    assert found.steps_per_second == 10.0
    assert found.flops == 16 * 2000
    assert found.utilisation == pytest.approx(16 * 2000 / 1e6 / 16.0)
    assert found.calibration.seconds == FAST.seconds
    assert 0 <= found.memory_growth <= found.memory


def test_the_calibration_runs_right_before_and_after_each_measurement(bench: FakeBench) -> None:
    workloads = [bench.workload(name, "update", 2) for name in ("world", "behaviour")]
    bench.measure(workloads, Plan(1.0, Fraction(1)))
    # The first update allocates the optimiser's state, the second counts operations and memory.
    log = [*["world"] * 2, "calibration", *["world"] * 3, "calibration"]
    assert bench.log == [*log, *(word.replace("world", "behaviour") for word in log)]


def test_a_single_row_stands_for_the_batch_in_proportion(bench: FakeBench) -> None:
    bench.overhead = 1.0
    (found,) = bench.measure([bench.workload("world", "update", 16)], Plan(5.0, Fraction(1, 16)))
    assert (found.rows, found.half_rows, found.fixed_seconds) == (1, 0, 0.0)
    assert found.seconds.median == 32.0


def test_the_rows_that_fit_are_run_and_the_same_fraction_of_a_dream(bench: FakeBench) -> None:
    workloads = [
        bench.workload("world", "update", 4, "world"),
        bench.workload("behaviour", "update", 64, "behaviour"),
        bench.workload("autoencoder", "autoencoder", 4, "world"),
        bench.workload("dream", "dream", 16, "behaviour"),
        bench.workload("acting", "acting", 1),
        bench.workload("environment", "environment", 16),
    ]
    found = bench.measure(workloads, Plan(9.0))
    assert [each.rows for each in found] == [4, 8, 4, 2, 1, 16]
    assert [each.seconds.median for each in found] == [4.0, 64.0, 4.0, 16.0, 1.0, 16.0]
