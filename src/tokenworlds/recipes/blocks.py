"""Recipes with smaller sizes and per-benchmark settings, written as named blocks of differences.

    @recipe(benchmarks={"dmc": CONTROL}, sizes={"nano": NANO}, games={"toy": TOY})
    def mine() -> Recipe: ...

A block maps dotted paths of the recipe to values. The blocks of the benchmark apply first, then
that of the size, then those of the game, then `changes`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from tokenworlds.core.config import variant
from tokenworlds.core.errors import unknown
from tokenworlds.recipes.listing import PAPER
from tokenworlds.runs.recipe import Recipe

Block = Mapping[str, Any]
Blocks = Mapping[str, Block]

# Episodes of a few steps are cheap to evaluate.
TOY: Block = {
    "evaluation.every": 1_000,
    "evaluation.episodes": 20,
    "evaluation.final_episodes": 100,
    "evaluation.temperature": 0.0,
}


@dataclass(frozen=True, slots=True)
class SizedRecipe:
    """A function that returns a recipe, with the blocks that fit it to sizes and environments.

    `benchmarks` and `games` are named by an environment family (`dmc`), a game (`toy:steer`) or
    either of them at one size (`toy:steer nano`).
    """

    function: Callable[[], Recipe]
    benchmarks: Blocks = field(default_factory=dict)
    sizes: Blocks = field(default_factory=dict)
    games: Blocks = field(default_factory=dict)
    changes: Block = field(default_factory=dict)

    def __call__(self) -> Recipe:
        return variant(self.function(), self.changes)

    def changed(self, changes: Block) -> "SizedRecipe":
        """The recipe with differences that apply at every size and in every environment."""
        return replace(self, changes={**self.changes, **changes})

    @property
    def size_names(self) -> list[str]:
        return [*self.sizes, PAPER]

    def at(self, size: str, env: str = "") -> Recipe:
        """The recipe at a size, for an environment given by its canonical name."""
        if size not in self.size_names:
            raise unknown("size", size, self.size_names)
        words = {size, env, env.partition(":")[0]}
        chosen = [
            *(block for name, block in self.benchmarks.items() if words.issuperset(name.split())),
            self.sizes.get(size, {}),
            *(block for name, block in self.games.items() if words.issuperset(name.split())),
            self.changes,
        ]
        recipe = self.function()
        for block in chosen:
            recipe = variant(recipe, block)
        return recipe


def recipe(
    *,
    like: SizedRecipe | None = None,
    benchmarks: Blocks | None = None,
    sizes: Blocks | None = None,
    games: Blocks | None = None,
) -> Callable[[Callable[[], Recipe]], SizedRecipe]:
    """Attach blocks to a function that returns a recipe.

    With `like`, the blocks of another recipe apply, except those replaced here by name.
    """

    def attach(function: Callable[[], Recipe]) -> SizedRecipe:
        base = like or SizedRecipe(function)
        return SizedRecipe(
            function,
            {**base.benchmarks, **(benchmarks or {})},
            {**base.sizes, **(sizes or {})},
            {**base.games, **(games or {})},
            base.changes,
        )

    return attach
