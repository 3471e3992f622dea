"""Reports as pictures: costs of an environment step as bars, and curves of scaling."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter, NullLocator

from tokenworlds.benchmarking.report import BASELINE, BenchReport, speedups
from tokenworlds.benchmarking.scaling import AXES, Curve, ScalingReport
from tokenworlds.benchmarking.tables import number
from tokenworlds.core.files import replace_file
from tokenworlds.evaluation.curves import add_legend, add_title, style_axes
from tokenworlds.evaluation.pictures import LIGHT, figure_bytes

THEME = LIGHT
WIDTH, HEIGHT, BAR = 8.0, 1.7, 0.42
"""Inches: the width of the chart, the height of a panel without bars, and of each bar."""
NO_RECIPE = "REM"
"""In the published figure, but not a recipe here."""
PUBLISHED = {
    "iris": 1.00,
    "delta-iris": 3.67,
    NO_RECIPE: 4.37,
    "step-vq-t": 9.70,
    "step-vq-iris": 11.20,
}
"""Published speedups over IRIS."""
SOURCE = "published: STEP-VQ, figure 2a, on an L40S"

BAR_LABEL: dict[str, Any] = {"padding": 6, "color": THEME.text, "fontsize": 10}

PANEL = (2.9, 2.75)
"""Inches of a panel of curves."""
MARKERS = "osD^v"
NOTE = (
    "numbers: the exponent of a curve, in pixels for the resolution; dots: linear growth; "
    "parameters: those of the discretisation and of the prior"
)
POWERS = {axis.name: axis.power for axis in AXES}


def write_figure(path: Path, figure: Figure) -> Path:
    return replace_file(path, figure_bytes(figure))


def colours() -> Iterator[str]:
    return cycle((THEME.strong, THEME.soft, THEME.best, THEME.muted))


def cost_figure(reports: Sequence[BenchReport], title: str) -> Figure:
    """Costs of an environment step; below them speedups, if the baseline was measured."""
    heights = [HEIGHT + BAR * len(reports)]
    if BASELINE in [report.recipe for report in reports]:
        heights.append(HEIGHT + BAR * (len(reports) + 1))
    layout = ConstrainedLayoutEngine(rect=(0.015, 0.03, 0.97, 0.94), hspace=0.08)
    size = (WIDTH, sum(heights))
    figure = Figure(figsize=size, dpi=200, facecolor=THEME.background, layout=layout)
    panels = figure.subplots(len(heights), 1, squeeze=False, height_ratios=heights)[:, 0]
    draw_costs(panels[0], reports)
    if len(panels) > 1:
        draw_speedups(panels[1], reports)
    add_title(panels[0], title, THEME, pad=30)
    return figure


def draw_costs(axes: Axes, reports: Sequence[BenchReport]) -> None:
    """A bar for each recipe, stacked from its learners, with the total at its end."""
    places, ends = range(len(reports)), np.zeros(len(reports))
    for name, colour in zip(all_learners(reports), colours(), strict=False):
        parts = [report.per_step.cal.get(name, 0.0) for report in reports]
        bars = axes.barh(places, parts, left=ends, height=0.62, color=colour, label=name)
        ends = ends + parts
    totals = [report.per_step.total_cal for report in reports]
    axes.bar_label(bars, [number(total) for total in totals], **BAR_LABEL)
    label = "cal per environment step"
    finish_bars(axes, [report.recipe for report in reports], 1.15 * max(totals), label)


def all_learners(reports: Sequence[BenchReport]) -> list[str]:
    """All learners, in the order of the recipes that have the most."""
    most_first = sorted((report.per_step.cal for report in reports), key=len, reverse=True)
    return list(dict.fromkeys(name for learners in most_first for name in learners))


def draw_speedups(axes: Axes, reports: Sequence[BenchReport]) -> None:
    """Two bars for each recipe: measured (filled) and published (hatched)."""
    names = [report.recipe for report in reports]
    found = speedups(names, [report.per_step.total_cal for report in reports])
    measured = {name: ratio for name, ratio in zip(names, found, strict=True) if ratio}
    names.append(NO_RECIPE)
    published = {name: PUBLISHED[name] for name in names if name in PUBLISHED}
    filled: dict[str, Any] = {"color": THEME.strong, "label": "measured here"}
    hatched: dict[str, Any] = {"color": "none", "edgecolor": THEME.soft, "label": SOURCE}
    hatched["hatch"] = "////"
    for offset, bars, style in ((-0.19, measured, filled), (0.19, published, hatched)):
        places = [names.index(name) + offset for name in bars]
        ratios = list(bars.values())
        drawn = axes.barh(places, ratios, height=0.36, **style)
        labels = [f"{number(ratio)}\N{MULTIPLICATION SIGN}" for ratio in ratios]
        axes.bar_label(drawn, labels, **BAR_LABEL)
    highest = max(*measured.values(), *published.values())
    finish_bars(axes, names, 1.12 * highest, f"speedup over {BASELINE}")


def finish_bars(axes: Axes, names: Sequence[str], right: float, label: str) -> None:
    """Names of the bars from top to bottom, a legend above them, no frame."""
    axes.set_yticks(range(len(names)), names)
    axes.invert_yaxis()
    axes.set_xlim(0, right)
    axes.set_xlabel(label, color=THEME.muted, fontsize=11)
    add_legend(axes, THEME, columns=4)
    style_axes(axes, THEME, grid="x", spine="left")
    axes.tick_params(axis="y", labelcolor=THEME.text)


@dataclass(frozen=True, slots=True)
class Panel:
    """A quantity along an axis, in multiples of `unit`."""

    axis: str
    quantity: str
    label: str
    unit: float = 1.0


ROWS = (
    (
        *(Panel(axis.name, "cal", "cal per update") for axis in AXES),
        Panel("resolution", "discretisation", "million parameters", 1e6),
    ),
    (
        *(Panel(axis.name, "memory", "MiB per update", 2.0**20) for axis in AXES),
        Panel("vocabulary", "discretisation", "million parameters", 1e6),
    ),
)
"""The last column has the parameters of STEP-VQ's figure 2b."""


def scaling_figure(reports: Sequence[ScalingReport], title: str) -> Figure:
    """A column of panels for each axis, and one for parameters."""
    layout = ConstrainedLayoutEngine(rect=(0.01, 0.02, 0.98, 0.96), wspace=0.04, hspace=0.06)
    columns = len(ROWS[0])
    size = (PANEL[0] * columns, PANEL[1] * 2 + 0.9)
    figure = Figure(figsize=size, dpi=150, facecolor=THEME.background, layout=layout)
    grid = figure.subplots(2, columns)
    for panels, row in zip(ROWS, grid, strict=True):
        for panel, axes in zip(panels, row, strict=True):
            draw_panel(axes, panel, reports)
    heading = figure.suptitle(title, x=0.012, ha="left", color=THEME.text, fontsize=15)
    heading.set(fontweight="bold", parse_math=False)
    figure.supxlabel(NOTE, x=0.012, ha="left", color=THEME.muted, fontsize=10)
    names = [recipe_label(report) for report in reports]
    lines = [line for line in grid[0][0].get_lines() if line.get_label() in names]
    figure.legend(handles=lines, loc="upper right", ncols=4, frameon=False, labelcolor=THEME.text)
    return figure


def recipe_label(report: ScalingReport) -> str:
    return f"{report.recipe} ({report.size})"


def draw_panel(axes: Axes, panel: Panel, reports: Sequence[ScalingReport]) -> None:
    """A curve for each recipe that has the axis and the quantity."""
    ticks = set[int]()
    for report, colour, marker in zip(reports, colours(), cycle(MARKERS), strict=False):
        for curve in report.curves:
            costs = [point.quantities()[panel.quantity] for point in curve.points]
            known = [cost / panel.unit for cost in costs if cost]
            if curve.axis == panel.axis and known and len(known) == len(costs):
                values = [point.value for point in curve.points]
                (line,) = axes.plot(values, known, color=colour, marker=marker, ms=5, lw=1.8)
                line.set_label(recipe_label(report))
                annotate_curve(axes, curve, panel.quantity, known[-1], colour)
                ticks.update(values)
    style_panel(axes, panel, sorted(ticks))
    if not ticks:
        axes.text(0.5, 0.5, "none", color=THEME.muted, ha="center", transform=axes.transAxes)


def annotate_curve(axes: Axes, curve: Curve, quantity: str, end: float, colour: str) -> None:
    """Linear growth to the last point as dots, and the exponent in a corner."""
    values, power = [point.value for point in curve.points], POWERS[curve.axis]
    linear = [end * (value / values[-1]) ** power for value in values]
    axes.plot(values, linear, color=colour, lw=0.9, ls=(0, (1, 2)), alpha=0.7)
    exponents = curve.exponents[quantity]
    if exponents is not None:
        height = 0.04 + 0.1 * len(axes.texts)
        place: dict[str, Any] = {"ha": "right", "transform": axes.transAxes}
        axes.text(0.98, height, f"{exponents[0]:.2f}", color=colour, fontsize=10, **place)


def style_panel(axes: Axes, panel: Panel, ticks: Sequence[int]) -> None:
    """Logarithmic scales, with ticks at the measured values."""
    axes.set_title(panel.label, loc="left", color=THEME.text, fontsize=10.5)
    axes.set_xlabel(panel.axis, color=THEME.muted, fontsize=10)
    axes.set_xscale("log")
    axes.set_yscale("log")
    style_axes(axes, THEME, grid="both", spine="left", label_size=9)
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xticks(ticks, [str(tick) for tick in ticks])
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: number(value)))
    axes.yaxis.set_minor_formatter(NullFormatter())
    axes.margins(x=0.14)
