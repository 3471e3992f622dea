"""Prints how far compiled updates of a recipe are from plain ones; its words are name and backend.

A program of its own, for torch does not compile what is checked for shapes, as all is in tests.
"""

import json
import sys
from collections.abc import Iterator
from contextlib import nullcontext

import torch
from torch import Tensor

from tokenworlds.agent import Agent
from tokenworlds.benchmarking.workloads import random_segment
from tokenworlds.core.config import variant
from tokenworlds.core.types import ActionSpace, FrameShape
from tokenworlds.recipes.catalogue import load
from tokenworlds.runs.recipe import Recipe
from tokenworlds.training.compilation import OF_BEHAVIOURS, OF_WORLDS, Compiler, Lower
from tokenworlds.training.learner import Learner
from tokenworlds.training.token_cache import Coding

SPACE = ActionSpace(4)
TINY = 1e-4
"""Smaller numbers than this are sums of larger ones, and their digits are those of rounding."""
LOWER: dict[str, Lower | None] = {"inductor": None, "eager": lambda graph, inputs: graph.forward}


def update(recipe: Recipe, part: str, compiler: Compiler | None) -> dict[str, Tensor]:
    """What an update of a fresh agent tells, and the gradients that it moved by."""
    torch.manual_seed(0)
    shape = FrameShape(recipe.resolution, recipe.resolution, 1 if recipe.grey else 3)
    agent, learning = Agent.build(recipe, shape, SPACE), recipe.learning[part]
    names = list(agent.state_dict())
    shake(agent)
    if compiler is not None:
        compiler.compile_methods(agent.world, OF_WORLDS)
        compiler.compile_methods(agent.behaviour, OF_BEHAVIOURS)
    found = agent.trainables(torch.Generator().manual_seed(1))[part]
    context = nullcontext if compiler is None else compiler.working
    learner = Learner(part, learning, found, context)
    drawn = torch.Generator().manual_seed(2)
    tokens = agent.world.tokens if isinstance(agent.world, Coding) else 0
    segment = random_segment(shape, SPACE, 2, min(6, learning.length), drawn, tokens)
    told = learner.update(segment)
    assert list(agent.state_dict()) == names
    moved = {name: p.grad for name, p in learner.optimiser.named.items() if p.grad is not None}
    return {**told, **moved}


def shake(agent: Agent) -> None:
    """Away from heads that begin with zeros, behind which nothing but rounding is left."""
    with torch.no_grad():
        for parameter in agent.parameters():
            parameter.add_(0.03 * torch.randn_like(parameter))


def gaps(recipe: Recipe, compiler: Compiler) -> Iterator[float]:
    """The largest difference of each number or tensor, against its largest number."""
    for part in recipe.learning:
        expected, found = update(recipe, part, None), update(recipe, part, compiler)
        assert found.keys() == expected.keys()
        for name, value in expected.items():
            assert found[name].isfinite().all(), name
            scale = max(TINY, value.abs().max().item())
            yield (found[name] - value).abs().max().item() / scale


def main(name: str, how: str) -> None:
    recipe = variant(load(name, "nano").recipe, {"behaviour.horizon": 2})
    told: list[str] = []
    compiler = Compiler(torch.device("cpu"), told.append, LOWER[how])
    print(json.dumps({"gap": max(gaps(recipe, compiler)), "told": told}))


if __name__ == "__main__":
    main(*sys.argv[1:])
