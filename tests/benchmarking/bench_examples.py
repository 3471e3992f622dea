"""Reports and curves with round numbers, and a clock under the control of a test."""

from collections.abc import Callable, Mapping

import pytest

from tokenworlds.benchmarking import meters
from tokenworlds.benchmarking.measurement import Measurement
from tokenworlds.benchmarking.meters import Calibration, Timing
from tokenworlds.benchmarking.report import BenchEnvironment, BenchReport, StepCost
from tokenworlds.benchmarking.scaling import QUANTITIES, Curve, Point, ScalingReport, Skipped
from tokenworlds.benchmarking.workloads import Kind

CALIBRATION = Calibration(seconds=0.25, spread=0.01, matmul_rate=2e11, convolution_rate=1e11)
ENVIRONMENT = BenchEnvironment(
    env="toy:catch",
    protocol="toy",
    threads=2,
    seconds=10.0,
    machine={"processor": "abacus", "packages": {"torch": "2.13.0"}},
)


class FakeClock:
    """Replaces the clock of the meters; advances only when a task says how long it took."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        monkeypatch.setattr(meters, "perf_counter", self)

    def __call__(self) -> float:
        return self.now

    def task(self, *seconds: float) -> Callable[[], None]:
        """A task that takes these times in turn, and then always the last."""
        left = list(seconds)

        def run() -> None:
            self.now += left.pop(0) if len(left) > 1 else left[0]

        return run


def measurement(
    name: str,
    seconds: float,
    kind: Kind = "update",
    rows: int = 16,
    learner: str = "",
    memory_growth: int = 2**20,
) -> Measurement:
    """16 rows of 64 steps in so many seconds."""
    return Measurement(
        name=name,
        kind=kind,
        learner=learner or name,
        batch=16,
        steps=64,
        rows=rows,
        half_rows=0 if rows in (1, 16) else rows // 2,
        fixed_seconds=0.0,
        seconds=Timing(seconds, 0.9 * seconds, 1.1 * seconds, 5),
        cal=seconds / CALIBRATION.seconds,
        steps_per_second=1024 / seconds,
        flops=3e9,
        utilisation=0.25,
        memory=512 * 2**20,
        memory_growth=memory_growth,
        calibration=CALIBRATION,
    )


def report(recipe: str, seconds: Mapping[str, float]) -> BenchReport:
    """Each learner is updated every second step."""
    measurements = [measurement(name, each) for name, each in seconds.items()]
    cal = {each.name: each.cal / 2 for each in measurements}
    halves = {name: each / 2 for name, each in seconds.items()}
    updates = dict.fromkeys(seconds, 0.5)
    total, time = sum(cal.values()), sum(halves.values())
    rest = (total - cal.get("tokenizer", 0.0), time - halves.get("tokenizer", 0.0))
    cost = StepCost(updates, cal, halves, total, time, *rest)
    return BenchReport(recipe, "paper", measurements, cost)


def point(
    value: int, seconds: float, memory: int = 2**20, discretisation: int | None = 2_000_000
) -> Point:
    """So many seconds, and four times as many cal."""
    cost = measurement("world", seconds, memory_growth=memory)
    return Point(value, cost, parameters=5_000_000, discretisation=discretisation)


def curve(axis: str, *values: int, discretisation: int | None = 2_000_000) -> Curve:
    """A twentieth of a second for each unit, and one value that is skipped."""
    points = [point(value, value / 20, discretisation=discretisation) for value in values]
    skipped = [Skipped(2 * values[-1], "it is too much")]
    exponents = dict.fromkeys(QUANTITIES, (1.0, 1.0))
    return Curve(axis, "world", f"the.{axis}", points, skipped, exponents)


def scaling_report(recipe: str, discretisation: int | None = 2_000_000) -> ScalingReport:
    """Two axes out of five."""
    curves = [
        curve("batch", 1, 2, 4, discretisation=discretisation),
        curve("resolution", 64, 96, discretisation=discretisation),
    ]
    return ScalingReport(recipe, "paper", curves, ["length", "vocabulary", "horizon"])
