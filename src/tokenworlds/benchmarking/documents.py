"""What was measured, as one JSON document."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tokenworlds.benchmarking.costs import Cost, speeds_against
from tokenworlds.benchmarking.figures import Figure
from tokenworlds.core.errors import UserError

FORMAT = "tokenworlds-bench-3"
OLDER = ("tokenworlds-bench-1", "tokenworlds-bench-2")
"""In which parts of batches were scaled in proportion, or every update coded its own frames."""
YARDSTICK = "iris"
"""The recipe that others are compared with."""

Document = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Account:
    """The figures of one recipe at a size, and what they come to for an environment step."""

    recipe: str
    size: str
    figures: Sequence[Figure]
    per_step: Cost


@dataclass(frozen=True, slots=True)
class Circumstances:
    """What the figures hold for, besides the recipes."""

    env: str
    protocol: str
    threads: int
    seconds: float
    machine: Mapping[str, Any]


def to_document(circumstances: Circumstances, accounts: Sequence[Account]) -> dict[str, Any]:
    """All of it, as JSON can hold it."""
    recipes = [
        {**asdict(account), "speed_against_iris": whole, "speed_without_autoencoder": rest}
        for account, whole, rest in zip(accounts, *speeds(accounts), strict=True)
    ]
    return {"format": FORMAT, **asdict(circumstances), "recipes": recipes}


def speeds(accounts: Sequence[Account]) -> tuple[list[float | None], list[float | None]]:
    """How many times as cheap as the yardstick each is, in all and without the autoencoder."""
    whole = [(each.recipe, each.per_step.total_cal) for each in accounts]
    rest = [(each.recipe, each.per_step.without_autoencoder.cal) for each in accounts]
    return speeds_against(YARDSTICK, whole), speeds_against(YARDSTICK, rest)


def read_document(path: Path) -> Document:
    """A document that was written before."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UserError(f"cannot read {path}: {(error.strerror or 'unknown').lower()}") from error
    except ValueError as error:
        raise UserError(f"{path} is no JSON document: {error}") from error
    if isinstance(found, dict) and found.get("format") in OLDER:
        raise UserError(
            f"{path} is of an older format ({found['format']}), whose figures were taken in "
            "another way: measure them anew"
        )
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        raise UserError(f"{path} is not what 'tokenworlds bench --json' prints ({FORMAT})")
    return found
