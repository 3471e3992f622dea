"""A picture of a dream: what happened, how the codes hold it, and how the world went on alone."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Int, UInt8
from PIL import Image, ImageDraw
from torch import Generator

from tokenworlds.core.types import Segment
from tokenworlds.evaluation.dream_rows import DreamRows, Stretch, dream_rows
from tokenworlds.evaluation.pictures import LIGHT, Theme, code_colours, font, image_bytes
from tokenworlds.evaluation.player import Player
from tokenworlds.evaluation.results import replace_file

CELL = 128
"""About how many pixels a frame takes; it is enlarged by a whole number."""
NOTABLE = 0.05
"""Rewards smaller than this share of the largest are not worth a word."""


def write_dream(
    path: Path,
    player: Player,
    segment: Segment,
    *,
    horizon: int,
    generator: Generator | None,
    theme: Theme = LIGHT,
) -> Path:
    """Dream the last `horizon` steps of each row of a segment, and draw it beside the record."""
    rows = dream_rows(player, segment, horizon=horizon, generator=generator)
    return replace_file(path, image_bytes(draw_dream(rows, theme)))


@dataclass(frozen=True, slots=True)
class Layout:
    """Where things stand, in pixels: rows of a segment are panels, its kinds of frame lines."""

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
        """The layout that rows ask for."""
        panels, steps, height, width, _ = rows.real.shape
        factor = max(1, round(CELL / max(height, width)))
        rewards = bool(np.any(np.abs(rows.reward) > 0))
        size = {"factor": factor, "height": height * factor, "width": width * factor}
        breaks = tuple({time for part in rows.stretches for time in (part.begin, part.dream)})
        return cls(steps, breaks, panels, len(kinds(rows)), rewards, **size)

    @property
    def gap(self) -> int:
        """Between frames."""
        return self.width // 16

    @property
    def text(self) -> int:
        """Size of letters: readable when the picture is as wide as a page."""
        return min(max(self.steps * self.width // 56, 14), 40)

    @property
    def left(self) -> int:
        """Width of the names at the left."""
        return int(font(self.text).getlength("reconstruction")) + 2 * self.text

    @property
    def panel(self) -> int:
        """Height of a panel with the space after it."""
        strips = 2 if self.rewards else 0
        return self.top + self.lines * (self.height + self.gap) + (strips + 1) * self.strip

    @property
    def top(self) -> int:
        """Height of a panel's heading."""
        return 2 * self.text

    @property
    def strip(self) -> int:
        """Height of a line of numbers."""
        return int(1.5 * self.text)

    @property
    def size(self) -> tuple[int, int]:
        """Width and height of the picture."""
        return self.span(0, self.steps)[1] + self.text, self.panels * self.panel + self.text

    def x(self, time: int) -> int:
        """Left edge of a step; where something begins there is more space before it."""
        wider = sum(1 for each in self.breaks if 0 < each <= time)
        return self.left + time * (self.width + self.gap) + wider * 2 * self.gap

    def span(self, begin: int, end: int) -> tuple[int, int]:
        """Left edge of a step and right edge of the one before `end`."""
        return self.x(begin), self.x(end - 1) + self.width

    def y(self, panel: int, line: int) -> int:
        """Upper edge of a line of frames; the strips of numbers come after the last line."""
        return self.text + panel * self.panel + self.top + line * (self.height + self.gap)


def kinds(rows: DreamRows) -> list[str]:
    """The lines of a panel."""
    codes = ["reconstruction", "codes"] if rows.tiles is not None else []
    return ["real", *codes, "dream"]


def draw_dream(rows: DreamRows, theme: Theme = LIGHT) -> Image.Image:
    """Time across; a panel for each row."""
    layout = Layout.of(rows)
    image = Image.new("RGB", layout.size, theme.background)
    pen = ImageDraw.Draw(image)
    for stretch in rows.stretches:
        draw_stretch(pen, layout, stretch, theme)
    for panel in range(layout.panels):
        for line, kind in enumerate(kinds(rows)):
            draw_name(pen, layout, layout.y(panel, line) + layout.height // 2, kind, theme)
        if layout.rewards:
            draw_rewards(pen, layout, rows, panel, theme)
    for place, cell in cells(rows, layout, theme):
        image.paste(Image.fromarray(cell), place)
    return image


def draw_stretch(pen: ImageDraw.ImageDraw, layout: Layout, stretch: Stretch, theme: Theme) -> None:
    """Headings over what was given and over what was dreamt, which stands on a ground of its own."""
    top = layout.y(stretch.row, 0)
    bottom = layout.y(stretch.row, layout.lines)
    if stretch.dream < stretch.end:
        left, right = layout.span(stretch.dream, stretch.end)
        box = (left - layout.gap, top - layout.top, right + layout.gap, bottom)
        pen.rounded_rectangle(box, radius=layout.gap, fill=theme.panel)
    draw_heading(pen, layout, stretch.row, (stretch.begin, stretch.dream), ("seen", theme.muted))
    draw_heading(pen, layout, stretch.row, (stretch.dream, stretch.end), ("dreamt", theme.strong))


def draw_heading(
    pen: ImageDraw.ImageDraw,
    layout: Layout,
    panel: int,
    steps: tuple[int, int],
    look: tuple[str, str],
) -> None:
    """A word and a line under it, across some steps."""
    if steps[0] == steps[1]:
        return
    left, right = layout.span(*steps)
    y = layout.y(panel, 0) - layout.gap
    word, colour = look
    thick = max(layout.text // 8, 2)
    pen.line((left, y, right, y), fill=colour, width=thick)
    pen.text((left, y - thick), word, font=font(layout.text), fill=colour, anchor="ld")


def draw_name(
    pen: ImageDraw.ImageDraw, layout: Layout, middle: int, name: str, theme: Theme
) -> None:
    """The name of a line, at its left."""
    place = (layout.left - layout.text, middle)
    pen.text(place, name, font=font(layout.text), fill=theme.text, anchor="rm")


def draw_rewards(
    pen: ImageDraw.ImageDraw, layout: Layout, rows: DreamRows, panel: int, theme: Theme
) -> None:
    """What each action brought, and what the dream expected of it."""
    least = NOTABLE * np.abs(rows.reward).max()
    lines = {
        "reward": (rows.reward, theme.text),
        "dreamt reward": (rows.dreamt_reward, theme.strong),
    }
    for strip, (name, (values, colour)) in enumerate(lines.items()):
        y = layout.y(panel, layout.lines) + strip * layout.strip + layout.strip // 2
        draw_name(pen, layout, y, name, theme)
        for time, value in enumerate(values[panel]):
            if abs(value) >= least:
                place = (layout.x(time) + layout.width // 2, y)
                pen.text(place, f"{value:+.3g}", font=font(layout.text), fill=colour, anchor="mm")


def cells(
    rows: DreamRows, layout: Layout, theme: Theme
) -> Iterator[tuple[tuple[int, int], UInt8[np.ndarray, "H W 3"]]]:
    """Every enlarged frame with its place; padding has none."""
    for stretch in rows.stretches:
        for time in range(stretch.begin, stretch.end):
            for line, kind in enumerate(kinds(rows)):
                cell = draw_cell(rows, kind, (stretch.row, time), layout, theme)
                if kind == "dream" and time < stretch.dream:
                    cell = fade(cell, theme)
                yield (layout.x(time), layout.y(stretch.row, line)), cell


def draw_cell(
    rows: DreamRows, kind: str, at: tuple[int, int], layout: Layout, theme: Theme
) -> UInt8[np.ndarray, "H W 3"]:
    """One frame, or the codes of one, as large as the layout has it."""
    if kind == "codes":
        assert rows.tiles is not None
        return draw_tiles(rows.tiles[at], rows.vocabulary, (layout.height, layout.width), theme)
    frame = getattr(rows, kind)[at]
    frame = frame if frame.shape[-1] == 3 else frame[..., :1].repeat(3, axis=-1)
    return enlarge(frame, layout.factor)


def draw_tiles(
    tiles: Int[np.ndarray, "h w"], vocabulary: int, size: tuple[int, int], theme: Theme
) -> UInt8[np.ndarray, "H W 3"]:
    """A coloured square for each code, in the middle of the cell."""
    factor = max(1, min(size[0] // tiles.shape[0], size[1] // tiles.shape[1]))
    ground = Image.new("RGB", size[::-1], theme.background)
    palette = np.vstack([code_colours(vocabulary), np.array(ground.getpixel((0, 0)), np.uint8)])
    squares = Image.fromarray(rule(enlarge(palette[tiles], factor), factor))
    spare = (size[1] - squares.width) // 2, (size[0] - squares.height) // 2
    ground.paste(squares, spare)
    return np.asarray(ground)


def enlarge(frame: UInt8[np.ndarray, "H W C"], factor: int) -> UInt8[np.ndarray, "h w C"]:
    """Every pixel a square of pixels."""
    return frame.repeat(factor, axis=0).repeat(factor, axis=1)


def rule(squares: UInt8[np.ndarray, "H W 3"], factor: int) -> UInt8[np.ndarray, "H W 3"]:
    """Thin lines that part the squares."""
    thin = factor // 8
    inside = (
        np.arange(squares.shape[0]) % factor >= thin,
        np.arange(squares.shape[1]) % factor >= thin,
    )
    shade = np.where(inside[0][:, None] & inside[1], 1.0, 0.8)
    return np.asarray(np.rint(squares * shade[..., None]), np.uint8)


def fade(cell: UInt8[np.ndarray, "H W 3"], theme: Theme) -> UInt8[np.ndarray, "H W 3"]:
    """Halfway to the background."""
    image = Image.fromarray(cell)
    return np.asarray(Image.blend(Image.new("RGB", image.size, theme.background), image, 0.35))
