"""Plots of a world model's figures: errors against horizon, value calibration, imagined frames."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, NullFormatter
from numpy.typing import NDArray

from tokenworlds.evaluation.curves import is_wide, style_axes
from tokenworlds.evaluation.pictures import Theme, figure_bytes

Document = Mapping[str, Any]
RUN_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#999999")
"""Okabe and Ito's palette, which is safe for the colour-blind, in an order of distance."""
SHOWN_STEPS = (1, 2, 4, 8, 16, 32, 48)
SHOWN_WINDOWS = 4


@dataclass(frozen=True, slots=True)
class Panel:
    """One quantity of the open loop: `group` and `name` in its figures, and what it is called."""

    group: str
    name: str
    title: str


@dataclass(frozen=True, slots=True)
class Line:
    """A curve of a panel: which group of figures it shows, and how."""

    group: str
    label: str
    colour: str
    style: Any


FRAMES = (
    Panel("frames", "mse", "squared error of pixels"),
    Panel("frames", "psnr", "PSNR (dB)"),
    Panel("frames", "ssim", "SSIM"),
    Panel("frames", "changed_explained", "changed pixels: variance explained"),
)
TOKENS = (
    Panel("tokens", "accuracy", "token accuracy"),
    Panel("tokens", "frame_accuracy", "frame accuracy (all tokens right)"),
    Panel("tokens", "nll", "token negative log-likelihood (nats)"),
    Panel("tokens", "kl", "KL of the dynamics (nats per frame)"),
)
OUTCOMES = (
    Panel("reward", "recall", "reward recall"),
    Panel("reward", "precision", "reward precision"),
    Panel("reward", "predicted_mean", "mean reward"),
    Panel("termination", "predicted_mean", "share of terminations"),
)


def frame_lines(theme: Theme) -> tuple[Line, ...]:
    return (
        Line("frames", "open loop", theme.strong, "-"),
        Line("closed_loop_frames", "closed loop", theme.soft, "--"),
        Line("reconstruction", "reconstruction", theme.best, "-."),
        Line("persistence", "last frame repeated", theme.muted, ":"),
    )


def frames_png(document: Document, theme: Theme) -> bytes:
    """Errors of frames against horizon, with what they can be compared with."""
    figure, axes = panels(FRAMES, theme)
    for panel, each in zip(FRAMES, axes, strict=True):
        for line in frame_lines(theme):
            draw(each, document["open_loop"].get(line.group, {}).get(panel.name), line)
        finish(each, panel.title, theme)
        if panel.name == "changed_explained":
            clip_below(each, -1.0)
    return legend_below(figure, axes, theme)


def tokens_png(document: Document, theme: Theme) -> bytes | None:
    """Tokens against horizon, with their closed-loop means; None for a world without tokens."""
    known = [panel for panel in TOKENS if document["open_loop"]["tokens"].get(panel.name)]
    if not known:
        return None
    figure, axes = panels(known, theme)
    closed = document["closed_loop"]["tokens"]
    for panel, each in zip(known, axes, strict=True):
        line = Line(panel.group, "open loop", theme.strong, "-")
        draw(each, document["open_loop"]["tokens"][panel.name], line)
        reference(each, closed.get(panel.name), "closed loop", theme.soft, "--")
        if panel.name == "nll":
            unigram = document["codes"] and document["codes"]["unigram_nll"]
            reference(each, unigram, "without history", theme.muted, ":")
        finish(each, panel.title, theme)
    return legend_below(figure, axes, theme)


def outcomes_png(document: Document, theme: Theme) -> bytes:
    """Rewards and terminations against horizon."""
    known = [panel for panel in OUTCOMES if panel.group in document["open_loop"]]
    figure, axes = panels(known, theme)
    for panel, each in zip(known, axes, strict=True):
        group = document["open_loop"][panel.group]
        draw(each, group[panel.name], Line(panel.group, "open loop", theme.strong, "-"))
        closed = document["closed_loop"][panel.group]
        if panel.name == "predicted_mean":
            name = "mean" if panel.group == "reward" else "base_rate"
            reference(each, closed[name], "real", theme.best, "-.")
        else:
            reference(each, closed[panel.name], "closed loop", theme.soft, "--")
            each.set_ylim(-0.03, 1.03)
        finish(each, panel.title, theme)
    return legend_below(figure, axes, theme)


def value_png(document: Document, theme: Theme) -> bytes | None:
    """Mean returns of steps with similar values; None if the behaviour tells no values."""
    bins = (document["value"] or {}).get("bins")
    if not bins:
        return None
    figure = Figure(figsize=(5, 3.6), dpi=160, facecolor=theme.background, layout="constrained")
    axes = figure.add_subplot()
    value, returns, spread = (
        [each[name] for each in bins] for name in ("predicted", "return", "deviation")
    )
    ends = [min(value + returns), max(value + returns)]
    axes.plot(ends, ends, color=theme.muted, lw=1.4, ls=":", label="perfect")
    bar: dict[str, Any] = {"ecolor": theme.soft, "elinewidth": 1.4, "capsize": 3}
    style: dict[str, Any] = {"color": theme.strong, "marker": "o", "lw": 1.8, "label": "tenths"}
    axes.errorbar(value, returns, spread, **style, **bar)
    style_axes(axes, theme, grid="both", spine="bottom", label_size=9)
    axes.set_xlabel("predicted value", color=theme.muted, fontsize=10)
    axes.set_ylabel("discounted return that came", color=theme.muted, fontsize=10)
    return legend_below(figure, [axes], theme)


def comparison_png(documents: Mapping[str, Document], theme: Theme) -> bytes:
    """The open loops of several runs in one picture, a colour for each."""
    chosen = (*FRAMES[1:], *TOKENS[:3:2], *OUTCOMES[:1])
    figure, axes = panels(chosen, theme, columns=3)
    for panel, each in zip(chosen, axes, strict=True):
        for (label, document), colour in zip(documents.items(), cycle_colours(), strict=False):
            values = document["open_loop"].get(panel.group, {}).get(panel.name)
            draw(each, values, Line(panel.group, label, colour, "-"))
        finish(each, panel.title, theme)
        if panel.name == "changed_explained":
            clip_below(each, -1.0)
    return legend_below(figure, axes, theme)


def cycle_colours() -> Sequence[str]:
    return RUN_COLOURS * 8


def panels(known: Sequence[Panel], theme: Theme, columns: int = 2) -> tuple[Figure, Sequence[Axes]]:
    rows = -(-len(known) // columns)
    size = (4 * columns, 2.6 * rows + 0.4)
    figure = Figure(figsize=size, dpi=160, facecolor=theme.background, layout="constrained")
    grid = figure.subplots(rows, columns, squeeze=False)
    for axes in grid.flat[len(known) :]:
        axes.set_visible(False)
    return figure, list(grid.flat[: len(known)])


def draw(axes: Axes, values: Sequence[float | None] | None, line: Line) -> None:
    """A curve with gaps where nothing was recorded."""
    if values is None:
        return
    numbers = np.array([np.nan if value is None else value for value in values], float)
    if np.isnan(numbers).all():
        return
    steps = np.arange(1, len(numbers) + 1)
    mark = {"marker": "o", "ms": 3.5} if len(numbers) <= 12 else {}
    style: dict[str, Any] = {"color": line.colour, "ls": line.style, "lw": 1.9, **mark}
    axes.plot(steps, numbers, label=line.label, **style)


def reference(axes: Axes, value: float | None, label: str, colour: str, style: str) -> None:
    if value is not None:
        axes.axhline(value, color=colour, ls=style, lw=1.7, label=label)


def finish(axes: Axes, title: str, theme: Theme) -> None:
    style_axes(axes, theme, grid="y", spine="bottom", label_size=8)
    drawn = [np.asarray(line.get_ydata(), float) for line in axes.lines]
    values = np.concatenate([np.zeros(0), *drawn])
    values = values[~np.isnan(values)]
    if title.startswith("squared") and is_wide(values):
        axes.set_yscale("log")
        axes.yaxis.set_minor_formatter(NullFormatter())
    axes.xaxis.set_major_locator(MaxNLocator(nbins=6, integer=True))
    axes.set_xlabel("steps ahead", color=theme.muted, fontsize=8)
    heading = axes.set_title(title, loc="left", fontsize=10, color=theme.text)
    heading.set(parse_math=False)


def clip_below(axes: Axes, least: float) -> None:
    """Very bad predictions must not flatten the others."""
    low, high = axes.get_ylim()
    axes.set_ylim(max(low, least), max(high, 1.02))


def legend_below(figure: Figure, axes: Sequence[Axes], theme: Theme) -> bytes:
    """One legend for all panels, without repetitions."""
    found: dict[str, Any] = {}
    for each in axes:
        handles, labels = each.get_legend_handles_labels()
        found |= dict(zip(labels, handles, strict=True))
    style: dict[str, Any] = {"frameon": False, "labelcolor": theme.text, "fontsize": 9}
    place: dict[str, Any] = {"loc": "outside lower left", "ncols": 4}
    if found:
        figure.legend(list(found.values()), list(found), **place, **style)
    return figure_bytes(figure)


def examples_png(
    real: NDArray[np.uint8],
    imagined: NDArray[np.uint8],
    known: Bool[np.ndarray, "W H"],
    theme: Theme,
) -> bytes:
    """Real frames above imagined ones, from the windows that reach furthest."""
    steps = [step for step in SHOWN_STEPS if step <= known.shape[1]]
    rows = np.argsort(-known.sum(1), kind="stable")
    rows = rows[:: max(1, len(rows) // (2 * SHOWN_WINDOWS))][:SHOWN_WINDOWS]
    size = (1.05 * len(steps) + 0.8, 2.3 * len(rows))
    figure = Figure(figsize=size, dpi=120, facecolor=theme.background, layout="constrained")
    grid = figure.subplots(2 * len(rows), len(steps), squeeze=False)
    for place, row in enumerate(rows):
        for column, step in enumerate(steps):
            pair = (real, imagined)
            for offset, frames in enumerate(pair):
                axes = grid[2 * place + offset, column]
                axes.set_axis_off()
                if known[row, step - 1]:
                    show(axes, frames[row, step - 1])
            if place == 0:
                grid[0, column].set_title(f"+{step}", fontsize=9, color=theme.muted)
        for offset, name in enumerate(("real", "imagined")):
            axes = grid[2 * place + offset, 0]
            at: dict[str, Any] = {"transform": axes.transAxes, "ha": "right", "va": "center"}
            axes.text(-0.08, 0.5, name, color=theme.muted, fontsize=9, **at)
    return figure_bytes(figure)


def show(axes: Axes, frame: NDArray[np.uint8]) -> None:
    grey: dict[str, Any] = {"cmap": "gray", "vmin": 0, "vmax": 255} if frame.shape[-1] == 1 else {}
    axes.imshow(frame.squeeze(-1) if grey else frame, interpolation="nearest", **grey)
