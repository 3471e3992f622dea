"""Figures as inline SVG: one picture for light and dark, in the fonts and colours of the page."""

import io
import re
from html import escape
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from tokenworlds.evaluation.curves import Grid, style_axes
from tokenworlds.evaluation.page import Html
from tokenworlds.evaluation.pictures import LIGHT, minus

SERIES = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#b58900", "#56b4e9", "#7a5195", "#6b7280")
"""Okabe and Ito's colours, which people with any colour vision tell apart; page.py names them."""
Dashes = tuple[float, tuple[float, ...]]
DASHES: tuple[str | Dashes, ...] = (
    "-",
    (0.0, (5.0, 1.6)),
    (0.0, (1.4, 1.2)),
    (0.0, (6.0, 1.5, 1.4, 1.5)),
)
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
SVG: Any = {"svg.fonttype": "none", "svg.hashsalt": "tokenworlds"}
VARIABLES = {
    **{colour: f"var(--s{index})" for index, colour in enumerate(SERIES)},
    LIGHT.text: "var(--text)",
    LIGHT.muted: "var(--muted)",
    LIGHT.grid: "var(--line)",
    LIGHT.background: "var(--back)",
}
UNWANTED = re.compile(r"<metadata>.*?</metadata>|<style.*?</style>|^.*?(?=<svg)", re.S)
GEOMETRY = re.compile(r' (?:d|x|y|width|height|transform)="[^"]*"')
DECIMALS = re.compile(r"(\d+\.\d)\d+")
FONT = re.compile(r" font-family: [^;\"]*;?")
NAMES = re.compile(r'(\bid="|url\(#|href="#)')


def colour(index: int) -> str:
    return SERIES[index % len(SERIES)]


def dashes(index: int) -> str | Dashes:
    """With more agents than colours, and without colours, the dashes tell them apart."""
    return DASHES[(index + index // len(SERIES)) % len(DASHES)]


def marker(index: int) -> str:
    return MARKERS[(index + index // len(SERIES)) % len(MARKERS)]


def make_axes(
    width: float, height: float, *, left: float, bottom: float, top: float, right: float = 0.12
) -> tuple[Figure, Axes]:
    """A figure with margins in inches; a layout engine would take longer than the drawing."""
    figure = Figure(figsize=(width, height))
    figure.patch.set_visible(False)
    inner = (width - left - right, height - bottom - top)
    place = (left / width, bottom / height, inner[0] / width, inner[1] / height)
    axes = figure.add_axes(place)
    axes.patch.set_visible(False)
    return figure, axes


def plain_style(axes: Axes, grid: Grid = "y", spine: str = "bottom", label_size: int = 8) -> None:
    style_axes(axes, LIGHT, grid=grid, spine=spine, label_size=label_size)
    axes.patch.set_visible(False)


def panel_title(axes: Axes, text: str, size: float = 10) -> None:
    title = axes.set_title(text, loc="left", fontsize=size, color=LIGHT.text, pad=6)
    title.set(fontweight="bold", parse_math=False)


def inline_svg(figure: Figure, alt: str, number: int) -> Html:
    """The figure as an element of a page; `number` keeps the names of its parts apart."""
    buffer = io.StringIO()
    with matplotlib.rc_context(SVG):
        figure.savefig(buffer, format="svg", metadata={"Date": None})
    text = UNWANTED.sub("", buffer.getvalue())
    # A tenth of a point is precise enough for shapes, but labels keep their digits.
    text = GEOMETRY.sub(lambda found: DECIMALS.sub(r"\1", found[0]), text)
    text = NAMES.sub(rf"\g<1>f{number}-", FONT.sub("", text))
    for value, variable in VARIABLES.items():
        text = text.replace(value, variable)
    width, height = figure.get_size_inches() * 72
    opening = (
        f'<svg class="chart" role="img" aria-label="{escape(alt)}" '
        f'viewBox="0 0 {width:.1f} {height:.1f}" xmlns:xlink="http://www.w3.org/1999/xlink">'
    )
    body = text[text.index(">") + 1 :]
    return Html(opening + re.sub(r"\s*\n\s*", " ", body).strip())


def short(value: int | float) -> str:
    """A number for a label: three digits, thousands as k."""
    if abs(value) >= 10_000:
        return minus(f"{value / 1000:.3g}k")
    return minus(f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}")
