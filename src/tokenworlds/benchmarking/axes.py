"""What a recipe can be made larger in: one number at a time, around a base that is small."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tokenworlds.core.config import get_child, variant
from tokenworlds.runs.recipe import Recipe

BASE: Mapping[str, int] = {
    "learning.world.batch": 4,
    "learning.world.length": 16,
    "learning.behaviour.batch": 32,
}
"""Where nothing is varied; what a recipe has less of stays."""


@dataclass(frozen=True, slots=True)
class Axis:
    """A number that is varied, and the learner whose update is measured.

    The first of `paths` that a recipe has is where it keeps the number. `values` are taken as they
    are or, if `relative`, as shares of the recipe's own. What there is of a thing is a value to the
    `power`: a frame has the square of its resolution in pixels.
    """

    name: str
    learner: str
    paths: tuple[str, ...]
    values: tuple[int | float, ...]
    relative: bool = False
    power: int = 1

    def amount(self, value: int) -> int:
        """What cost should be linear in."""
        return int(value**self.power)


CODES = ("world.tokenizer.codebook.codes", "world.tokenizer.codes", "world.tokenizer.classes")
AXES = (
    Axis("batch", "world", ("learning.world.batch",), (1, 2, 4, 8, 16)),
    Axis("length", "world", ("learning.world.length",), (8, 16, 32, 64)),
    Axis("resolution", "world", ("resolution",), (64, 96, 128), power=2),
    Axis("codes", "world", CODES, (0.25, 0.5, 1, 2, 4), relative=True),
    Axis("horizon", "behaviour", ("behaviour.horizon",), (4, 8, 16, 32)),
)


def base_of(recipe: Recipe) -> Recipe:
    """The recipe with small batches."""
    own = {path: read_at(recipe, path) for path in BASE}
    return variant(recipe, {path: min(BASE[path], had) for path, had in own.items() if had})


def path_of(axis: Axis, recipe: Recipe) -> str | None:
    """Where a recipe keeps the number of an axis, if it has one and learns what it is about."""
    if axis.learner not in recipe.learning or (axis.name == "horizon" and not dreams(recipe)):
        return None
    return next((path for path in axis.paths if read_at(recipe, path)), None)


def dreams(recipe: Recipe) -> bool:
    """Whether the behaviour learns from dreams, which have a horizon, and not from real steps."""
    return getattr(recipe.behaviour, "experience", "dream") == "dream"


def values_of(axis: Axis, recipe: Recipe, path: str) -> list[int]:
    """The values that are measured, the smallest first."""
    unit = read_at(recipe, path) if axis.relative else 1
    return sorted({max(1, round(value * unit)) for value in axis.values})


def read_at(config: object, path: str) -> Any:
    """The value at a dotted path, or None."""
    for name in path.split("."):
        try:
            config = get_child(config, name)
        except (AttributeError, KeyError):
            return None
    return config
