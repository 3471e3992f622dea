"""A dream as a moving picture: record, reconstruction, codes and dream side by side."""

import io
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageDraw

from tokenworlds.core.errors import unknown
from tokenworlds.evaluation.dream_layout import label
from tokenworlds.evaluation.dream_picture import draw_cell, fade
from tokenworlds.evaluation.dream_rows import DreamRows
from tokenworlds.evaluation.pictures import LIGHT, Theme, font
from tokenworlds.evaluation.results import replace_file

CELL = 192
LETTER = 20
FORMATS = (".webp", ".gif")


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
    factor = max(1, round(CELL / max(height, width)))
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
