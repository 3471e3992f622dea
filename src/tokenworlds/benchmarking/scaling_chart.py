"""How cost grows, as a picture: what an update takes along each axis, and parameters along two."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter, NullLocator

from tokenworlds.benchmarking.axes import AXES
from tokenworlds.benchmarking.growth import Curve
from tokenworlds.benchmarking.scaling import Survey
from tokenworlds.benchmarking.table import number
from tokenworlds.evaluation.pictures import LIGHT, Theme, figure_bytes
from tokenworlds.evaluation.results import replace_file

PANEL = (2.9, 2.75)
"""Inches of each panel."""
MARKERS = "osD^v"
NOTE = (
    "numbers: the power that a curve follows, for the resolution that of the pixels; dots: linear "
    "growth; parameters: those between maps and codes, and of the prior"
)
POWERS = {axis.name: axis.power for axis in AXES}


@dataclass(frozen=True, slots=True)
class Panel:
    """A quantity along an axis, in units of so much."""

    axis: str
    quantity: str
    label: str
    unit: float = 1.0


ROWS = (
    tuple(Panel(axis.name, "cal", "cal for an update") for axis in AXES),
    tuple(Panel(axis.name, "memory", "MiB for an update", 2.0**20) for axis in AXES),
)
PARAMETERS = tuple(
    Panel(axis, "discretisation", "million parameters", 1e6) for axis in ("resolution", "codes")
)
"""Between maps and codes, and of the prior: STEP-VQ's figure 2b has them along the resolution."""


def write_chart(path: Path, surveys: Sequence[Survey], title: str, theme: Theme = LIGHT) -> Path:
    """Draw the panels into a PNG."""
    return replace_file(path, figure_bytes(chart_figure(surveys, title, theme)))


def chart_figure(surveys: Sequence[Survey], title: str, theme: Theme) -> Figure:
    """The figure itself: an axis to a column, parameters in the last one."""
    layout = ConstrainedLayoutEngine(rect=(0.01, 0.02, 0.98, 0.96), wspace=0.04, hspace=0.06)
    columns = len(AXES) + 1
    size = (PANEL[0] * columns, PANEL[1] * 2 + 0.9)
    figure = Figure(figsize=size, dpi=150, facecolor=theme.background, layout=layout)
    grid = figure.subplots(2, columns)
    for row, (panels, last) in enumerate(zip(ROWS, PARAMETERS, strict=True)):
        for axes, panel in zip(grid[row], (*panels, last), strict=True):
            draw_panel(axes, panel, surveys, theme)
    heading = figure.suptitle(title, x=0.012, ha="left", color=theme.text, fontsize=15)
    heading.set(fontweight="bold", parse_math=False)
    figure.supxlabel(NOTE, x=0.012, ha="left", color=theme.muted, fontsize=10)
    names = [f"{survey.recipe} ({survey.size})" for survey in surveys]
    lines = [line for line in grid[0][0].get_lines() if line.get_label() in names]
    figure.legend(handles=lines, loc="upper right", ncols=4, frameon=False, labelcolor=theme.text)
    return figure


def draw_panel(axes: Axes, panel: Panel, surveys: Sequence[Survey], theme: Theme) -> None:
    """A curve for each recipe, with the power that it follows."""
    colours = cycle((theme.strong, theme.soft, theme.best, theme.muted))
    for survey, colour, marker in zip(surveys, colours, cycle(MARKERS), strict=False):
        for curve in curves_of(survey, panel):
            name = f"{survey.recipe} ({survey.size})"
            draw_curve(axes, panel, curve, name, colour=colour, marker=marker)
    dress(axes, panel, ticks_of(surveys, panel), theme)
    if not axes.get_lines():
        axes.text(0.5, 0.5, "none", color=theme.muted, ha="center", transform=axes.transAxes)


def curves_of(survey: Survey, panel: Panel) -> Iterator[Curve]:
    """That of a panel, if the recipe has it."""
    for curve in survey.curves:
        known = [getattr(point.update, panel.quantity) for point in curve.points]
        if curve.axis == panel.axis and known and all(known):
            yield curve


def draw_curve(
    axes: Axes, panel: Panel, curve: Curve, name: str, *, colour: str, marker: str
) -> None:
    """The points, what linear growth to the last of them would be, and the power in a corner."""
    values = [point.value for point in curve.points]
    taken = [getattr(point.update, panel.quantity) / panel.unit for point in curve.points]
    axes.plot(values, taken, label=name, color=colour, marker=marker, markersize=5, lw=1.8)
    power = POWERS[curve.axis]
    linear = [taken[-1] * (value / values[-1]) ** power for value in values]
    axes.plot(values, linear, color=colour, lw=0.9, ls=(0, (1, 2)), alpha=0.7)
    growth = curve.growth[panel.quantity]
    if growth is not None:
        height = 0.04 + 0.1 * len(axes.texts)
        place: dict[str, Any] = {"ha": "right", "transform": axes.transAxes}
        axes.text(0.98, height, f"{growth.overall:.2f}", color=colour, fontsize=10, **place)


def ticks_of(surveys: Sequence[Survey], panel: Panel) -> list[int]:
    """Every value that is drawn."""
    curves = (curve for survey in surveys for curve in curves_of(survey, panel))
    return sorted({point.value for curve in curves for point in curve.points})


def dress(axes: Axes, panel: Panel, ticks: Sequence[int], theme: Theme) -> None:
    """Logarithms on both sides, ticks where something was measured, no frame."""
    axes.set_facecolor(theme.background)
    axes.set_title(panel.label, loc="left", color=theme.text, fontsize=10.5)
    axes.set_xlabel(panel.axis, color=theme.muted, fontsize=10)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.grid(color=theme.grid, lw=0.8)
    axes.set_axisbelow(True)
    axes.tick_params(which="both", colors=theme.muted, length=0, labelsize=9)
    axes.spines[["top", "right", "bottom"]].set_visible(False)
    axes.spines["left"].set_color(theme.grid)
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xticks(ticks, [str(tick) for tick in ticks])
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: number(value)))
    axes.yaxis.set_minor_formatter(NullFormatter())
    axes.margins(x=0.14)
