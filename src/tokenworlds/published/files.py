"""The data files of this package."""

import json
from importlib.resources import files
from typing import Any


def read(name: str) -> Any:
    return json.loads(folder().joinpath(name).read_text(encoding="utf-8"))


def names() -> list[str]:
    return sorted(path.name for path in folder().iterdir() if path.name.endswith(".json"))


def folder() -> Any:
    return files("tokenworlds.published").joinpath("data")
