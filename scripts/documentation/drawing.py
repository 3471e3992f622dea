"""Boxes and arrows on a grid, as SVG."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

WIDTH, HEIGHT = 168, 62
"""Of a box."""
COLUMN, ROW, MARGIN = 214, 104, 14
FILLS = {
    "data": ("#ffffff", "#8a94a3"),
    "model": ("#e3edf8", "#1f4e79"),
    "head": ("#e7f3ea", "#2c7a46"),
    "policy": ("#fcebdd", "#b4530f"),
}
"""Colour and outline by kind."""
FONT = "font-family='system-ui, -apple-system, Segoe UI, Roboto, Helvetica, Arial, sans-serif'"
Point = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Box:
    """A name and what is in it, at a column and a row."""

    column: float
    row: float
    kind: str
    title: str
    detail: str = ""

    @property
    def left(self) -> float:
        return MARGIN + self.column * COLUMN

    @property
    def top(self) -> float:
        return MARGIN + self.row * ROW

    def side(self, name: str, shift: float = 0.0) -> Point:
        """The middle of a side, or a point `shift` pixels along it."""
        x, y = self.left + WIDTH / 2, self.top + HEIGHT / 2
        return {
            "left": (self.left, y + shift),
            "right": (self.left + WIDTH, y + shift),
            "top": (x + shift, self.top),
            "bottom": (x + shift, self.top + HEIGHT),
        }[name]

    def svg(self) -> str:
        fill, outline = FILLS[self.kind]
        middle = self.left + WIDTH / 2
        lines = [
            f"<rect x='{self.left:g}' y='{self.top:g}' width='{WIDTH}' height='{HEIGHT}' rx='7' "
            f"fill='{fill}' stroke='{outline}' stroke-width='1.5'/>",
            text(middle, self.top + (27 if self.detail else 36), self.title, 15, "600"),
        ]
        if self.detail:
            lines.append(text(middle, self.top + 46, self.detail, 12.5, "400", "#4a5462"))
        return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class Arrow:
    """A line through points, with a head at its end; dashed to the next step."""

    points: tuple[Point, ...]
    label: str = ""
    dashed: bool = False

    def svg(self) -> str:
        path = "M" + " L".join(f"{x:g} {y:g}" for x, y in self.points)
        dash = " stroke-dasharray='5 4'" if self.dashed else ""
        line = (
            f"<path d='{path}' fill='none' stroke='#5b6675' stroke-width='1.6'{dash} "
            "marker-end='url(#head)'/>"
        )
        if not self.label:
            return line
        (x0, y0), (x1, y1) = longest(self.points)
        x, y = (x0 + x1) / 2, (y0 + y1) / 2
        flat = abs(x1 - x0) > abs(y1 - y0)
        label = (
            text(x, y - 6, self.label, 12, "400", "#4a5462")
            if flat
            else text(x + 6, y + 4, self.label, 12, "400", "#4a5462", "start")
        )
        return f"{line}\n{label}"


def longest(points: Sequence[Point]) -> tuple[Point, Point]:
    return max(
        itertools.pairwise(points),
        key=lambda pair: sum(abs(a - b) for a, b in zip(*pair, strict=True)),
    )


def text(
    x: float,
    y: float,
    words: str,
    size: float,
    weight: str,
    fill: str = "#17202b",
    anchor: str = "middle",
) -> str:
    return (
        f"<text x='{x:g}' y='{y:g}' font-size='{size:g}' font-weight='{weight}' fill='{fill}' "
        f"text-anchor='{anchor}'>{escape(words)}</text>"
    )


def straight(start: Box, end: Box, label: str = "", dashed: bool = False) -> Arrow:
    """From the side of one box to the facing side of another in its row or column."""
    if start.row == end.row:
        sides = ("right", "left") if start.column < end.column else ("left", "right")
    else:
        sides = ("bottom", "top") if start.row < end.row else ("top", "bottom")
    return Arrow((start.side(sides[0]), end.side(sides[1])), label, dashed)


def elbow(start: Box, end: Box, label: str = "") -> Arrow:
    """Out of the right side, then up or down, then into the left side."""
    a, b = start.side("right"), end.side("left")
    middle = b[0] - (COLUMN - WIDTH) / 2
    return Arrow((a, (middle, a[1]), (middle, b[1]), b), label)


def draw(title: str, boxes: Sequence[Box], arrows: Sequence[Arrow]) -> str:
    """An SVG document with a white background; screen readers read its title."""
    width = max(box.left for box in boxes) + WIDTH + MARGIN
    height = max(
        [box.top + HEIGHT for box in boxes] + [y for arrow in arrows for _, y in arrow.points]
    )
    height += MARGIN
    body = "\n".join([*(arrow.svg() for arrow in arrows), *(box.svg() for box in boxes)])
    return (
        f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {width:g} {height:g}' {FONT} "
        f"role='img' aria-label='{escape(title, quote=True)}'>\n"
        f"<title>{escape(title)}</title>\n"
        "<defs><marker id='head' viewBox='0 0 8 8' refX='7' refY='4' markerWidth='8' "
        "markerHeight='8' orient='auto-start-reverse'><path d='M0 0 L8 4 L0 8 z' fill='#5b6675'/>"
        "</marker></defs>\n"
        f"<rect width='{width:g}' height='{height:g}' fill='#fff'/>\n{body}\n</svg>\n"
    )
