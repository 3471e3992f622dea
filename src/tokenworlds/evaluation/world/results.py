"""The file of a world model's figures, in a run's folder for evaluations."""

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tokenworlds.core.errors import UserError
from tokenworlds.core.files import (
    CHECKSUM,
    DamagedFile,
    checksum,
    read_signed_json,
    replace_file,
)
from tokenworlds.evaluation.results import FOLDER, LONGEST

KIND = "world"
PREFIX = "world-"
"""Files of this kind; all others in the folder hold the returns of episodes."""


def world_path(
    run: Path, document: Mapping[str, Any], episodes: int | None, usual_temperature: float
) -> Path:
    words = [f"step-{document['agent_steps']}", document["protocol"], f"s{document['seed']}"]
    if document["temperature"] != usual_temperature:
        words.append(f"t{document['temperature']:g}")
    if episodes is not None:
        words.append(f"{episodes}-episodes")
    return run / FOLDER / f"{PREFIX}{'-'.join(words)}.json"


def write_world(path: Path, document: Mapping[str, Any]) -> Path:
    """Write the figures with the checksum of their values; numbers that are not finite are null."""
    path.parent.mkdir(exist_ok=True)
    values = finite(document)
    signed = {**values, CHECKSUM: checksum(values)}
    return replace_file(path, (json.dumps(signed, indent=2) + "\n").encode())


def read_world(path: Path) -> dict[str, Any]:
    """Raises `DamagedFile` if the checksum differs, or if it is another kind of evaluation."""
    document = read_signed_json(path.parent, path.name, LONGEST)
    if document.get("kind") != KIND:
        raise DamagedFile(path, "it holds no figures of a world model")
    return document


def newest_world(run: Path) -> Path:
    """The file of a run's latest step; without one, a sentence that says how to make it."""
    found = sorted(
        (run / FOLDER).glob(f"{PREFIX}step-*.json"), key=lambda path: (step_of(path), path.name)
    )
    if not found:
        raise UserError(f"{run} was not measured yet: tokenworlds evaluate {run} --world")
    return found[-1]


def step_of(path: Path) -> int:
    digits = path.name.removeprefix(f"{PREFIX}step-").partition("-")[0]
    return int(digits) if digits.isdecimal() else -1


def finite(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: finite(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [finite(each) for each in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
