"""Render dreams: a sheet with time from left to right, or an animation with a step per image."""

import io
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Bool, Int, UInt8
from PIL import Image, ImageDraw

from tokenworlds.core.errors import unknown
from tokenworlds.evaluation.dreams import DreamRows, EpisodeSpan
from tokenworlds.evaluation.pictures import (
    LIGHT,
    Theme,
    font,
    greys,
    image_bytes,
    minus,
    token_colours,
)
from tokenworlds.evaluation.results import replace_file

Pixels = UInt8[np.ndarray, "H W 3"]
CELL = 128
"""Approximate size of a frame in pixels; frames are enlarged by an integer factor."""
WIDEST = "predicted reward"
"""The widest label."""
NOTABLE = 0.1
"""Rewards below this fraction of the largest are not shown."""
FAINT = 0.15
"""Opacity of unchanged tokens."""
ANIMATED_CELL = 192
ANIMATED_TEXT = 20
FORMATS = (".webp", ".gif")


def label(kind: str) -> str:
    """The name of a kind of frame, broken into lines."""
    return kind.replace(", ", ",\n")


@dataclass(frozen=True, slots=True)
class Layout:
    """Positions on a sheet in pixels. A row of the segment is a panel, a kind of frame a line."""

    steps: int
    breaks: tuple[int, ...]
    panels: int
    lines: int
    rewards: bool
    factor: int
    height: int
    width: int

    @classmethod
    def of(cls, rows: DreamRows) -> "Layout":
        panels, steps, height, width, _ = rows.real.shape
        factor = max(1, round(CELL / max(height, width)))
        rewards = bool(np.any(np.abs(rows.reward) > 0))
        size = {"factor": factor, "height": height * factor, "width": width * factor}
        breaks = tuple({time for span in rows.spans for time in (span.start, span.dream)})
        return cls(steps, breaks, panels, len(rows.kinds), rewards, **size)

    @property
    def gap(self) -> int:
        return self.width // 16

    @property
    def text(self) -> int:
        """Font size that is readable when the sheet is scaled to the width of a page."""
        return min(max(self.steps * self.width // 56, 14), 40)

    @property
    def left(self) -> int:
        """Width of the labels."""
        return int(font(self.text).getlength(WIDEST)) + 2 * self.text

    @property
    def panel(self) -> int:
        """Height of a panel with the space below it."""
        strips = 2 if self.rewards else 0
        return self.top + self.lines * (self.height + self.gap) + (strips + 1) * self.strip

    @property
    def top(self) -> int:
        """Height of a panel's headings."""
        return 2 * self.text

    @property
    def strip(self) -> int:
        """Height of a line of rewards."""
        return int(1.5 * self.text)

    @property
    def size(self) -> tuple[int, int]:
        """Width and height of the sheet."""
        return self.x_range(0, self.steps)[1] + self.text, self.panels * self.panel + self.text

    def x(self, time: int) -> int:
        """Left edge of a step. A wider gap precedes each start of an episode or a dream."""
        wider = sum(1 for each in self.breaks if 0 < each <= time)
        return self.left + time * (self.width + self.gap) + wider * 2 * self.gap

    def x_range(self, start: int, end: int) -> tuple[int, int]:
        """Left edge of step `start` and right edge of step `end - 1`."""
        return self.x(start), self.x(end - 1) + self.width

    def y(self, panel: int, line: int) -> int:
        """Top edge of a line of frames; the rewards follow the last line."""
        return self.text + panel * self.panel + self.top + line * (self.height + self.gap)


def dream_png(rows: DreamRows, theme: Theme = LIGHT) -> bytes:
    return image_bytes(render_dream(rows, theme))


def render_dream(rows: DreamRows, theme: Theme = LIGHT) -> Image.Image:
    """A sheet with a panel for each row."""
    layout = Layout.of(rows)
    image = Image.new("RGB", layout.size, theme.background)
    canvas = ImageDraw.Draw(image)
    for span in rows.spans:
        render_span(canvas, layout, span, theme)
    for panel in range(layout.panels):
        for line, kind in enumerate(rows.kinds):
            render_label(canvas, layout, layout.y(panel, line) + layout.height // 2, kind, theme)
        if layout.rewards:
            render_rewards(canvas, layout, rows, panel, theme)
    for (x, y), cell in render_cells(rows, layout, theme):
        image.paste(Image.fromarray(cell), (x, y))
        border = (x - 1, y - 1, x + layout.width, y + layout.height)
        canvas.rectangle(border, outline=theme.grid)
    return image


def render_span(
    canvas: ImageDraw.ImageDraw, layout: Layout, span: EpisodeSpan, theme: Theme
) -> None:
    """Headings over the context and over the dream, which has a coloured background."""
    top = layout.y(span.row, 0)
    bottom = layout.y(span.row, layout.lines)
    if span.dream < span.end:
        left, right = layout.x_range(span.dream, span.end)
        box = (left - layout.gap, top - layout.top, right + layout.gap, bottom)
        canvas.rounded_rectangle(box, radius=layout.gap, fill=theme.panel)
    context, dream = (span.start, span.dream), (span.dream, span.end)
    render_heading(canvas, layout, span.row, context, ("context", theme.muted))
    render_heading(canvas, layout, span.row, dream, ("imagined", theme.strong))


def render_heading(
    canvas: ImageDraw.ImageDraw,
    layout: Layout,
    panel: int,
    steps: tuple[int, int],
    style: tuple[str, str],
) -> None:
    """A word, underlined across some steps; `style` is the word and its colour."""
    if steps[0] == steps[1]:
        return
    left, right = layout.x_range(*steps)
    y = layout.y(panel, 0) - layout.gap
    word, colour = style
    thick = max(layout.text // 8, 2)
    canvas.line((left, y, right, y), fill=colour, width=thick)
    canvas.text((left, y - thick), word, font=font(layout.text), fill=colour, anchor="ld")


def render_label(
    canvas: ImageDraw.ImageDraw, layout: Layout, middle: int, name: str, theme: Theme
) -> None:
    place = (layout.left - layout.text, middle)
    style: dict[str, Any] = {"font": font(layout.text), "fill": theme.text}
    canvas.text(place, label(name), anchor="rm", align="right", **style)


def render_rewards(
    canvas: ImageDraw.ImageDraw, layout: Layout, rows: DreamRows, panel: int, theme: Theme
) -> None:
    """The reward of each action, and the reward that the dream predicts."""
    least = NOTABLE * np.abs(rows.reward).max()
    lines = {
        "reward": (rows.reward, theme.text),
        "predicted reward": (rows.predicted_reward, theme.strong),
    }
    for strip, (name, (values, colour)) in enumerate(lines.items()):
        y = layout.y(panel, layout.lines) + strip * layout.strip + layout.strip // 2
        render_label(canvas, layout, y, name, theme)
        for time, value in enumerate(values[panel]):
            if abs(value) >= least:
                place = (layout.x(time) + layout.width // 2, y)
                canvas.text(place, format_reward(value), colour, font(layout.text), anchor="mm")


def format_reward(value: float) -> str:
    short = f"{value:+.2f}".rstrip("0").rstrip(".") if abs(value) < 10 else f"{value:+.0f}"
    return minus(short)


def render_cells(
    rows: DreamRows, layout: Layout, theme: Theme
) -> Iterator[tuple[tuple[int, int], Pixels]]:
    """Every cell except padding, with its position. Context frames in a dream are faded."""
    for span in rows.spans:
        for time in range(span.start, span.end):
            for line, kind in enumerate(rows.kinds):
                cell = render_cell(rows, kind, (span.row, time), layout.factor, theme)
                if kind in rows.dreams and time < span.dream:
                    cell = fade(cell, theme)
                yield (layout.x(time), layout.y(span.row, line)), cell


def render_cell(
    rows: DreamRows, kind: str, at: tuple[int, int], factor: int, theme: Theme
) -> Pixels:
    """An enlarged frame, or its tokens at the same size; `at` is the row and the step."""
    tokens = rows.tokens
    if tokens and kind in ("tokens", "changed tokens"):
        height, width = (factor * side for side in rows.real.shape[2:4])
        lit = tokens.changed[at] if kind == "changed tokens" else None
        colours = (greys if tokens.shades else token_colours)(tokens.vocabulary)
        return render_tokens(tokens.grid[at], colours, (height, width), theme, lit)
    shown = {"real": rows.real, **rows.dreams}
    frames = tokens.reconstruction if tokens and kind == "reconstruction" else shown[kind]
    frame = frames[at]
    frame = frame if frame.shape[-1] == 3 else frame[..., :1].repeat(3, axis=-1)
    return enlarge(frame, factor)


def render_tokens(
    grid: Int[np.ndarray, "h w"],
    colours: UInt8[np.ndarray, "V 3"],
    size: tuple[int, int],
    theme: Theme,
    lit: Bool[np.ndarray, "h w"] | None = None,
) -> Pixels:
    """A coloured square for each token, centred in the cell; faint where `lit` is False."""
    opacity = np.ones(grid.shape) if lit is None else np.where(lit, 1.0, FAINT)
    alpha = np.rint(255 * opacity * (grid >= 0)).astype(np.uint8)
    factor = max(1, min(size[0] // grid.shape[0], size[1] // grid.shape[1]))
    image = Image.new("RGB", size[::-1], theme.background)
    squares = Image.fromarray(add_edges(enlarge(colours[grid], factor), factor))
    corner = (size[1] - squares.width) // 2, (size[0] - squares.height) // 2
    mask = Image.fromarray(enlarge(alpha[..., None], factor)[..., 0])
    image.paste(squares, corner, mask=mask)
    return np.asarray(image)


def enlarge(frame: UInt8[np.ndarray, "H W C"], factor: int) -> UInt8[np.ndarray, "h w C"]:
    """Repeat every pixel `factor` times in both directions."""
    return frame.repeat(factor, axis=0).repeat(factor, axis=1)


def add_edges(squares: Pixels, factor: int) -> Pixels:
    """Darken the top and left edge of every square, to separate equal neighbours."""
    rows, columns = (np.arange(side) % factor < factor // 8 for side in squares.shape[:2])
    shade = np.where(rows[:, None] | columns, 0.8, 1.0)
    return np.asarray(np.rint(squares * shade[..., None]), np.uint8)


def fade(cell: Pixels, theme: Theme) -> Pixels:
    """Blend a cell with the background."""
    image = Image.fromarray(cell)
    return np.asarray(Image.blend(Image.new("RGB", image.size, theme.background), image, 0.35))


def write_animation(
    path: Path, rows: DreamRows, *, seconds: float = 0.4, theme: Theme = LIGHT
) -> Path:
    """Write an animated WebP or GIF, chosen by the suffix, with so many seconds per step."""
    suffix = path.suffix.lower()
    if suffix not in FORMATS:
        raise unknown("animation", suffix, FORMATS)
    buffer = io.BytesIO()
    images = [render_step(rows, time, theme) for time in range(rows.real.shape[1])]
    options: dict[str, Any] = {"duration": round(1000 * seconds), "loop": 0, "lossless": True}
    images[0].save(buffer, suffix[1:], save_all=True, append_images=images[1:], **options)
    return replace_file(path, buffer.getvalue())


def render_step(rows: DreamRows, time: int, theme: Theme = LIGHT) -> Image.Image:
    """All rows at one step, with a column for each kind of frame."""
    panels, _, height, width, _ = rows.real.shape
    factor = max(1, round(ANIMATED_CELL / max(height, width)))
    lines = max(label(kind).count("\n") + 1 for kind in rows.kinds)
    gap, top = ANIMATED_TEXT // 2, (lines + 1) * ANIMATED_TEXT
    across, down = width * factor + gap, height * factor + gap
    size = (gap + len(rows.kinds) * across, top + panels * down)
    image = Image.new("RGB", size, theme.background)
    canvas = ImageDraw.Draw(image)
    imagined = imagined_rows(rows, time)
    for column, kind in enumerate(rows.kinds):
        colour = theme.strong if kind in rows.dreams and imagined.any() else theme.text
        place = (gap + column * across, top // 2)
        canvas.text(place, label(kind), colour, font(ANIMATED_TEXT), "lm")
        for panel in range(panels):
            cell = render_cell(rows, kind, (panel, time), factor, theme)
            shown = fade(cell, theme) if kind in rows.dreams and not imagined[panel] else cell
            image.paste(Image.fromarray(shown), (gap + column * across, top + panel * down))
    return image


def imagined_rows(rows: DreamRows, time: int) -> Bool[np.ndarray, " B"]:
    """Whether each row is imagined at a step."""
    imagined = np.zeros(len(rows.real), np.bool_)
    for span in rows.spans:
        imagined[span.row] |= span.dream <= time < span.end
    return imagined
