"""Bars to compare recipes by: what an environment step costs, by learner (STEP-VQ, figure 2a)."""

from collections.abc import Sequence
from itertools import cycle
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine

from tokenworlds.benchmarking.costs import speeds_against
from tokenworlds.benchmarking.documents import YARDSTICK, Account
from tokenworlds.benchmarking.table import number
from tokenworlds.evaluation.pictures import LIGHT, Theme, figure_bytes
from tokenworlds.evaluation.results import replace_file

WIDTH, HEIGHT, BAR = 8.0, 1.7, 0.42
"""Inches of the picture, and what each bar adds to its height."""


def write_chart(path: Path, accounts: Sequence[Account], title: str, theme: Theme = LIGHT) -> Path:
    """Draw the bars into a PNG."""
    return replace_file(path, figure_bytes(chart_figure(accounts, title, theme)))


def chart_figure(accounts: Sequence[Account], title: str, theme: Theme) -> Figure:
    """The figure itself, the first recipe at its top."""
    layout = ConstrainedLayoutEngine(rect=(0.015, 0.03, 0.97, 0.94))
    size = (WIDTH, HEIGHT + BAR * len(accounts))
    figure = Figure(figsize=size, dpi=200, facecolor=theme.background, layout=layout)
    axes = figure.add_subplot()
    draw_bars(axes, accounts, theme)
    draw_totals(axes, accounts, theme)
    dress(axes, theme)
    axes.set_xlabel("cal for each environment step", color=theme.muted, fontsize=11)
    heading = axes.set_title(title, loc="left", color=theme.text, fontsize=14, pad=30)
    heading.set(fontweight="bold", parse_math=False)
    return figure


def draw_bars(axes: Axes, accounts: Sequence[Account], theme: Theme) -> None:
    """A bar for each recipe, made of a piece for each learner."""
    places, learners = range(len(accounts)), learners_of(accounts)
    ends = [0.0] * len(accounts)
    colours = cycle((theme.strong, theme.soft, theme.best, theme.muted))
    for name, colour in zip(learners, colours, strict=False):
        pieces = [account.per_step.cal.get(name, 0.0) for account in accounts]
        axes.barh(places, pieces, left=ends, height=0.62, color=colour, label=name)
        ends = [end + piece for end, piece in zip(ends, pieces, strict=True)]
    axes.set_yticks(places, [account.recipe for account in accounts])
    axes.invert_yaxis()
    place: dict[str, Any] = {"bbox_to_anchor": (-0.01, 1.0), "ncols": 4, "borderpad": 0.2}
    look: dict[str, Any] = {"frameon": False, "labelcolor": theme.text, "fontsize": 10.5}
    axes.legend(loc="lower left", **place, **look)


def learners_of(accounts: Sequence[Account]) -> list[str]:
    """All learners, in the order of the recipes that have most of them."""
    most_first = sorted((account.per_step.cal for account in accounts), key=len, reverse=True)
    return list(dict.fromkeys(name for learners in most_first for name in learners))


def draw_totals(axes: Axes, accounts: Sequence[Account], theme: Theme) -> None:
    """At the end of each bar its sum, and how many times as fast as the yardstick it is."""
    speeds = speeds_against(YARDSTICK, [(each.recipe, each.per_step) for each in accounts])
    style: dict[str, Any] = {"color": theme.text, "fontsize": 10, "va": "center"}
    offset: dict[str, Any] = {"xytext": (6, 0), "textcoords": "offset points"}
    for place, (account, speed) in enumerate(zip(accounts, speeds, strict=True)):
        total = account.per_step.total_cal
        times = "" if speed is None else f"   {number(speed)}\N{MULTIPLICATION SIGN} {YARDSTICK}"
        axes.annotate(f"{number(total)}{times}", (total, place), **offset, **style)
    axes.set_xlim(0, 1.25 * max((each.per_step.total_cal for each in accounts), default=1.0))


def dress(axes: Axes, theme: Theme) -> None:
    """Quiet axes: lines for the values only, no frame."""
    axes.set_facecolor(theme.background)
    axes.grid(axis="x", color=theme.grid, lw=0.8)
    axes.set_axisbelow(True)
    axes.tick_params(which="both", colors=theme.muted, length=0, labelsize=10)
    axes.tick_params(axis="y", labelcolor=theme.text)
    axes.spines[["top", "bottom", "right"]].set_visible(False)
    axes.spines["left"].set_color(theme.grid)
