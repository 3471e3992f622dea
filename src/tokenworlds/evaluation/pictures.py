"""Shared by all pictures: light and dark colours, a font, PNG encoding."""

import base64
import io
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import matplotlib
import numpy as np
from jaxtyping import Float, UInt8
from matplotlib.figure import Figure
from PIL import Image, ImageFont

GOLDEN = 0.6180339887498949
PLASTIC = 0.7548776662466927


@dataclass(frozen=True, slots=True)
class Theme:
    """Colours of a page. `strong` is for the main series, `soft` for the second."""

    background: str
    panel: str
    text: str
    muted: str
    grid: str
    strong: str
    soft: str
    best: str


LIGHT = Theme(
    background="#ffffff",
    panel="#f1f5f9",
    text="#0f172a",
    muted="#64748b",
    grid="#e2e8f0",
    strong="#2563eb",
    soft="#f59e0b",
    best="#059669",
)
DARK = Theme(
    background="#0d1117",
    panel="#1b2330",
    text="#e6edf3",
    muted="#8b98a9",
    grid="#252d39",
    strong="#60a5fa",
    soft="#fbbf24",
    best="#34d399",
)


def figure_bytes(figure: Figure) -> bytes:
    """PNG without metadata: the same figure gives the same bytes."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", metadata={"Software": None})
    return buffer.getvalue()


def image_bytes(image: Image.Image) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, format="png", optimize=True)
    return buffer.getvalue()


def data_uri(png: bytes) -> str:
    """A PNG as an address that embeds it in a page."""
    return f"data:image/png;base64,{base64.b64encode(png).decode()}"


def minus(text: str) -> str:
    """Replace hyphens by minus signs."""
    return text.replace("-", "\N{MINUS SIGN}")


@cache
def font(size: int) -> ImageFont.FreeTypeFont:
    """Matplotlib's default font, for Pillow."""
    folder = Path(matplotlib.get_data_path()) / "fonts" / "ttf"
    return ImageFont.truetype(str(folder / "DejaVuSans.ttf"), size)


def token_colours(vocabulary: int) -> UInt8[np.ndarray, "V 3"]:
    """A distinct colour for each token, the same for every size of vocabulary.

    Hue and lightness in OKLab advance by irrational fractions, which spreads them evenly.
    """
    index = np.arange(vocabulary)
    hue = 2 * np.pi * (0.72 + GOLDEN * index)
    lightness = 0.50 + 0.34 * ((0.35 + PLASTIC * index) % 1)
    chroma = 0.13
    return from_oklab(np.stack([lightness, chroma * np.cos(hue), chroma * np.sin(hue)], axis=-1))


def greys(count: int) -> UInt8[np.ndarray, "V 3"]:
    return np.rint(np.linspace(0, 255, count)).astype(np.uint8)[:, None].repeat(3, axis=1)


def from_oklab(lab: Float[np.ndarray, "*rest 3"]) -> UInt8[np.ndarray, "*rest 3"]:
    """OKLab (Ottosson, 2020) to sRGB bytes; colours outside sRGB are clipped."""
    to_cone = [[1, 0.3963377774, 0.2158037573], [1, -0.1055613458, -0.0638541728]]
    to_cone.append([1, -0.0894841775, -1.2914855480])
    to_linear = [[4.0767416621, -3.3077115913, 0.2309699292]]
    to_linear.append([-1.2684380046, 2.6097574011, -0.3413193965])
    to_linear.append([-0.0041960863, -0.7034186147, 1.7076147010])
    cone = (lab @ np.array(to_cone).T) ** 3
    linear = np.clip(cone @ np.array(to_linear).T, 0.0, 1.0)
    curved = np.where(linear <= 0.0031308, 12.92 * linear, 1.055 * linear ** (1 / 2.4) - 0.055)
    return np.asarray(np.rint(255 * curved), np.uint8)
