"""Read metrics.jsonl, one JSON object per log event, without torch."""

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tokenworlds.core import files
from tokenworlds.core.files import DamagedFile

FILE = "metrics.jsonl"
LONGEST = 2**30
TAIL = 2**16
MOST_STEPS = 2**53


def read_metrics(folder: Path) -> tuple[list[dict[str, Any]], list[str]]:
    """All events of a run up to the first damaged line, and a note if there is one.

    A last line that is still being written is no damage.
    """
    content = read_content(folder)
    whole = content[: content.rfind(b"\n") + 1]
    events, read = parse_lines(whole)
    if read == len(whole):
        return events, []
    return events, [f"{folder / FILE} is damaged after {read:,} bytes: later lines are left out"]


def read_tail(folder: Path, size: int = TAIL) -> list[dict[str, Any]]:
    """The events in the last bytes of the file, without a line that is cut off or damaged."""
    if not (folder / FILE).exists():
        return []
    with files.opened(folder, FILE) as file:
        begin = max(files.size_of(file) - size, 0)
        content = os.pread(file.fileno(), size, begin)
    lines = content.splitlines(keepends=True)[1 if begin else 0 :]
    return [event for line in lines for event in parse_lines(line)[0]]


def read_events_with(folder: Path, names: Sequence[str]) -> tuple[list[dict[str, Any]], list[str]]:
    """As `read_metrics`, but only the events that have one of the names.

    Other lines are not parsed, so damage in them goes unnoticed.
    """
    words = [json.dumps(name).encode() for name in names]
    found: list[dict[str, Any]] = []
    for line in read_content(folder).splitlines(keepends=True):
        if line.endswith(b"\n") and any(word in line for word in words):
            events, read = parse_lines(line)
            if not read:
                return found, [f"{folder / FILE} has a damaged line: later lines are left out"]
            found += events
    return found, []


def read_content(folder: Path) -> bytes:
    if not (folder / FILE).exists():
        return b""
    return files.read_bytes(folder, FILE, LONGEST)


def parse_lines(content: bytes) -> tuple[list[dict[str, Any]], int]:
    """The events of the lines before the first damaged one, and the size of those lines."""
    events: list[dict[str, Any]] = []
    size = 0
    for line in content.splitlines(keepends=True):
        try:
            event = files.parse_json(line, Path(FILE))
        except DamagedFile:
            break
        if not line.endswith(b"\n") or not is_event(event):
            break
        events.append(event)
        size += len(line)
    return events, size


def is_event(event: Any) -> bool:
    """Whether a line holds numbers by name, the agent's steps among them."""
    if not isinstance(event, dict) or not all(map(is_number, event.values())):
        return False
    steps = event.get("agent_steps")
    return isinstance(steps, int) and 0 <= steps < MOST_STEPS


def is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
