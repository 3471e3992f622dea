"""Where things stand in the picture of a dream."""

from dataclasses import dataclass

import numpy as np

from tokenworlds.evaluation.dream_rows import DreamRows
from tokenworlds.evaluation.pictures import font

CELL = 128
"""About how many pixels a frame takes; it is enlarged by a whole number."""
WIDEST = "codes at random"
"""The line of text that takes most room among the names at the left."""


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
