"""How cost grows, in lines for people."""

from collections.abc import Iterator

from tokenworlds.benchmarking.axes import Axis, base_of, read_at
from tokenworlds.benchmarking.growth import Curve, Growth, Omission, Point
from tokenworlds.benchmarking.session import Candidate
from tokenworlds.benchmarking.table import MIB, duration, number

COLUMNS = (
    f"{'time':>12}{'spread':>8}{'cal':>10}{'GFLOP':>10}{'memory':>12}"
    f"{'parameters':>14}{'of codes':>14}"
)


def opening(candidate: Candidate) -> str:
    """The line over all of a recipe, with the shapes that one number at a time is varied from."""
    base = base_of(candidate.recipe)
    shapes = [
        f"{each.batch} x {each.length} for {name}"
        for name, each in base.learning.items()
        if name in ("world", "behaviour")
    ]
    horizon = read_at(base, "behaviour.horizon")
    return f"\n{candidate.name} ({candidate.size}): {', '.join(shapes)}, horizon {horizon}"


def axis_line(axis: Axis, path: str | None) -> str:
    """The line over a curve."""
    if path is None:
        return f"\n  {axis.name}: this recipe has none to vary"
    return f"\n  {axis.name:10}{COLUMNS}"


def point_line(found: Point | Omission) -> str:
    """One value."""
    if isinstance(found, Omission):
        return f"  {found.value:<10}  left out: {found.why}"
    update = found.update
    codes = "-" if update.discretisation is None else f"{update.discretisation:,}"
    return (
        f"  {found.value:<10}{duration(update.seconds.median):>12}"
        f"{f'±{update.seconds.spread:.0%}':>8}{number(update.cal):>10}"
        f"{number(update.flops / 1e9):>10}{f'{update.memory / MIB:,.0f} MiB':>12}"
        f"{update.parameters:>14,}{codes:>14}"
    )


def growth_lines(curve: Curve) -> Iterator[str]:
    """The powers that the columns above follow."""
    if len(curve.points) < 2:
        return
    for name, which in (("power", "overall"), ("at its end", "end")):
        cells = [cell(curve.growth[quantity], which) for quantity in curve.growth]
        cal, flops, memory, parameters, codes = cells
        yield f"  {name:30}{cal:>10}{flops:>10}{memory:>12}{parameters:>14}{codes:>14}"


def cell(growth: Growth | None, which: str) -> str:
    """A power, if there is one."""
    return "-" if growth is None else f"{getattr(growth, which):.2f}"
