"""Files that a user names to be written."""

import os
from collections.abc import Sequence
from pathlib import Path

from tokenworlds.core.errors import UserError


def choose_place(out: Path, formats: Sequence[str]) -> Path:
    """A file that can be written, of a kind that can be made."""
    hindrance = find_hindrance(out, formats)
    if hindrance:
        raise UserError(f"cannot write to {out}: {hindrance}")
    return out


def find_hindrance(out: Path, formats: Sequence[str]) -> str:
    """Why a file cannot be written; nothing if it can."""
    if out.suffix.lower() not in formats:
        ends = f"one of {', '.join(formats)}" if len(formats) > 1 else formats[0]
        return f"its name must end in {ends}"
    if not out.parent.is_dir():
        return f"there is no folder {out.parent}"
    if out.is_dir():
        return "it is a folder"
    return "" if os.access(out.parent, os.W_OK) else f"{out.parent} is read-only"
