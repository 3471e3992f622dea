"""What every figure has in common: title, caption, the numbers behind it, and facts in the file."""

import io
import json
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from PIL import Image, ImageDraw, ImageFont
from PIL.PngImagePlugin import PngInfo

from tokenworlds.core.files import replace_file
from tokenworlds.evaluation.pictures import DARK, LIGHT, Theme, figure_bytes, font
from tokenworlds.runs.folder import RunFolder
from tokenworlds.runs.spec import RunSpec

THEMES: Mapping[str, Theme] = {"light": LIGHT, "dark": DARK}
WIDTH = 1600
"""Pixels; a figure of 8 inches at 200 dots per inch."""
INCHES, DPI = 8.0, 200
MARGIN, TITLE, CAPTION = 40, 44, 26
Draw = Callable[[Theme], Image.Image]


@dataclass(frozen=True, slots=True)
class RunSource:
    """A run to draw, as the user named it."""

    name: str
    folder: RunFolder
    spec: RunSpec


@dataclass(frozen=True, kw_only=True, slots=True)
class Request:
    """What a figure is made from. An option of None or "" has the figure's own default."""

    runs: Sequence[RunSource] = ()
    size: str = ""
    env: str = ""
    seed: int | None = None
    steps: int | None = None
    seconds: float | None = None
    threads: int | None = None
    bench: str = ""
    note: Callable[[str], None] = lambda text: None


@dataclass(frozen=True, slots=True)
class Picture:
    """A figure: `data` holds the numbers that `draw` shows, as JSON can hold them."""

    title: str
    caption: str
    data: Mapping[str, Any]
    draw: Draw


def new_figure(height: float, theme: Theme, **options: Any) -> Figure:
    """A figure as wide as the picture; `height` in inches."""
    options = {"layout": ConstrainedLayoutEngine(rect=(0.02, 0, 0.96, 1)), **options}
    return Figure(figsize=(INCHES, height), dpi=DPI, facecolor=theme.background, **options)


def to_image(figure: Figure) -> Image.Image:
    return Image.open(io.BytesIO(figure_bytes(figure))).convert("RGB")


def compose(picture: Picture, theme: Theme, command: str) -> Image.Image:
    """The title over the drawing, the caption and the command under it."""
    body = picture.draw(theme)
    width = max(body.width, WIDTH)
    lines = wrap(f"{picture.caption}\n{command}", width - 2 * MARGIN)
    step = int(1.45 * CAPTION)
    top, bottom = TITLE + 2 * MARGIN, step * len(lines) + 2 * MARGIN
    image = Image.new("RGB", (width, top + body.height + bottom), theme.background)
    canvas = ImageDraw.Draw(image)
    canvas.text((MARGIN, MARGIN), picture.title, theme.text, bold_font(TITLE))
    image.paste(body, ((width - body.width) // 2, top))
    y = top + body.height + MARGIN
    for line in lines:
        canvas.text((MARGIN, y), line, theme.muted, font(CAPTION))
        y += step
    return image


def wrap(text: str, width: int) -> list[str]:
    """Lines of a caption that fit into a width in pixels; the text keeps its own line breaks."""
    characters = int(width / (font(CAPTION).getlength("the quick brown fox jumps") / 25))
    paragraphs = text.splitlines()
    return [line for each in paragraphs for line in textwrap.wrap(each, characters) or [""]]


def bold_font(size: int) -> ImageFont.FreeTypeFont:
    folder = Path(matplotlib.get_data_path()) / "fonts" / "ttf"
    return ImageFont.truetype(str(folder / "DejaVuSans-Bold.ttf"), size)


def write_picture(path: Path, picture: Picture, theme: Theme, command: str) -> Path:
    """Write a PNG whose text chunks hold caption, command and data."""
    facts = PngInfo()
    facts.add_text("Title", picture.title)
    facts.add_text("Description", picture.caption)
    facts.add_text("Source", command)
    facts.add_text("Software", f"tokenworlds {version('tokenworlds')}")
    facts.add_text("Data", json.dumps(picture.data), zip=True)
    buffer = io.BytesIO()
    compose(picture, theme, command).save(buffer, format="png", optimize=True, pnginfo=facts)
    return replace_file(path, buffer.getvalue())
