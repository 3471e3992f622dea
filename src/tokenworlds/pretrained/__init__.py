"""Small agents that ship with the package; scripts/pretrained makes them from runs."""

import os
from importlib.resources import files
from pathlib import Path

from tokenworlds.core.errors import unknown

PREFIX = "pretrained:"
ROOT = Path(str(files("tokenworlds.pretrained") / "agents"))
DEFAULT = "step-vq-m-catch"


def names() -> list[str]:
    return sorted(path.name for path in ROOT.iterdir()) if ROOT.is_dir() else []


def folder_of(name: str) -> Path:
    if name not in names():
        raise unknown("pretrained agent", name, names())
    return ROOT / name


def resolve(place: str | os.PathLike[str]) -> Path:
    """The folder that a user means: a path, or a pretrained agent as `pretrained:NAME` or NAME.

    A folder of that name in the current one comes first.
    """
    text = os.fspath(place)
    if text.startswith(PREFIX):
        return folder_of(text.removeprefix(PREFIX))
    if not Path(text).exists() and text in names():
        return folder_of(text)
    return Path(text)
