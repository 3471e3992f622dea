"""A picture of a dream: what happened, how the codes hold it, and how the world went on alone."""

import io
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Bool, Int, UInt8
from PIL import Image, ImageDraw
from torch import Generator

from tokenworlds.agent import Agent
from tokenworlds.core.errors import unknown
from tokenworlds.core.types import Segment
from tokenworlds.evaluation.dreams import DreamRows, Stretch, dream_rows
from tokenworlds.evaluation.pictures import (
    LIGHT,
    Theme,
    code_colours,
    font,
    image_bytes,
    minus,
    shades,
)
from tokenworlds.evaluation.results import replace_file

CELL = 128
"""About how many pixels a frame takes; it is enlarged by a whole number."""
WIDEST = "codes at random"
"""The line of text that takes most room among the names at the left."""
NOTABLE = 0.1
"""Rewards smaller than this share of the largest are not worth a word."""
FAINT = 0.15
"""How strongly a code is drawn that is the same as before."""
MOVING_CELL = 192
LETTER = 20
FORMATS = (".webp", ".gif")


def label(kind: str) -> str:
    """The name of a kind of frame, in short lines."""
    return kind.replace(", ", ",\n")


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
        return cls(steps, breaks, panels, len(rows.kinds), rewards, **size)

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
        return int(font(self.text).getlength(WIDEST)) + 2 * self.text

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


def write_dream(
    path: Path,
    agent: Agent,
    segment: Segment,
    *,
    horizon: int,
    generator: Generator | None,
    theme: Theme = LIGHT,
) -> Path:
    """Dream the last `horizon` steps of each row of a segment, and draw it beside the record."""
    rows = dream_rows(agent, segment, horizon=horizon, generator=generator)
    return replace_file(path, image_bytes(draw_dream(rows, theme)))


def draw_dream(rows: DreamRows, theme: Theme = LIGHT) -> Image.Image:
    """Time across; a panel for each row."""
    layout = Layout.of(rows)
    image = Image.new("RGB", layout.size, theme.background)
    pen = ImageDraw.Draw(image)
    for stretch in rows.stretches:
        draw_stretch(pen, layout, stretch, theme)
    for panel in range(layout.panels):
        for line, kind in enumerate(rows.kinds):
            draw_name(pen, layout, layout.y(panel, line) + layout.height // 2, kind, theme)
        if layout.rewards:
            draw_rewards(pen, layout, rows, panel, theme)
    for (x, y), cell in cells(rows, layout, theme):
        image.paste(Image.fromarray(cell), (x, y))
        edge = (x - 1, y - 1, x + layout.width, y + layout.height)
        pen.rectangle(edge, outline=theme.grid)
    return image


def draw_stretch(pen: ImageDraw.ImageDraw, layout: Layout, stretch: Stretch, theme: Theme) -> None:
    """What was seen and what was dreamt under headings, the dream on a ground of its own."""
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
    letters = font(layout.text)
    pen.text(place, label(name), font=letters, fill=theme.text, anchor="rm", align="right")


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
                pen.text(place, signed(value), colour, font(layout.text), anchor="mm")


def signed(value: float) -> str:
    """A reward in few letters."""
    short = f"{value:+.2f}".rstrip("0").rstrip(".") if abs(value) < 10 else f"{value:+.0f}"
    return minus(short)


def cells(
    rows: DreamRows, layout: Layout, theme: Theme
) -> Iterator[tuple[tuple[int, int], UInt8[np.ndarray, "H W 3"]]]:
    """Every enlarged frame with its place; padding has none."""
    for stretch in rows.stretches:
        for time in range(stretch.begin, stretch.end):
            for line, kind in enumerate(rows.kinds):
                cell = draw_cell(rows, kind, (stretch.row, time), layout.factor, theme)
                if kind in rows.dreams and time < stretch.dream:
                    cell = fade(cell, theme)
                yield (layout.x(time), layout.y(stretch.row, line)), cell


def draw_cell(
    rows: DreamRows, kind: str, at: tuple[int, int], factor: int, theme: Theme
) -> UInt8[np.ndarray, "H W 3"]:
    """One frame enlarged, or the codes of one as large."""
    coded = rows.coded
    if coded and kind in ("codes", "changed"):
        height, width = (factor * side for side in rows.real.shape[2:4])
        lit = coded.changed[at] if kind == "changed" else None
        colours = (shades if coded.shades else code_colours)(coded.vocabulary)
        return draw_tiles(coded.tiles[at], colours, (height, width), theme, lit)
    shown = {"real": rows.real, **rows.dreams}
    frames = coded.reconstruction if coded and kind == "reconstruction" else shown[kind]
    frame = frames[at]
    frame = frame if frame.shape[-1] == 3 else frame[..., :1].repeat(3, axis=-1)
    return enlarge(frame, factor)


def draw_tiles(
    tiles: Int[np.ndarray, "h w"],
    colours: UInt8[np.ndarray, "V 3"],
    size: tuple[int, int],
    theme: Theme,
    lit: Bool[np.ndarray, "h w"] | None = None,
) -> UInt8[np.ndarray, "H W 3"]:
    """A coloured square for each code, in the middle of the cell; faint where it is not lit."""
    strength = np.ones(tiles.shape) if lit is None else np.where(lit, 1.0, FAINT)
    opaque = np.rint(255 * strength * (tiles >= 0)).astype(np.uint8)
    factor = max(1, min(size[0] // tiles.shape[0], size[1] // tiles.shape[1]))
    ground = Image.new("RGB", size[::-1], theme.background)
    squares = Image.fromarray(rule(enlarge(colours[tiles], factor), factor))
    spare = (size[1] - squares.width) // 2, (size[0] - squares.height) // 2
    mask = Image.fromarray(enlarge(opaque[..., None], factor)[..., 0])
    ground.paste(squares, spare, mask=mask)
    return np.asarray(ground)


def enlarge(frame: UInt8[np.ndarray, "H W C"], factor: int) -> UInt8[np.ndarray, "h w C"]:
    """Every pixel a square of pixels."""
    return frame.repeat(factor, axis=0).repeat(factor, axis=1)


def rule(squares: UInt8[np.ndarray, "H W 3"], factor: int) -> UInt8[np.ndarray, "H W 3"]:
    """Thin darker lines that part the squares."""
    rows, columns = (np.arange(side) % factor < factor // 8 for side in squares.shape[:2])
    shade = np.where(rows[:, None] | columns, 0.8, 1.0)
    return np.asarray(np.rint(squares * shade[..., None]), np.uint8)


def fade(cell: UInt8[np.ndarray, "H W 3"], theme: Theme) -> UInt8[np.ndarray, "H W 3"]:
    """Most of the way to the background."""
    image = Image.fromarray(cell)
    return np.asarray(Image.blend(Image.new("RGB", image.size, theme.background), image, 0.35))


def write_animation(
    path: Path, rows: DreamRows, *, seconds: float = 0.4, theme: Theme = LIGHT
) -> Path:
    """Write an animated WebP or GIF, by the name's ending; each step lasts so many seconds."""
    suffix = path.suffix.lower()
    if suffix not in FORMATS:
        raise unknown("animation", suffix, FORMATS)
    buffer = io.BytesIO()
    images = [draw_moment(rows, time, theme) for time in range(rows.real.shape[1])]
    how: dict[str, Any] = {"duration": round(1000 * seconds), "loop": 0, "lossless": True}
    images[0].save(buffer, suffix[1:], save_all=True, append_images=images[1:], **how)
    return replace_file(path, buffer.getvalue())


def draw_moment(rows: DreamRows, time: int, theme: Theme = LIGHT) -> Image.Image:
    """All rows at one step, the kinds of frame under their names."""
    panels, _, height, width, _ = rows.real.shape
    factor = max(1, round(MOVING_CELL / max(height, width)))
    lines = max(label(kind).count("\n") + 1 for kind in rows.kinds)
    gap, top = LETTER // 2, (lines + 1) * LETTER
    across, down = width * factor + gap, height * factor + gap
    size = (gap + len(rows.kinds) * across, top + panels * down)
    image = Image.new("RGB", size, theme.background)
    pen = ImageDraw.Draw(image)
    dreamt = dreamt_rows(rows, time)
    for column, kind in enumerate(rows.kinds):
        colour = theme.strong if kind in rows.dreams and dreamt.any() else theme.text
        pen.text((gap + column * across, top // 2), label(kind), colour, font(LETTER), "lm")
        for panel in range(panels):
            cell = draw_cell(rows, kind, (panel, time), factor, theme)
            shown = fade(cell, theme) if kind in rows.dreams and not dreamt[panel] else cell
            image.paste(Image.fromarray(shown), (gap + column * across, top + panel * down))
    return image


def dreamt_rows(rows: DreamRows, time: int) -> np.ndarray:
    """Which rows are dreaming at a step."""
    dreamt = np.zeros(len(rows.real), bool)
    for stretch in rows.stretches:
        dreamt[stretch.row] |= stretch.dream <= time < stretch.end
    return dreamt
