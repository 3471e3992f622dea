"""The charts of a comparison, each readable on a phone."""

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter, FuncFormatter, MaxNLocator

from tokenworlds.evaluation.bootstrap import Curve
from tokenworlds.evaluation.comparison.drawing import (
    colour,
    dashes,
    make_axes,
    marker,
    panel_title,
    plain_style,
    short,
)
from tokenworlds.evaluation.comparison.numbers import Estimate
from tokenworlds.evaluation.curves import Points
from tokenworlds.evaluation.pictures import LIGHT

PANEL = (3.3, 2.2)
WIDE = 3.8
ROW = 0.22


def curve_panel(
    title: str,
    curves: Mapping[int, Curve],
    unfinished: Sequence[tuple[int, Points]],
    lines: Mapping[str, float],
) -> Figure:
    """Returns of one task over agent steps. Keys are the numbers of agents.

    `unfinished` runs are thin lines; `lines` are human and random scores.
    """
    figure, axes = make_axes(*PANEL, left=0.48, bottom=0.3, top=0.3, right=0.14)
    for index, curve in curves.items():
        draw_curve(axes, curve, index)
    for index, points in unfinished:
        axes.plot(*points, color=colour(index), lw=0.9, ls=":", zorder=2)
    reference_lines(axes, lines)
    plain_style(axes)
    axes.xaxis.set_major_formatter(EngFormatter(sep=""))
    axes.xaxis.set_major_locator(MaxNLocator(nbins=4, integer=True, steps=[1, 2, 5, 10]))
    axes.yaxis.set_major_locator(MaxNLocator(nbins=4))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: short(value)))
    axes.set_xlim(left=0)
    panel_title(axes, title)
    return figure


def draw_curve(axes: Axes, curve: Curve, index: int) -> None:
    style: dict[str, Any] = {"color": colour(index), "zorder": 3}
    if curve.low is not None and curve.high is not None:
        axes.fill_between(curve.x, curve.low, curve.high, alpha=0.18, lw=0, **style)
    if len(curve.x) == 1:
        axes.plot(curve.x, curve.y, marker=marker(index), ms=5, ls="none", **style)
    else:
        axes.plot(curve.x, curve.y, lw=1.6, ls=dashes(index), **style)


def reference_lines(axes: Axes, lines: Mapping[str, float]) -> None:
    """Dashed lines with their names; one far above the curves is named at the top instead.

    Otherwise a human score of 42,000 would flatten curves that end at 500.
    """
    low, high = axes.get_ylim()
    reach = high + 1.5 * (high - low)
    shown = {name: value for name, value in lines.items() if value <= reach}
    top, bottom = max([high, *shown.values()]), min([low, *shown.values()])
    # Room for a name below the lowest line.
    axes.set_ylim(bottom - 0.13 * (top - bottom), top + 0.1 * (top - bottom))
    style: dict[str, Any] = {"fontsize": 7, "color": LIGHT.muted, "textcoords": "offset points"}
    for name, value in shown.items():
        axes.axhline(value, color=LIGHT.muted, lw=0.9, ls=(0, (4, 3)), zorder=1)
        # Curves begin low, so there is room above a line at the left and below it at the right.
        x, side, edge, y = (1, "right", "top", -2) if name == "random" else (0, "left", "bottom", 2)
        place: dict[str, Any] = {"xy": (x, value), "xycoords": axes.get_yaxis_transform()}
        axes.annotate(name, xytext=(0, y), ha=side, va=edge, **place, **style)
    for name in lines.keys() - shown.keys():
        text = f"{name} {short(lines[name])} \N{UPWARDS ARROW}"
        place = {"xy": (1, 1), "xycoords": "axes fraction", "xytext": (0, 2)}
        axes.annotate(text, ha="right", va="bottom", **place, **style)


def estimate_bars(title: str, estimates: Mapping[int, Estimate]) -> Figure:
    """A point with its interval for each agent, as rliable draws aggregates."""
    height = 0.62 + 0.3 * len(estimates)
    figure, axes = make_axes(PANEL[0], height, left=0.12, bottom=0.3, top=0.3)
    for place, (index, found) in enumerate(estimates.items()):
        interval_point(axes, len(estimates) - 1 - place, found, index)
    plain_style(axes, grid="x", spine="left")
    axes.set_yticks([])
    axes.set_ylim(-0.6, len(estimates) - 0.4)
    axes.xaxis.set_major_locator(MaxNLocator(nbins=5))
    panel_title(axes, title)
    return figure


def interval_point(
    axes: Axes, y: int | float, found: Estimate, index: int | None, size: float = 6.0
) -> None:
    """A marker on a thick faint line, the interval; without an agent's number it is neutral."""
    shade, shape = (LIGHT.muted, "o") if index is None else (colour(index), marker(index))
    if found.interval is not None:
        span, width = [found.interval.low, found.interval.high], 0.8 * size
        axes.plot(span, [y, y], color=shade, lw=width, alpha=0.3, solid_capstyle="round")
    axes.plot([found.value], [y], color=shade, marker=shape, ms=size, ls="none", zorder=3)


def score_limits(scores: Mapping[int, Mapping[str, Estimate]]) -> tuple[float, float]:
    """A range for charts that share it, with 0 and 1 in it."""
    found = [score for of_agent in scores.values() for score in of_agent.values()]
    ends = [end for score in found for end in ends_of(score)]
    low, high = min([0.0, *ends]), max([1.0, *ends])
    return low - 0.03 * (high - low), high + 0.03 * (high - low)


def ends_of(found: Estimate) -> tuple[float, ...]:
    if found.interval is None:
        return (found.value,)
    return found.value, found.interval.low, found.interval.high


def score_bars(
    label: str,
    scores: Mapping[int, Mapping[str, Estimate]],
    tasks: Sequence[str],
    limits: tuple[float, float],
    line: str = "",
) -> Figure:
    """A row for each task with the scores of all agents; `line` names a line at 1."""
    row = 0.13 + 0.1 * len(scores)
    height = 0.65 + row * len(tasks)
    figure, axes = make_axes(WIDE, height, left=1.2, bottom=0.42, top=0.23)
    for place, task in enumerate(tasks):
        for order, (index, of_agent) in enumerate(scores.items()):
            if task in of_agent:
                shift = 0.76 * ((order + 0.5) / len(scores) - 0.5)
                interval_point(axes, place + shift, of_agent[task], index, 4.5)
    plain_style(axes, grid="x", spine="left")
    axes.set_yticks(range(len(tasks)), [task.replace("_", " ") for task in tasks])
    axes.tick_params(axis="y", labelcolor=LIGHT.text)
    axes.set_ylim(len(tasks) - 0.5, -0.5)
    axes.set_xlim(*limits)
    axes.xaxis.set_major_locator(MaxNLocator(nbins=5))
    for place in range(1, len(tasks)):
        axes.axhline(place - 0.5, color=LIGHT.grid, lw=0.6, zorder=0)
    if line:
        axes.axvline(1.0, color=LIGHT.muted, lw=0.9, ls=(0, (4, 3)), zorder=1)
        place_above: dict[str, Any] = {"xytext": (0, 3), "textcoords": "offset points"}
        at: dict[str, Any] = {"xy": (1.0, 1.0), "xycoords": axes.get_xaxis_transform()}
        axes.annotate(line, ha="center", fontsize=7, color=LIGHT.muted, **at, **place_above)
    axes.set_xlabel(label, fontsize=8, color=LIGHT.muted)
    return figure


def profile_chart(label: str, curves: Mapping[int, Curve]) -> Figure:
    """The fraction of runs above each score."""
    figure, axes = make_axes(WIDE, 2.9, left=0.5, bottom=0.45, top=0.15)
    for index, curve in curves.items():
        draw_curve(axes, curve, index)
    plain_style(axes)
    axes.set_ylim(0, 1.02)
    axes.set_xlim(0, max(curve.x[-1] for curve in curves.values()))
    style: dict[str, Any] = {"fontsize": 8, "color": LIGHT.muted}
    axes.set_xlabel(f"{label}, \N{GREEK SMALL LETTER TAU}", **style)
    axes.set_ylabel("fraction of runs with score > \N{GREEK SMALL LETTER TAU}", **style)
    return figure


def efficiency_chart(label: str, curves: Mapping[int, Curve]) -> Figure:
    """An aggregate score over agent steps."""
    figure, axes = make_axes(WIDE, 2.9, left=0.5, bottom=0.45, top=0.15)
    for index, curve in curves.items():
        draw_curve(axes, curve, index)
    plain_style(axes)
    axes.xaxis.set_major_formatter(EngFormatter(sep=""))
    axes.set_xlabel("agent steps", fontsize=8, color=LIGHT.muted)
    axes.set_ylabel(label, fontsize=8, color=LIGHT.muted)
    axes.set_xlim(left=0)
    return figure


def improvement_chart(pairs: Mapping[tuple[str, str], Estimate]) -> Figure:
    """P(X > Y) for pairs of agents, X at the left and Y at the right."""
    figure, axes = make_axes(WIDE, 0.55 + 0.42 * len(pairs), left=0.12, bottom=0.3, top=0.12)
    for index, ((x, y), found) in enumerate(pairs.items()):
        place = len(pairs) - 1 - index
        interval_point(axes, place, found, None)
        style: dict[str, Any] = {"va": "center", "fontsize": 7.5, "color": LIGHT.text}
        axes.annotate(x, (0, place + 0.3), ha="left", **style)
        axes.annotate(y, (1, place + 0.3), ha="right", **style)
    plain_style(axes, grid="x", spine="left")
    axes.axvline(0.5, color=LIGHT.muted, lw=0.9, ls=(0, (4, 3)), zorder=1)
    axes.set_yticks([])
    axes.set_xlim(-0.02, 1.02)
    axes.set_ylim(-0.5, len(pairs) - 0.3)
    return figure
