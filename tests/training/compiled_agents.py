"""Prints how far compiled updates of a recipe are from plain ones; its words are name and backend.

A program of its own, for torch does not compile what is checked for shapes, as all is in tests.
"""

import json
import sys
from collections.abc import Iterator

import torch

from tokenworlds.benchmarking.subjects import random_segment
from tokenworlds.core.config import variant
from tokenworlds.core.types import ActionSpace, FrameShape
from tokenworlds.evaluation.player import Player
from tokenworlds.recipes.catalogue import load
from tokenworlds.training.compilation import OF_BEHAVIOURS, OF_WORLDS, Compiler, Lower
from tokenworlds.training.job import build_player
from tokenworlds.training.learner import Context, Learner
from tokenworlds.training.recipe import Recipe

SPACE = ActionSpace(4)
LOWER: dict[str, Lower | None] = {"inductor": None, "eager": lambda graph, inputs: graph.forward}


def build(recipe: Recipe) -> Player:
    torch.manual_seed(0)
    side, channels = recipe.resolution, 1 if recipe.grey else 3
    return build_player(recipe, FrameShape(side, side, channels), SPACE)


def update(player: Player, recipe: Recipe, context: Context) -> Iterator[dict[str, float]]:
    """Two updates of each learner, of which the first compiles."""
    parts = player.parts(torch.Generator().manual_seed(1))
    side, channels = recipe.resolution, 1 if recipe.grey else 3
    for name, learning in recipe.learning.items():
        learner = Learner(name, learning, parts[name], context)
        steps, drawn = min(6, learning.length), torch.Generator().manual_seed(2)
        segment = random_segment(FrameShape(side, side, channels), SPACE, 2, steps, drawn)
        for seed in range(2):
            torch.manual_seed(seed)
            yield {term: value.item() for term, value in learner.update(segment).items()}


def main(name: str, how: str) -> None:
    recipe = variant(load(name, "nano").recipe, {"behaviour.horizon": 2})
    told: list[str] = []
    plain, compiled = build(recipe), build(recipe)
    names = list(compiled.state_dict())
    compiler = Compiler(torch.device("cpu"), told.append, LOWER[how])
    compiler.compile_methods(compiled.world, OF_WORLDS)
    compiler.compile_methods(compiled.behaviour, OF_BEHAVIOURS)
    expected = list(update(plain, recipe, torch.enable_grad))
    found = list(update(compiled, recipe, compiler.working))
    gaps = [
        abs(got[term] - value) / max(1.0, abs(value))
        for got, wanted in zip(found, expected, strict=True)
        for term, value in wanted.items()
    ]
    weights = zip(plain.parameters(), compiled.parameters(), strict=True)
    moved = [(one - other).abs().max().item() for one, other in weights]
    same_names = list(compiled.state_dict()) == names
    print(json.dumps({"told": told, "gap": max(gaps), "moved": max(moved), "names": same_names}))


if __name__ == "__main__":
    main(*sys.argv[1:])
