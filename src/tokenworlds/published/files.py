"""The data files of this package."""

import json
from importlib.resources import files
from typing import Any


def read(name: str) -> Any:
    text = files("tokenworlds.published").joinpath("data", name).read_text(encoding="utf-8")
    return json.loads(text)
