"""Random and human scores of Atari games, in the variants that papers normalise with."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import Any

from tokenworlds.published.files import read

FILE = "references.json"


@dataclass(frozen=True, slots=True)
class Reference:
    """Scores of a task that are normalised to 0 and 1."""

    random: float
    human: float


@cache
def reference_sets() -> Mapping[str, Mapping[str, Reference]]:
    """By name of the set, the references of each game."""
    sets = read(FILE)["sets"]
    return MappingProxyType({name: of_games(entry["scores"]) for name, entry in sets.items()})


def of_games(scores: Mapping[str, Any]) -> Mapping[str, Reference]:
    return MappingProxyType(
        {game: Reference(float(random), float(human)) for game, (random, human) in scores.items()}
    )
