"""Reports as lines of text."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction

from tokenworlds.agent import BEHAVIOUR, JOINT
from tokenworlds.benchmarking.launches import Counted
from tokenworlds.benchmarking.measurement import Measurement
from tokenworlds.benchmarking.report import (
    BASELINE,
    BenchEnvironment,
    BenchReport,
    Change,
    Target,
    speedups,
)
from tokenworlds.benchmarking.scaling import (
    AxisStart,
    Curve,
    Event,
    Point,
    Skipped,
    read_at,
    small_base,
)
from tokenworlds.benchmarking.workloads import ENCODING, WORLD

MIB = 2**20
DECIMALS: Mapping[float, int] = {100: 0, 10: 1, 1: 2, 0.1: 3}
COST = {"time": 12, "spread": 8, "cal": 10, "GFLOP": 10}
COLUMNS = {"rows x steps": 14, "measured": 10, **COST, "util.": 8, "memory": 12, "steps/s": 12}
LAUNCH_COLUMNS = {"operations": 12, "waits": 8}
SCALING_COLUMNS = {**COST, "memory": 12, "parameters": 14, "discretisation": 16}
"""Headings and widths."""


def row(name: str, cells: Iterable[str], columns: Mapping[str, int]) -> str:
    aligned = [f"{cell:>{width}}" for cell, width in zip(cells, columns.values(), strict=True)]
    return f"  {name:12}{''.join(aligned)}"


def number(value: float) -> str:
    """Three significant digits, or all digits before the decimal point."""
    if value == 0:
        return "0"
    decimals = next((places for bound, places in DECIMALS.items() if abs(value) >= bound), 4)
    return f"{value:,.{decimals}f}" if abs(value) >= 1e-3 else f"{value:.1e}"


def duration(seconds: float) -> str:
    return f"{number(seconds)} s" if seconds >= 1 else f"{number(1e3 * seconds)} ms"


def heading(environment: BenchEnvironment) -> str:
    threads = f"{environment.threads} thread{'' if environment.threads == 1 else 's'}"
    return f"{environment.env}, {threads}, {environment.seconds:g} s for each measurement"


def cost_cells(measurement: Measurement, mark: str = "") -> list[str]:
    return [
        mark + duration(measurement.seconds.median),
        f"±{measurement.seconds.spread:.0%}",
        mark + number(measurement.cal),
        number(measurement.flops / 1e9),
    ]


def measurement_line(measurement: Measurement) -> str:
    """One measurement; a ~ marks extrapolated values."""
    mark = "~" if measurement.is_extrapolated else ""
    part = Fraction(measurement.rows, measurement.batch)
    cells = [
        f"{measurement.batch} x {measurement.steps}",
        str(part) if measurement.is_extrapolated else "all",
        *cost_cells(measurement, mark),
        f"{measurement.utilisation:.0%}" if measurement.flops else "-",
        f"{mark}{measurement.memory / MIB:,.0f} MiB",
        f"{measurement.steps_per_second:,.0f}",
    ]
    return row(measurement.name, cells, COLUMNS)


def step_lines(report: BenchReport) -> Iterator[str]:
    """The cost of each learner for one environment step."""
    cost = report.per_step
    for name, cal in cost.cal.items():
        unit = "batches" if name == ENCODING else "updates"
        frequency = f"{cost.updates[name]:>14.4f} {unit} per environment step"
        yield f"  {name:12}{frequency}: {number(cal)} cal"
    calibrations = [each.calibration.seconds for each in report.measurements]
    yield f"  one cal took {duration(min(calibrations))} to {duration(max(calibrations))}"


def summary_lines(reports: Sequence[BenchReport]) -> Iterator[str]:
    """All recipes: cost of an environment step, in total and without the autoencoder."""
    yield f"\n{'per environment step':30}{'cal':>10}{'time':>12}{f'against {BASELINE}':>16}"
    costs = [report.per_step for report in reports]
    yield from cost_lines(reports, [(cost.total_cal, cost.total_seconds) for cost in costs])
    yield "without the autoencoder"
    rests = [(cost.cal_without_autoencoder, cost.seconds_without_autoencoder) for cost in costs]
    yield from cost_lines(reports, rests)
    if BASELINE not in [report.recipe for report in reports]:
        yield f"  add {BASELINE} to the recipes to see speedups"


def cost_lines(
    reports: Sequence[BenchReport], costs: Sequence[tuple[float, float]]
) -> Iterator[str]:
    ratios = speedups([report.recipe for report in reports], [cal for cal, _ in costs])
    for report, (cal, seconds), ratio in zip(reports, costs, ratios, strict=True):
        against = "-" if ratio is None else f"{number(ratio)} x"
        name = f"{report.recipe} ({report.size})"
        yield f"  {name:28}{number(cal):>10}{duration(seconds):>12}{against:>16}"


def change_lines(changes: Sequence[Change], notes: Sequence[str], source: str) -> Iterator[str]:
    yield f"\nagainst {source}: cal before, cal now, speedup"
    yield from (f"  note: {note}" for note in notes)
    for change in changes:
        name = f"{change.recipe} ({change.size}) {change.name}"
        remark = f"   {change.remark}" if change.remark else ""
        before, now = number(change.before), number(change.now)
        yield f"  {name:44}{before:>10}{now:>10}{f'{number(change.ratio)} x':>12}{remark}"
    if not changes:
        yield "  no recipe is in both at the same size"


def base_line(target: Target) -> str:
    """A recipe, and the numbers that stay fixed while one of them varies."""
    base = small_base(target.recipe)
    shapes = [
        f"{base.learning[name].batch} x {base.learning[name].length} for {name}"
        for name in (WORLD, BEHAVIOUR, JOINT)
        if name in base.learning
    ]
    horizon = read_at(base, "behaviour.horizon")
    return f"\n{target.name} ({target.size}): {', '.join(shapes)}, horizon {horizon}"


def scaling_lines(event: Event) -> Iterator[str]:
    match event:
        case AxisStart(axis, None):
            yield f"\n  {axis.name}: not in this recipe"
        case AxisStart(axis):
            yield "\n" + row(axis.name, SCALING_COLUMNS, SCALING_COLUMNS)
        case Skipped(value, reason):
            yield f"  {value:<12}  skipped: {reason}"
        case Point(value, measurement, parameters, discretisation):
            cells = [
                *cost_cells(measurement),
                f"{measurement.memory_growth / MIB:,.0f} MiB",
                *("-" if count is None else f"{count:,}" for count in (parameters, discretisation)),
            ]
            yield row(str(value), cells, SCALING_COLUMNS)
        case Curve():
            yield from exponent_lines(event)


def exponent_lines(curve: Curve) -> Iterator[str]:
    """The exponents of a curve, under the columns of their quantities."""
    if len(curve.points) < 2:
        return
    for index, name in enumerate(("exponent", "last two")):
        cells = ["-" if pair is None else f"{pair[index]:.2f}" for pair in curve.exponents.values()]
        yield row(name, ["", "", *cells], SCALING_COLUMNS)


def launch_lines(counted: Counted) -> Iterator[str]:
    """Operations and waits, then the source line of each wait."""
    launches = counted.launches
    cells = [f"{launches.operations:,.0f}", str(launches.waits.total())]
    yield row(counted.name, cells, LAUNCH_COLUMNS)
    for place, count in launches.waits.most_common():
        yield f"    waits {count} x at {place}" if count > 1 else f"    waits at {place}"
