"""Bars to compare recipes by: what a step costs, by learner, and how fast that is against IRIS."""

from collections.abc import Mapping, Sequence
from itertools import cycle
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine

from tokenworlds.benchmarking.documents import YARDSTICK, Account, speeds
from tokenworlds.benchmarking.table import number
from tokenworlds.evaluation.pictures import LIGHT, Theme, figure_bytes
from tokenworlds.evaluation.results import replace_file

WIDTH, HEIGHT, BAR = 8.0, 1.7, 0.42
"""Inches of the picture, of a panel without bars, and what each bar adds to its height."""
ELSEWHERE = "REM"
"""No recipe here, but a bar of the published figure."""
PUBLISHED = {
    "iris": 1.00,
    "delta-iris": 3.67,
    ELSEWHERE: 4.37,
    "step-vq-t": 9.70,
    "step-vq-iris": 11.20,
}
"""Times as fast as IRIS, by the recipe's name here if there is one."""
SOURCE = "published: STEP-VQ, figure 2a, on an L40S"


def write_chart(path: Path, accounts: Sequence[Account], title: str, theme: Theme = LIGHT) -> Path:
    """Draw the bars into a PNG."""
    return replace_file(path, figure_bytes(chart_figure(accounts, title, theme)))


def chart_figure(accounts: Sequence[Account], title: str, theme: Theme) -> Figure:
    """What steps cost, the first recipe at the top; beneath it speeds, if there is a yardstick."""
    ratios = speeds_of(accounts)
    heights = [HEIGHT + BAR * len(accounts)]
    heights += [HEIGHT + BAR * len(ratios)] if ratios else []
    layout = ConstrainedLayoutEngine(rect=(0.015, 0.03, 0.97, 0.94), hspace=0.08)
    size = (WIDTH, sum(heights))
    figure = Figure(figsize=size, dpi=200, facecolor=theme.background, layout=layout)
    panels = figure.subplots(len(heights), 1, squeeze=False, height_ratios=heights)[:, 0]
    draw_costs(panels[0], accounts, theme)
    if ratios:
        draw_speeds(panels[1], ratios, theme)
    heading = panels[0].set_title(title, loc="left", color=theme.text, fontsize=14, pad=30)
    heading.set(fontweight="bold", parse_math=False)
    return figure


def draw_costs(axes: Axes, accounts: Sequence[Account], theme: Theme) -> None:
    """A bar for each recipe with its sum at its end."""
    draw_bars(axes, accounts, theme)
    totals = [account.per_step.total_cal for account in accounts]
    for place, total in enumerate(totals):
        tell_at(axes, total, place, number(total), theme)
    axes.set_xlim(0, 1.15 * max(totals, default=1.0))
    axes.set_xlabel("cal for each environment step", color=theme.muted, fontsize=11)
    dress(axes, theme)


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
    explain(axes, theme)


def learners_of(accounts: Sequence[Account]) -> list[str]:
    """All learners, in the order of the recipes that have most of them."""
    most_first = sorted((account.per_step.cal for account in accounts), key=len, reverse=True)
    return list(dict.fromkeys(name for learners in most_first for name in learners))


def speeds_of(accounts: Sequence[Account]) -> dict[str, tuple[float | None, float | None]]:
    """Times as fast as the yardstick, as measured and as published; nothing if there is none."""
    names, (ratios, _) = [account.recipe for account in accounts], speeds(accounts)
    if YARDSTICK not in names:
        return {}
    measured = dict(zip(names, ratios, strict=True))
    return {name: (measured.get(name), PUBLISHED.get(name)) for name in [*names, ELSEWHERE]}


def draw_speeds(
    axes: Axes, ratios: Mapping[str, tuple[float | None, float | None]], theme: Theme
) -> None:
    """Two bars for each recipe, a full one for what was measured and a hollow one beneath it."""
    full: dict[str, Any] = {"color": theme.strong, "label": "measured here"}
    hollow: dict[str, Any] = {"color": "none", "edgecolor": theme.soft, "label": SOURCE}
    for column, (side, look) in enumerate(((-1, full), (1, {**hollow, "hatch": "////"}))):
        known = {place: pair[column] for place, pair in enumerate(ratios.values())}
        drawn = {place + side * 0.19: ratio for place, ratio in known.items() if ratio}
        axes.barh(list(drawn), list(drawn.values()), height=0.36, **look)
        for place, ratio in drawn.items():
            tell_at(axes, ratio, place, f"{number(ratio)}\N{MULTIPLICATION SIGN}", theme)
    axes.set_yticks(range(len(ratios)), list(ratios))
    axes.invert_yaxis()
    axes.set_xlim(0, 1.12 * max(ratio for pair in ratios.values() for ratio in pair if ratio))
    axes.set_xlabel(f"times as fast as {YARDSTICK}", color=theme.muted, fontsize=11)
    explain(axes, theme)
    dress(axes, theme)


def tell_at(axes: Axes, end: float, place: int | float, text: str, theme: Theme) -> None:
    """A word at the end of a bar."""
    style: dict[str, Any] = {"color": theme.text, "fontsize": 10, "va": "center"}
    axes.annotate(text, (end, place), xytext=(6, 0), textcoords="offset points", **style)


def explain(axes: Axes, theme: Theme) -> None:
    """The legend, in a line above the bars."""
    place: dict[str, Any] = {"bbox_to_anchor": (-0.01, 1.0), "ncols": 4, "borderpad": 0.2}
    look: dict[str, Any] = {"frameon": False, "labelcolor": theme.text, "fontsize": 10.5}
    axes.legend(loc="lower left", **place, **look)


def dress(axes: Axes, theme: Theme) -> None:
    """Quiet axes: lines for the values only, no frame."""
    axes.set_facecolor(theme.background)
    axes.grid(axis="x", color=theme.grid, lw=0.8)
    axes.set_axisbelow(True)
    axes.tick_params(which="both", colors=theme.muted, length=0, labelsize=10)
    axes.tick_params(axis="y", labelcolor=theme.text)
    axes.spines[["top", "bottom", "right"]].set_visible(False)
    axes.spines["left"].set_color(theme.grid)
