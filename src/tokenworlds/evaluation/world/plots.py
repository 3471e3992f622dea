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
from PIL import Image, ImageDraw

from tokenworlds.evaluation.curves import is_wide, style_axes
from tokenworlds.evaluation.pictures import Theme, figure_bytes, font, image_bytes

Document = Mapping[str, Any]
RUN_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#999999")
"""Okabe and Ito's palette, which is safe for the colour-blind, in an order of distance."""
RUN_STYLES = ("-", "--", "-.", ":")
SHOWN_STEPS = (1, 2, 4, 8, 16, 32, 48)
SHOWN_WINDOWS = 4
CELL, GAP, MARGIN, HEAD = 128, 8, 110, 40
"""Pixels of a frame in the picture of examples, between frames, at the left and at the top."""


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
    Panel("frames", "changed_explained", "changed pixels explained"),
)
TOKENS = (
    Panel("tokens", "accuracy", "token accuracy"),
    Panel("tokens", "changed_accuracy", "accuracy on tokens that change"),
    Panel("tokens", "frame_accuracy", "frames with all tokens right"),
    Panel("tokens", "nll", "token NLL (nats)"),
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
            if panel.name == "changed_explained" and line.group == "persistence":
                continue  # It is far below zero, and hides the others.
            draw(each, document["open_loop"].get(line.group, {}).get(panel.name), line)
        finish(each, panel.title, theme)
        if panel.name == "changed_explained":
            show_share(each)
    return legend_below(figure, axes, theme)


def tokens_png(document: Document, theme: Theme) -> bytes | None:
    """Tokens against horizon, with their closed-loop means; None for a world without tokens."""
    known = [panel for panel in TOKENS if has_values(document, panel)]
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
    known = [panel for panel in OUTCOMES if has_values(document, panel)]
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


def has_values(document: Document, panel: Panel) -> bool:
    values = document["open_loop"].get(panel.group, {}).get(panel.name, [])
    return any(value is not None for value in values)


def value_png(document: Document, theme: Theme) -> bytes | None:
    """Mean returns of steps with similar values; None if the behaviour tells no values."""
    bins = (document["value"] or {}).get("bins")
    if not bins:
        return None
    figure, (axes,) = panels(OUTCOMES[:1], theme, columns=1)
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
    wanted = (*FRAMES[1:], *TOKENS[:4:3], *OUTCOMES[:1])
    chosen = [
        panel for panel in wanted if any(has_values(each, panel) for each in documents.values())
    ]
    figure, axes = panels(chosen, theme, columns=3)
    for panel, each in zip(chosen, axes, strict=True):
        for number, (label, document) in enumerate(documents.items()):
            values = document["open_loop"].get(panel.group, {}).get(panel.name)
            colour = RUN_COLOURS[number % len(RUN_COLOURS)]
            style = RUN_STYLES[number % len(RUN_STYLES)]
            draw(each, values, Line(panel.group, label, colour, style))
        finish(each, panel.title, theme)
        if panel.name == "changed_explained":
            show_share(each)
    return legend_below(figure, axes, theme)


def panels(known: Sequence[Panel], theme: Theme, columns: int = 2) -> tuple[Figure, Sequence[Axes]]:
    rows = -(-len(known) // columns)
    height = 2.7 * rows + 0.5
    figure = Figure(figsize=(8, height), dpi=160, facecolor=theme.background)
    # Fixed margins: matplotlib's own layout takes longer than the measurement of a small world.
    place = {"left": 0.09, "right": 0.985, "top": 1 - 0.35 / height, "bottom": 0.95 / height}
    figure.subplots_adjust(**place, wspace=0.24, hspace=0.5)
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


def show_share(axes: Axes) -> None:
    """From 0, or at most from -1, to 1: very bad predictions must not flatten the others."""
    low, _ = axes.get_ylim()
    axes.set_ylim(max(min(low, 0.0), -1.0) - 0.03, 1.03)


def legend_below(figure: Figure, axes: Sequence[Axes], theme: Theme) -> bytes:
    """One legend for all panels, without repetitions."""
    found: dict[str, Any] = {}
    for each in axes:
        handles, labels = each.get_legend_handles_labels()
        found |= dict(zip(labels, handles, strict=True))
    style: dict[str, Any] = {"frameon": False, "labelcolor": theme.text, "fontsize": 9}
    place: dict[str, Any] = {"loc": "lower left", "bbox_to_anchor": (0.01, 0.0), "ncols": 4}
    if found:
        figure.legend(list(found.values()), list(found), **place, **style)
    return figure_bytes(figure)


def examples_png(
    real: NDArray[np.uint8],
    imagined: NDArray[np.uint8],
    known: Bool[np.ndarray, "W H"],
    theme: Theme,
) -> bytes:
    """Real frames above imagined ones, from some of the windows that reach furthest."""
    steps = [step for step in SHOWN_STEPS if step <= known.shape[1]]
    furthest = np.argsort(-known.sum(1), kind="stable")
    rows = furthest[:: max(1, len(furthest) // (2 * SHOWN_WINDOWS))][:SHOWN_WINDOWS]
    pitch, pair = CELL + GAP, 2 * CELL + 3 * GAP
    # As wide as all columns, so that a page does not enlarge fewer.
    size = (MARGIN + len(SHOWN_STEPS) * pitch, HEAD + len(rows) * pair)
    image = Image.new("RGB", size, theme.background)
    words = ImageDraw.Draw(image)
    for column, step in enumerate(steps):
        place = (MARGIN + column * pitch + CELL // 2, HEAD // 2)
        words.text(place, f"+{step}", theme.muted, font(22), anchor="mm")
    for number, row in enumerate(rows):
        for line, (name, frames) in enumerate((("real", real), ("imagined", imagined))):
            top = HEAD + number * pair + line * (CELL + GAP // 2)
            words.text((MARGIN - 12, top + CELL // 2), name, theme.muted, font(20), anchor="rm")
            for column, step in enumerate(steps):
                if known[row, step - 1]:
                    tile = frame_image(frames[row, step - 1])
                    image.paste(tile, (MARGIN + column * pitch, top))
    return image_bytes(image)


def frame_image(frame: NDArray[np.uint8]) -> Image.Image:
    made = Image.fromarray(frame.squeeze(-1) if frame.shape[-1] == 1 else frame)
    return made.convert("RGB").resize((CELL, CELL), Image.Resampling.NEAREST)
