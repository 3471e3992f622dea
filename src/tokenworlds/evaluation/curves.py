"""Curves of a run's metrics over agent steps, and the style that all charts share."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
from jaxtyping import Float, Int
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.ticker import EngFormatter, MaxNLocator, NullFormatter

from tokenworlds.evaluation.pictures import LIGHT, Theme, figure_bytes, minus
from tokenworlds.evaluation.results import Result

Event = Mapping[str, Any]
Grid = Literal["x", "y", "both"]
EVALUATION = "evaluation/return"
TRAINING = "collect/return"
WIDE_RANGE = 30.0
"""A positive loss has a logarithmic axis if its maximum exceeds its minimum by this factor."""


class Points(NamedTuple):
    """The logged values of one metric."""

    steps: Int[np.ndarray, " T"]
    values: Float[np.ndarray, " T"]


def select(events: Sequence[Event], name: str) -> Points:
    """The finite values of a metric, in order."""
    found = [
        (event["agent_steps"], event[name])
        for event in events
        if isinstance(event.get(name), int | float) and math.isfinite(event[name])
    ]
    steps, values = zip(*found, strict=True) if found else ((), ())
    return Points(np.array(steps, np.int64), np.array(values, np.float64))


def smooth(values: Float[np.ndarray, " T"], spread: float) -> Float[np.ndarray, " T"]:
    """Centred Gaussian average; `spread` is the standard deviation in points.

    The weights are renormalised at the ends, so a constant stays constant.
    """
    radius = math.ceil(3 * spread)
    kernel = np.exp(-0.5 * (np.arange(-radius, radius + 1) / spread) ** 2)
    inner = slice(radius, radius + len(values))
    return np.convolve(values, kernel)[inner] / np.convolve(np.ones_like(values), kernel)[inner]


def style_axes(axes: Axes, theme: Theme, *, grid: Grid, spine: str, label_size: int = 10) -> None:
    """Grid lines instead of a box and ticks, and a line at one side."""
    axes.set_facecolor(theme.background)
    axes.grid(axis=grid, color=theme.grid, lw=0.8)
    axes.set_axisbelow(True)
    axes.tick_params(which="both", colors=theme.muted, length=0, labelsize=label_size)
    for side, line in axes.spines.items():
        line.set(visible=side == spine, color=theme.grid)


def add_title(axes: Axes, title: str, theme: Theme, pad: int) -> None:
    heading = axes.set_title(title, loc="left", color=theme.text, fontsize=14, pad=pad)
    heading.set(fontweight="bold", parse_math=False)


def add_legend(axes: Axes, theme: Theme, columns: int) -> None:
    """A legend between the title and the axes."""
    place: dict[str, Any] = {"bbox_to_anchor": (-0.01, 1.0), "ncols": columns, "borderpad": 0.2}
    style: dict[str, Any] = {"frameon": False, "labelcolor": theme.text, "fontsize": 10.5}
    axes.legend(loc="lower left", **place, **style)


def curve_figure(
    events: Sequence[Event], title: str, best: float | None, final: Result | None, theme: Theme
) -> Figure:
    """The learning curve, 1600 x 900 pixels.

    The best possible mean return and that of a random policy are reference lines; `final` is the
    evaluation after training.
    """
    # Figure, unlike pyplot, keeps no global state.
    layout = ConstrainedLayoutEngine(rect=(0.015, 0.02, 0.97, 0.96))
    figure = Figure(figsize=(8, 4.5), dpi=200, facecolor=theme.background, layout=layout)
    axes = figure.add_subplot()
    plot_smoothed(axes, select(events, TRAINING), theme.soft, 2.2, "training, smoothed")
    plot_evaluation(axes, select(events, EVALUATION), final, theme)
    random = final.random_score if final else None
    plot_reference(axes, "best", best, theme.best)
    plot_reference(axes, "random", random.mean if random else None, theme.muted)
    style_steps(axes, theme)
    axes.set_xlabel("agent steps", color=theme.muted, fontsize=11)
    axes.set_ylabel("return", color=theme.muted, fontsize=11)
    add_title(axes, title, theme, pad=34)
    if axes.get_legend_handles_labels()[0]:
        axes.set_xlim(left=0)
        add_legend(axes, theme, columns=3)
    else:
        note = "no finished episodes yet"
        axes.text(0.5, 0.5, note, transform=axes.transAxes, ha="center", color=theme.muted)
    return figure


def plot_smoothed(
    axes: Axes, points: Points, colour: str, width: float, label: str | None = None
) -> None:
    """The values, and above them their average with a spread of 2 %, at least two points."""
    axes.plot(*points, color=colour, lw=0.4 * width, alpha=0.3)
    if len(points.values):
        smoothed = smooth(points.values, max(2.0, len(points.values) / 50))
        axes.plot(points.steps, smoothed, color=colour, lw=width, label=label)


def plot_evaluation(axes: Axes, points: Points, final: Result | None, theme: Theme) -> None:
    """Returns of the evaluations; the final one has an error bar."""
    steps, values = list(points.steps), list(points.values)
    if final is not None:
        steps, values = [*steps, final.agent_steps], [*values, final.score.mean]
    style: dict[str, Any] = {"color": theme.strong, "markeredgecolor": theme.background}
    if steps:
        style |= {"lw": 2.4, "zorder": 3, "clip_on": False}
        axes.plot(steps, values, marker="o", ms=7, label="evaluation", **style)
    if final is not None:
        label = minus(f"{final.score.episodes} final episodes: {final.score}")
        axes.plot(steps[-1:], values[-1:], marker="D", ms=10, ls="none", label=label, **style)
        bar: dict[str, Any] = {"ecolor": theme.strong, "fmt": "none", "capsize": 6, "lw": 2}
        axes.errorbar(steps[-1:], values[-1:], final.score.error or 0.0, clip_on=False, **bar)


def plot_reference(axes: Axes, name: str, value: float | None, colour: str) -> None:
    """A dashed horizontal line with its name at the right."""
    if value is None:
        return
    axes.axhline(value, color=colour, lw=1.6, ls=(0, (4, 3)), zorder=2)
    place: dict[str, Any] = {"xy": (1, value), "xycoords": axes.get_yaxis_transform()}
    offset: dict[str, Any] = {"xytext": (8, 0), "textcoords": "offset points", "va": "center"}
    axes.annotate(minus(f"{name}\n{value:.4g}"), color=colour, fontsize=10, **place, **offset)


def style_steps(axes: Axes, theme: Theme, ticks: int = 6, label_size: int = 10) -> None:
    """Agent steps along x, abbreviated as 2k."""
    style_axes(axes, theme, grid="y", spine="bottom", label_size=label_size)
    axes.xaxis.set_major_formatter(EngFormatter(sep=""))
    axes.xaxis.set_major_locator(MaxNLocator(nbins=ticks, integer=True, steps=[1, 2, 5, 10]))


def loss_terms(events: Sequence[Event]) -> dict[str, list[str]]:
    """The terms of the metrics `learner/loss/term`, by learner, the total last."""
    found: dict[str, dict[str, None]] = {}
    for name in dict.fromkeys(name for event in events for name in event):
        learner, _, term = name.partition("/loss/")
        if term:
            found.setdefault(learner, {})[term] = None
    return {
        learner: sorted(terms, key=lambda term: term == "total") for learner, terms in found.items()
    }


def loss_png(
    events: Sequence[Event], learner: str, terms: Sequence[str], theme: Theme = LIGHT
) -> bytes:
    """A panel for each loss term of a learner."""
    columns = 4 if len(terms) % 4 in (0, 3) else 3
    rows = math.ceil(len(terms) / columns)
    size = (8, 1.75 * rows + 0.1)
    figure = Figure(figsize=size, dpi=200, facecolor=theme.background, layout="constrained")
    grid = figure.subplots(rows, columns, squeeze=False)
    for axes in grid.flat[len(terms) :]:
        axes.set_visible(False)
    for axes, term in zip(grid.flat, terms, strict=False):
        plot_term(axes, term, select(events, f"{learner}/loss/{term}"), theme)
    return figure_bytes(figure)


def plot_term(axes: Axes, term: str, points: Points, theme: Theme) -> None:
    """One panel, titled with the term and its latest value."""
    plot_smoothed(axes, points, theme.strong, 1.5)
    style_steps(axes, theme, ticks=3, label_size=7)
    if is_wide(points.values):
        axes.set_yscale("log")
        axes.yaxis.set_minor_formatter(NullFormatter())
    name = axes.set_title(term.replace("_", " "), loc="left", fontsize=9, color=theme.text)
    name.set(parse_math=False)
    if len(points.values):
        latest = minus(f"{points.values[-1]:.3g}")
        axes.set_title(latest, loc="right", fontsize=9, color=theme.muted)


def is_wide(values: Float[np.ndarray, " T"]) -> bool:
    """Whether a linear axis would flatten the end of the curve."""
    if not len(values) or values.min() <= 0:
        return False
    return bool(np.ptp(np.log(values)) > np.log(WIDE_RANGE))
