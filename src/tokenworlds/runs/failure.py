"""The sentence of the error that ended a run, kept in its folder until the run goes on."""

import contextlib
import json
from pathlib import Path

from tokenworlds.core import files
from tokenworlds.core.errors import UserError

FILE = "failure.json"
LONGEST = 1_000


def record(folder: Path, error: Exception) -> None:
    """Keep what ended a run. A full disk, which may have ended it, is no second error."""
    text = " ".join(str(error).split())
    sentence = text if text and is_sentence(error) else f"{type(error).__name__}: {text}"
    document = json.dumps({"problem": sentence[:LONGEST]}) + "\n"
    with contextlib.suppress(OSError, UserError):
        files.write_file(folder, FILE, document.encode())


def is_sentence(error: Exception) -> bool:
    """Whether the error's text is written for users: errors of this package are."""
    return type(error).__module__.startswith("tokenworlds.")


def clear(folder: Path) -> None:
    (folder / FILE).unlink(missing_ok=True)


def read(folder: Path) -> str:
    """The sentence; empty for a run that did not fail."""
    if not (folder / FILE).exists():
        return ""
    document = files.read_json(folder, FILE)
    problem = document.get("problem") if isinstance(document, dict) else None
    return problem[:LONGEST] if isinstance(problem, str) else ""
