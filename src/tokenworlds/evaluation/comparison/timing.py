"""Hours and speed of a run, from the times in its TensorBoard files.

metrics.jsonl holds no times: it is a function of the run's inputs, and two equal runs have equal
files. Each session writes its own TensorBoard file, so the pause between two sessions does not
count. The time before a session's first log event does not count either.
"""

import mmap
import struct
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from tokenworlds.core import files
from tokenworlds.core.errors import UserError

FOLDER = "tensorboard"
LENGTH = struct.Struct("<Q")
HEADER, FOOTER = 12, 4
"""A record is its length, a checksum of that, the event, and a checksum of the event."""
WALL_TIME, STEP = 0x09, 0x10
"""Tags of an event's first two fields, a double and a varint."""
TIME = struct.Struct("<d")


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds between the first and the last log event of every session, and the steps in them."""

    seconds: float
    steps: int

    @property
    def hours(self) -> float:
        return self.seconds / 3600

    @property
    def steps_per_second(self) -> float | None:
        return self.steps / self.seconds if self.steps > 0 and self.seconds > 0 else None


def read_timing(run: Path) -> Timing | None:
    """None if the run has no TensorBoard file that can be read."""
    place = run / FOLDER
    names = sorted(path.name for path in place.iterdir()) if place.is_dir() else []
    sessions = [found for name in names if (found := read_session(place, name))]
    if not sessions:
        return None
    return Timing(sum(s.seconds for s in sessions), sum(s.steps for s in sessions))


def read_session(place: Path, name: str) -> Timing | None:
    try:
        with files.opened(place, name) as file:
            if not files.size_of(file):
                return None
            with closing(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)) as content:
                stamps = list(read_stamps(content))
    except (UserError, OSError):
        return None
    logged = [stamp for stamp in stamps if stamp[1] is not None]
    if not logged:
        return None
    (begin, first), (end, last) = logged[0], logged[-1]
    return Timing(max(end - begin, 0.0), max((last or 0) - (first or 0), 0))


def read_stamps(content: mmap.mmap) -> Iterator[tuple[float, int | None]]:
    """Time and step of every event, as far as the records are whole."""
    place, size = 0, len(content)
    while place + HEADER + 1 + TIME.size <= size:
        (length,) = LENGTH.unpack_from(content, place)
        event = place + HEADER
        place = event + length + FOOTER
        if place > size or content[event] != WALL_TIME:
            return
        (seconds,) = TIME.unpack_from(content, event + 1)
        after = event + 1 + TIME.size
        has_step = after < event + length and content[after] == STEP
        yield seconds, read_varint(content, after + 1) if has_step else None


def read_varint(content: mmap.mmap, place: int) -> int:
    """Seven bits of each byte, the lowest first, up to a byte below 128."""
    value = shift = 0
    while place < len(content):
        byte = content[place]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
        place, shift = place + 1, shift + 7
    return value
