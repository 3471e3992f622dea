"""Measure workloads: choose how many rows to run, time them, extrapolate to the whole batch."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from math import hypot

from tokenworlds.benchmarking.meters import (
    Calibration,
    Flops,
    MemoryUse,
    Timing,
    average_calibrations,
    calibrate,
    count_flops,
    time_once,
    time_repeats,
    watch_memory,
)
from tokenworlds.benchmarking.workloads import Kind, Workload
from tokenworlds.core.errors import UserError

AUTO = "auto"
MAX_HALVINGS = 6


@dataclass(frozen=True, slots=True)
class Plan:
    """`seconds` of repeats for each measurement, on a `fraction` of each batch (None: auto)."""

    seconds: float
    fraction: Fraction | None = None


@dataclass(frozen=True, slots=True)
class Measurement:
    """What a workload of `batch` rows and `steps` steps costs; all numbers are of the whole batch.

    `rows` of the batch were run, and also `half_rows` unless 0: two points separate the cost per
    row from the `fixed_seconds`. `utilisation` is the time that the operations would take at the
    rates of the calibration, as a share of the time taken. `memory` is the peak of the process,
    `memory_growth` what the workload added, in bytes.
    """

    name: str
    kind: Kind
    learner: str
    batch: int
    steps: int
    rows: int
    half_rows: int
    fixed_seconds: float
    seconds: Timing
    cal: float
    steps_per_second: float
    flops: float
    utilisation: float
    memory: int
    memory_growth: int
    calibration: Calibration

    @property
    def is_extrapolated(self) -> bool:
        return self.rows < self.batch


def measure_workloads(workloads: Sequence[Workload], plan: Plan) -> Iterator[Measurement]:
    chosen: dict[str, Fraction] = {}
    for workload in workloads:
        if workload.kind in ("update", "autoencoder"):
            # The first update allocates the optimiser's state.
            workload.prepare(halvings(workload.rows)[0])()
        rows = choose_rows(workload, plan, chosen)
        chosen[workload.name] = Fraction(rows, workload.rows)
        yield measure_workload(workload, rows, plan.seconds)


def measure_workload(workload: Workload, rows: int, seconds: float) -> Measurement:
    """Count operations and memory in a first pass, which is also the warm-up, then time repeats."""
    parts = [rows] if rows in (1, workload.rows) else [rows // 2, rows]
    tasks = [workload.prepare(part) for part in parts]
    counts = [watch_memory(partial(count_flops, task)) for task in tasks]
    before = calibrate()
    timings = time_repeats(tasks, seconds)
    calibration = average_calibrations(before, calibrate())
    samples = [
        Sample(part, *count, timing)
        for part, count, timing in zip(parts, counts, timings, strict=True)
    ]
    whole, fixed_seconds = extrapolate(samples, workload.rows, calibration)
    median = whole.timing.median
    return Measurement(
        name=workload.name,
        kind=workload.kind,
        learner=workload.learner,
        batch=workload.rows,
        steps=workload.steps,
        rows=rows,
        half_rows=parts[0] if len(parts) > 1 else 0,
        fixed_seconds=fixed_seconds,
        seconds=whole.timing,
        cal=median / calibration.seconds,
        steps_per_second=workload.rows * workload.steps / median,
        flops=whole.flops.total,
        utilisation=whole.flops.seconds(calibration) / median,
        memory=whole.memory.peak,
        memory_growth=whole.memory.growth,
        calibration=calibration,
    )


@dataclass(frozen=True, slots=True)
class Probe:
    """A single run on so many rows."""

    rows: int
    seconds: float
    memory: MemoryUse

    def has_memory_for(self, rows: int) -> bool:
        return self.memory.allows(rows / self.rows)


def choose_rows(workload: Workload, plan: Plan, chosen: Mapping[str, Fraction]) -> int:
    """How many rows to run; a part of an update runs the same fraction as the update."""
    if workload.kind != "update":
        return take_fraction(workload.rows, chosen.get(workload.learner, Fraction(1)))
    if plan.fraction is not None:
        return take_fraction(workload.rows, plan.fraction)

    def probe(rows: int) -> Probe:
        return Probe(rows, *watch_memory(partial(time_once, workload.prepare(rows))))

    return fit_rows(workload.rows, plan.seconds, probe)


def read_fraction(text: str) -> Fraction | None:
    """The value of `--fraction`: 1, 1/4 or 0.25; None for `auto`."""
    if text == AUTO:
        return None
    try:
        fraction = Fraction(text)
    except (ValueError, ZeroDivisionError):
        fraction = Fraction(0)
    if not 0 < fraction <= 1:
        raise UserError(
            f"--fraction takes auto, or a fraction of the batch such as 1/4, not {text!r}"
        )
    return fraction


def take_fraction(batch: int, fraction: Fraction) -> int:
    return max(1, round(batch * fraction))


def halvings(batch: int) -> list[int]:
    """A batch halved up to six times, in ascending order."""
    return sorted({-(-batch // 2**count) for count in range(MAX_HALVINGS + 1)})


def fit_rows(batch: int, seconds: float, probe: Callable[[int], Probe]) -> int:
    """The largest halving of a batch that is predicted to stay within time and memory.

    The smallest is always accepted, and the second smallest if memory allows: one size alone does
    not show what grows with the rows.
    """
    sizes, probes = halvings(batch), list[Probe]()
    rows = sizes[0]
    while rows < batch:
        probes.append(probe(rows))
        larger = [more for more in sizes if more > rows and fits(probes[-2:], more, seconds)]
        if not larger and len(probes) == 1 and probes[0].has_memory_for(sizes[1]):
            larger = [sizes[1]]
        if not larger:
            return rows
        rows = larger[-1]
    return rows


def fits(probes: Sequence[Probe], rows: int, seconds: float) -> bool:
    """Whether more rows stay within time and memory; memory grows at most in proportion to them."""
    time = fit_line([each.rows for each in probes], [each.seconds for each in probes])
    return time.at(rows) <= seconds and probes[-1].has_memory_for(rows)


@dataclass(frozen=True, slots=True)
class Line:
    """A cost that is `fixed` plus `slope` for each row."""

    fixed: float
    slope: float

    def at(self, rows: int) -> float:
        return self.fixed + self.slope * rows


@dataclass(frozen=True, slots=True)
class Sample:
    """What a workload took on so many rows."""

    rows: int
    flops: Flops
    memory: MemoryUse
    timing: Timing


def fit_line(rows: Sequence[int], costs: Sequence[float], min_slope: float = 0.0) -> Line:
    """The line through the cost of the most rows; one point gives a proportional cost.

    A second point, of fewer rows, gives the slope within two bounds. The fixed cost is not
    negative, so the slope is at most proportional. The slope is at least `min_slope`, so that a
    slow outlier on fewer rows does not make further rows free.
    """
    slope = costs[-1] / rows[-1]
    if len(rows) > 1:
        measured = (costs[-1] - costs[0]) / (rows[-1] - rows[0])
        slope = min(max(measured, min_slope), slope)
    return Line(costs[-1] - slope * rows[-1], slope)


def extrapolate(
    samples: Sequence[Sample], batch: int, calibration: Calibration
) -> tuple[Sample, float]:
    """The whole batch and its fixed seconds, from a sample of some rows and one of half of them."""
    most, rows = samples[-1], [each.rows for each in samples]
    flops = Flops(
        fit_line(rows, [each.flops.matmul for each in samples]).at(batch),
        fit_line(rows, [each.flops.convolution for each in samples]).at(batch),
    )
    growth = fit_line(rows, [float(each.memory.growth) for each in samples]).at(batch)
    memory = most.memory.with_growth(growth)
    if len(samples) == 1:
        return Sample(batch, flops, memory, most.timing.scaled(batch / most.rows)), 0.0
    # A row cannot take less time than its operations at full speed.
    min_slope = most.flops.seconds(calibration) / most.rows
    line = fit_line(rows, [each.timing.median for each in samples], min_slope)
    timing = extrapolate_timing(line, samples[0], most, batch)
    return Sample(batch, flops, memory, timing), line.fixed


def extrapolate_timing(line: Line, less: Sample, most: Sample, batch: int) -> Timing:
    """The time on a line; the errors of both samples grow with the distance to them."""
    distance = (batch - most.rows) / (most.rows - less.rows)
    error = hypot((1 + distance) * most.timing.half_range, distance * less.timing.half_range)
    median = line.at(batch)
    lower = max(median - error, most.timing.lower)
    return Timing(median, lower, median + error, most.timing.repeats)
