"""A sheet of small pictures: a labelled line for each kind, a column for each step."""

from collections.abc import Mapping, Sequence

import numpy as np
from jaxtyping import UInt8
from PIL import Image, ImageDraw

from tokenworlds.evaluation.pictures import Theme, font
from tokenworlds.figures.picture import MARGIN, WIDTH

Pixels = UInt8[np.ndarray, "H W 3"]
TEXT = 24
GAP = 8


def cell_size(labels: Sequence[str], columns: int) -> tuple[int, int]:
    """Width of the labels and of a cell, such that the sheet is as wide as a picture."""
    lines = [line for label in labels for line in label.splitlines()]
    left = MARGIN + round(max(font(TEXT).getlength(line) for line in lines)) + TEXT
    return left, max(24, (WIDTH - MARGIN - left) // columns - GAP)


def draw_sheet(
    lines: Mapping[str, Sequence[Pixels]],
    heads: Sequence[str],
    notes: Mapping[str, Sequence[str]],
    theme: Theme,
) -> Image.Image:
    """Cells under column heads, and below each line its notes, if it has any."""
    left, cell = cell_size([*lines, *notes], len(heads))
    strip = int(1.6 * TEXT)
    height = strip + sum(cell + GAP + (strip if name in notes else 0) for name in lines)
    image = Image.new("RGB", (WIDTH, height), theme.background)
    canvas = ImageDraw.Draw(image)
    xs = [left + column * (cell + GAP) for column in range(len(heads))]
    for x, head in zip(xs, heads, strict=True):
        canvas.text((x + cell // 2, strip // 2), head, theme.muted, font(TEXT), "mm")
    y = strip
    for name, cells in lines.items():
        place = (left - TEXT, y + cell // 2)
        canvas.text(place, name, theme.text, font(TEXT), "rm", align="right")
        for x, pixels in zip(xs, cells, strict=True):
            image.paste(fit(pixels, cell), (x, y))
            canvas.rectangle((x - 1, y - 1, x + cell, y + cell), outline=theme.grid)
        y += cell + GAP
        if name in notes:
            for x, note in zip(xs, notes[name], strict=True):
                canvas.text(
                    (x + cell // 2, y + strip // 2 - GAP), note, theme.text, font(TEXT), "mm"
                )
            y += strip
    return image


def fit(pixels: Pixels, cell: int) -> Image.Image:
    """Scaled to a square cell without smoothing where it grows."""
    image = Image.fromarray(pixels)
    grows = cell >= max(image.size)
    how = Image.Resampling.NEAREST if grows else Image.Resampling.BOX
    return image.resize((cell, cell), how)


def rgb(frame: UInt8[np.ndarray, "H W C"]) -> Pixels:
    """A frame with three channels; of a stack of grey frames, the first."""
    return frame if frame.shape[-1] == 3 else frame[..., :1].repeat(3, axis=-1)


def stack(images: Sequence[Image.Image], theme: Theme) -> Image.Image:
    """Images of one width from top to bottom."""
    height = sum(image.height for image in images) + MARGIN * (len(images) - 1)
    stacked = Image.new("RGB", (images[0].width, height), theme.background)
    y = 0
    for image in images:
        stacked.paste(image, (0, y))
        y += image.height + MARGIN
    return stacked
