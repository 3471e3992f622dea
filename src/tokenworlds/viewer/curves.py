"""Metrics of a run, piece by piece as it writes them."""

import os
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tokenworlds.core import files
from tokenworlds.core.files import DamagedFile
from tokenworlds.runs import events

PIECE = 2**21
"""Bytes that one request reads."""
MARK = 256
UNITS = ("env_frames", "gradient_steps", "imagined_steps")


@dataclass(frozen=True, slots=True)
class Place:
    """How far a page has read: an offset, and a checksum of the bytes before it.

    A resumed run cuts its metrics back to its checkpoint. The checksum notices that the file has
    grown beyond the offset again.
    """

    offset: int = 0
    mark: int = 0

    @classmethod
    def parse(cls, text: str) -> "Place":
        """The start for a text that no answer contained."""
        offset, dot, mark = text.partition(".")
        if not (dot and all(part.isascii() and part.isdigit() for part in (offset, mark))):
            return cls()
        return cls(*(int(part[:18]) for part in (offset, mark)))

    def __str__(self) -> str:
        return f"{self.offset}.{self.mark}"


def read_curves(folder: Path, place: Place) -> dict[str, Any]:
    """Series of the events after a place: steps and values by name.

    `reset` tells the page to forget what it has, `more` to ask again at once.
    """
    try:
        with files.opened(folder, events.FILE) as file:
            known = matches(file.fileno(), place)
            begin = place.offset if known else 0
            content = os.pread(file.fileno(), PIECE, begin)
            whole = content[: content.rfind(b"\n") + 1]
            found, read = events.parse_lines(whole)
            end = begin + read
            place = Place(end, mark_at(file.fileno(), end))
    except DamagedFile:  # Before its first event a run has no such file.
        return {"reset": True, "more": False, "place": str(Place()), "series": {}, "problem": ""}
    damaged = read < len(whole)
    problem = f"{events.FILE} is damaged after {end:,} bytes: later values are left out"
    return {
        "reset": not known or begin == 0,
        "more": len(content) == PIECE and not damaged and read > 0,
        "place": str(place),
        "series": series(found),
        "problem": problem if damaged else "",
    }


def matches(descriptor: int, place: Place) -> bool:
    size = os.fstat(descriptor).st_size
    return place.offset <= size and mark_at(descriptor, place.offset) == place.mark


def mark_at(descriptor: int, offset: int) -> int:
    begin = max(offset - MARK, 0)
    return zlib.crc32(os.pread(descriptor, offset - begin, begin))


def series(found: list[dict[str, Any]]) -> dict[str, list[list[int | float]]]:
    """Agent steps and values of each metric."""
    by_name: dict[str, list[list[int | float]]] = {}
    for event in found:
        step = event["agent_steps"]
        for name, value in event.items():
            if name != "agent_steps" and name not in UNITS:
                steps, values = by_name.setdefault(name, [[], []])
                steps.append(step)
                values.append(value)
    return by_name
