"""Loss curves as small multiples: a picture for each learner, a panel for each term."""

import math
from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter

from tokenworlds.evaluation.curve import Event, Points, dress, select, smooth_points
from tokenworlds.evaluation.pictures import LIGHT, Theme, figure_bytes, minus

WIDE_RANGE = 30.0
"""From this ratio of largest to smallest on, a positive loss is drawn on a logarithmic scale."""


def loss_terms(events: Sequence[Event]) -> dict[str, list[str]]:
    """The terms `learner/loss/term` that were written down, by learner, the total last."""
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
    """The curves of a learner's terms over agent steps."""
    columns = 4 if len(terms) % 4 in (0, 3) else 3
    lines = math.ceil(len(terms) / columns)
    size = (8, 1.75 * lines + 0.1)
    figure = Figure(figsize=size, dpi=200, facecolor=theme.background, layout="constrained")
    grid = figure.subplots(lines, columns, squeeze=False)
    for axes in grid.flat[len(terms) :]:
        axes.set_visible(False)
    for axes, term in zip(grid.flat, terms, strict=False):
        draw_term(axes, term, select(events, f"{learner}/loss/{term}"), theme)
    return figure_bytes(figure)


def draw_term(axes: Axes, term: str, points: Points, theme: Theme) -> None:
    """One panel, with the latest value beside its name."""
    axes.plot(points.steps, points.values, color=theme.strong, lw=0.6, alpha=0.3)
    axes.plot(points.steps, smooth_points(points), color=theme.strong, lw=1.5)
    dress(axes, theme, ticks=3)
    axes.tick_params(labelsize=7)
    if is_wide(points):
        axes.set_yscale("log")
        axes.yaxis.set_minor_formatter(NullFormatter())
    name = axes.set_title(term.replace("_", " "), loc="left", fontsize=9, color=theme.text)
    name.set(parse_math=False)
    if len(points):
        axes.set_title(
            minus(f"{points.values[-1]:.3g}"), loc="right", fontsize=9, color=theme.muted
        )


def is_wide(points: Points) -> bool:
    """Whether a linear scale would hide the end of the curve."""
    if not len(points) or points.values.min() <= 0:
        return False
    return bool(np.ptp(np.log(points.values)) > np.log(WIDE_RANGE))
