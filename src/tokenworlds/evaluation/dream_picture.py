"""Render dreams: a sheet with time from left to right, or an animation with a step per image."""

from pathlib import Path

import numpy as np
from jaxtyping import Bool, Int, UInt8
from PIL import Image, ImageDraw

from tokenworlds.core.files import replace_file
from tokenworlds.evaluation.animation import write_animation
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


def label(kind: str) -> str:
    """The name of a kind of frame, broken into lines."""
    return kind.replace(", ", ",\n")


class Sheet:
    """A picture with time from left to right, and its layout in pixels.

    A row of the segment is a panel, a kind of frame a line.
    """

    def __init__(self, rows: DreamRows, theme: Theme = LIGHT) -> None:
        self.rows, self.theme = rows, theme
        self.panels, self.steps, height, width = map(int, rows.real.shape[:4])
        self.factor = max(1, round(CELL / max(height, width)))
        self.height, self.width = height * self.factor, width * self.factor
        self.gap = self.width // 16
        self.breaks = {time for span in rows.spans for time in (span.start, span.dream)}
        # Readable when the sheet is scaled to the width of a page.
        self.text = min(max(self.steps * self.width // 56, 14), 40)
        self.font = font(self.text)
        self.left = int(self.font.getlength(WIDEST)) + 2 * self.text
        self.heading = 2 * self.text
        self.strip = int(1.5 * self.text)
        self.has_rewards = bool(np.any(np.abs(rows.reward) > 0))
        strips = 3 if self.has_rewards else 1
        frames = len(rows.kinds) * (self.height + self.gap)
        self.panel = self.heading + frames + strips * self.strip
        right = self.x_range(0, self.steps)[1]
        self.size = (right + self.text, self.panels * self.panel + self.text)

    def x(self, time: int) -> int:
        """Left edge of a step. A wider gap precedes each start of an episode or a dream."""
        wider = sum(1 for each in self.breaks if 0 < each <= time)
        return self.left + time * (self.width + self.gap) + wider * 2 * self.gap

    def x_range(self, start: int, end: int) -> tuple[int, int]:
        """Left edge of step `start` and right edge of step `end - 1`."""
        return self.x(start), self.x(end - 1) + self.width

    def y(self, panel: int, line: int) -> int:
        """Top edge of a line of frames; the rewards follow the last line."""
        return self.text + panel * self.panel + self.heading + line * (self.height + self.gap)

    def draw(self) -> Image.Image:
        image = Image.new("RGB", self.size, self.theme.background)
        canvas = ImageDraw.Draw(image)
        for span in self.rows.spans:
            self._draw_headings(canvas, span)
        for panel in range(self.panels):
            for line, kind in enumerate(self.rows.kinds):
                self._draw_label(canvas, self.y(panel, line) + self.height // 2, kind)
            if self.has_rewards:
                self._draw_rewards(canvas, panel)
        for span in self.rows.spans:
            for time in range(span.start, span.end):
                for line, kind in enumerate(self.rows.kinds):
                    x, y = self.x(time), self.y(span.row, line)
                    cell = render_cell(self.rows, kind, (span.row, time), self.factor, self.theme)
                    image.paste(Image.fromarray(cell), (x, y))
                    border = (x - 1, y - 1, x + self.width, y + self.height)
                    canvas.rectangle(border, outline=self.theme.grid)
        return image

    def _draw_headings(self, canvas: ImageDraw.ImageDraw, span: EpisodeSpan) -> None:
        """Headings over the context and over the dream, which has a coloured background."""
        top, bottom = self.y(span.row, 0), self.y(span.row, len(self.rows.kinds))
        if span.dream < span.end:
            left, right = self.x_range(span.dream, span.end)
            box = (left - self.gap, top - self.heading, right + self.gap, bottom)
            canvas.rounded_rectangle(box, radius=self.gap, fill=self.theme.panel)
        y, thick = top - self.gap, max(self.text // 8, 2)
        for word, colour, start, end in (
            ("context", self.theme.muted, span.start, span.dream),
            ("imagined", self.theme.strong, span.dream, span.end),
        ):
            if start < end:
                left, right = self.x_range(start, end)
                canvas.line((left, y, right, y), fill=colour, width=thick)
                canvas.text((left, y - thick), word, colour, self.font, anchor="ld")

    def _draw_label(self, canvas: ImageDraw.ImageDraw, middle: int, name: str) -> None:
        place, colour = (self.left - self.text, middle), self.theme.text
        canvas.text(place, label(name), colour, self.font, anchor="rm", align="right")

    def _draw_rewards(self, canvas: ImageDraw.ImageDraw, panel: int) -> None:
        """The reward of each action, and the reward that the dream predicts."""
        rows, y = self.rows, self.y(panel, len(self.rows.kinds)) + self.strip // 2
        least = NOTABLE * np.abs(rows.reward).max()
        for name, values, colour in (
            ("reward", rows.reward, self.theme.text),
            ("predicted reward", rows.predicted_reward, self.theme.strong),
        ):
            self._draw_label(canvas, y, name)
            for time, value in enumerate(values[panel]):
                if abs(value) >= least:
                    place = (self.x(time) + self.width // 2, y)
                    canvas.text(place, format_reward(value), colour, self.font, anchor="mm")
            y += self.strip


def dream_png(rows: DreamRows, theme: Theme = LIGHT) -> bytes:
    return image_bytes(Sheet(rows, theme).draw())


def format_reward(value: float) -> str:
    short = f"{value:+.2f}".rstrip("0").rstrip(".") if abs(value) < 10 else f"{value:+.0f}"
    return minus(short)


def render_cell(
    rows: DreamRows, kind: str, at: tuple[int, int], factor: int, theme: Theme
) -> Pixels:
    """An enlarged frame, or its tokens at the same size; `at` is the row and the step.

    The context frames of a dream are faded.
    """
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
    cell = enlarge(frame, factor)
    return fade(cell, theme) if kind in rows.dreams and not rows.imagined[at] else cell


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
    return frame.repeat(factor, axis=0).repeat(factor, axis=1)


def add_edges(squares: Pixels, factor: int) -> Pixels:
    """Darken the top and left edge of every square, to separate equal neighbours."""
    rows, columns = (np.arange(side) % factor < factor // 8 for side in squares.shape[:2])
    shade = np.where(rows[:, None] | columns, 0.8, 1.0)
    return np.asarray(np.rint(squares * shade[..., None]), np.uint8)


def fade(cell: Pixels, theme: Theme) -> Pixels:
    image = Image.fromarray(cell)
    return np.asarray(Image.blend(Image.new("RGB", image.size, theme.background), image, 0.35))


def write_dream(path: Path, rows: DreamRows, *, seconds: float = 0.4) -> Path:
    """Write a sheet (.png), or an animation (.webp, .gif, .mp4) with so many seconds per step."""
    if path.suffix.lower() == ".png":
        return replace_file(path, dream_png(rows))
    images = (render_step(rows, time) for time in range(rows.real.shape[1]))
    return write_animation(path, images, seconds)


def render_step(rows: DreamRows, time: int, theme: Theme = LIGHT) -> Image.Image:
    """All rows at one step, with a column for each kind of frame.

    The number of the step is above them, and below a dream whether its frame is seen or imagined.
    """
    panels, _, height, width, _ = rows.real.shape
    factor = max(1, round(ANIMATED_CELL / max(height, width)))
    lines = max(label(kind).count("\n") + 1 for kind in rows.kinds)
    gap, top = ANIMATED_TEXT // 2, (lines + 2) * ANIMATED_TEXT + ANIMATED_TEXT // 2
    across, down = width * factor + gap, height * factor + 2 * ANIMATED_TEXT
    size = (gap + len(rows.kinds) * across, top + panels * down)
    image = Image.new("RGB", size, theme.background)
    canvas, letters = ImageDraw.Draw(image), font(ANIMATED_TEXT)
    counter = f"step {time + 1} of {rows.real.shape[1]}"
    canvas.text((gap, gap), counter, theme.muted, letters, "la")
    for column, kind in enumerate(rows.kinds):
        x, middle = gap + column * across, (top + 2 * ANIMATED_TEXT) // 2
        canvas.text((x, middle), label(kind), theme.text, letters, "lm")
        for panel in range(panels):
            y = top + panel * down
            cell = render_cell(rows, kind, (panel, time), factor, theme)
            image.paste(Image.fromarray(cell), (x, y))
            if kind in rows.dreams:
                imagined = rows.imagined[panel, time]
                word, colour = ("imagined", theme.strong) if imagined else ("seen", theme.muted)
                below = y + height * factor + ANIMATED_TEXT // 4
                canvas.text((x, below), word, colour, letters, "la")
    return image
