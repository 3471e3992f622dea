"""A picture of a dream: what happened, how the codes hold it, and how the world went on alone."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
from jaxtyping import Bool, Int, UInt8
from PIL import Image, ImageDraw
from torch import Generator

from tokenworlds.agent import Agent
from tokenworlds.core.types import Segment
from tokenworlds.evaluation.dream_layout import Layout, label
from tokenworlds.evaluation.dream_rows import DreamRows, Stretch, dream_rows
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

NOTABLE = 0.1
"""Rewards smaller than this share of the largest are not worth a word."""
FAINT = 0.15
"""How strongly a code is drawn that is the same as before."""


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
