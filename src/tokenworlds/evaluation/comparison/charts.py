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
WIDE = 4.4
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
    for name, value in lines.items():
        reach = high + 1.5 * (high - low)
        if value > reach:
            text = f"{name} {short(value)} \N{UPWARDS ARROW}"
            axes.annotate(
                text,
                (1, 1),
                xycoords="axes fraction",
                ha="right",
                va="bottom",
                fontsize=7,
                color=LIGHT.muted,
            )
            continue
        axes.axhline(value, color=LIGHT.muted, lw=0.9, ls=(0, (4, 3)), zorder=1)
        axes.annotate(
            name,
            (1, value),
            xycoords=axes.get_yaxis_transform(),
            xytext=(0, 1.5),
            textcoords="offset points",
            ha="right",
            va="bottom",
            fontsize=7,
            color=LIGHT.muted,
        )


def estimate_bars(title: str, estimates: Mapping[str, Estimate]) -> Figure:
    """A point with its interval for each agent, as rliable draws aggregates."""
    height = 0.62 + 0.3 * len(estimates)
    figure, axes = make_axes(PANEL[0], height, left=0.12, bottom=0.3, top=0.3)
    for index, found in enumerate(estimates.values()):
        y = len(estimates) - 1 - index
        interval_point(axes, y, found, index)
    plain_style(axes, grid="x", spine="left")
    axes.set_yticks([])
    axes.set_ylim(-0.6, len(estimates) - 0.4)
    axes.xaxis.set_major_locator(MaxNLocator(nbins=5))
    panel_title(axes, title)
    return figure


def interval_point(axes: Axes, y: int | float, found: Estimate, index: int) -> None:
    if found.interval is not None:
        span = [found.interval.low, found.interval.high]
        axes.plot(span, [y, y], color=colour(index), lw=5, alpha=0.3, solid_capstyle="round")
    style: dict[str, Any] = {"marker": marker(index), "ms": 6, "ls": "none", "zorder": 3}
    axes.plot([found.value], [y], color=colour(index), **style)


def score_bars(
    label: str,
    scores: Mapping[int, Mapping[str, Estimate]],
    tasks: Sequence[str],
    line: float | None = None,
) -> Figure:
    """A row for each task with the scores of all agents and their intervals."""
    height = 0.5 + ROW * len(tasks) * max(1.0, 0.55 * len(scores) + 0.45)
    figure, axes = make_axes(WIDE, height, left=1.25, bottom=0.42, top=0.08)
    for place, task in enumerate(tasks):
        for row, (index, of_agent) in enumerate(scores.items()):
            if task in of_agent:
                shift = 0.7 * ((row + 0.5) / len(scores) - 0.5)
                interval_point(axes, place + shift, of_agent[task], index)
    plain_style(axes, grid="x", spine="left")
    axes.set_yticks(range(len(tasks)), tasks)
    axes.tick_params(axis="y", labelcolor=LIGHT.text)
    axes.set_ylim(len(tasks) - 0.4, -0.6)
    for place in range(1, len(tasks)):
        axes.axhline(place - 0.5, color=LIGHT.grid, lw=0.5, zorder=0)
    if line is not None:
        axes.axvline(line, color=LIGHT.muted, lw=0.9, ls=(0, (4, 3)), zorder=1)
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
        interval_point(axes, place, found, 0)
        style: dict[str, Any] = {"va": "center", "fontsize": 7.5, "color": LIGHT.text}
        axes.annotate(x, (0, place + 0.3), ha="left", **style)
        axes.annotate(y, (1, place + 0.3), ha="right", **style)
    plain_style(axes, grid="x", spine="left")
    axes.axvline(0.5, color=LIGHT.muted, lw=0.9, ls=(0, (4, 3)), zorder=1)
    axes.set_yticks([])
    axes.set_xlim(0, 1)
    axes.set_ylim(-0.5, len(pairs) - 0.3)
    return figure


def rate_bars(rates: Mapping[int, Mapping[str, Estimate]], names: Sequence[str]) -> Figure:
    """Success rates of achievements in percent."""
    return score_bars("success rate, %", rates, names)
