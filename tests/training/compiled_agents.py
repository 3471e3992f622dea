"""Prints the difference between compiled and plain updates; arguments: recipe and backend.

A separate program, because torch does not compile the shape checks that are on in tests.
"""

import json
import sys
from collections.abc import Iterator
from contextlib import nullcontext

import torch
from torch import Tensor

from tokenworlds.agent import Agent
from tokenworlds.benchmarking.workloads import random_segment
from tokenworlds.core.capabilities import CachesTokens, Compilable
from tokenworlds.core.config import variant
from tokenworlds.core.types import ActionSpace, FrameShape
from tokenworlds.recipes.catalogue import load
from tokenworlds.runs.recipe import Recipe
from tokenworlds.training.learner import Compiler, Learner, Lower

SPACE = ActionSpace(4)
TINY = 1e-4
"""Smaller numbers are sums of larger ones, and mostly rounding errors."""
LOWER: dict[str, Lower | None] = {"inductor": None, "eager": lambda graph, inputs: graph.forward}


def update(recipe: Recipe, name: str, compiler: Compiler | None) -> dict[str, Tensor]:
    """The metrics and gradients of an update of a new agent."""
    torch.manual_seed(0)
    shape = FrameShape(recipe.resolution, recipe.resolution, 1 if recipe.grey else 3)
    agent, learning = Agent.build(recipe, shape, SPACE), recipe.learning[name]
    names = list(agent.state_dict())
    perturb(agent)
    for part in (agent.world, agent.behaviour):
        if compiler is not None and isinstance(part, Compilable):
            part.compile_with(compiler.compile)
    found = agent.trainables(torch.Generator().manual_seed(1))[name]
    context = nullcontext if compiler is None else compiler.working
    learner = Learner(name, learning, found, context)
    generator = torch.Generator().manual_seed(2)
    tokens = agent.world.tokens if isinstance(agent.world, CachesTokens) else 0
    segment = random_segment(shape, SPACE, 2, min(6, learning.length), generator, tokens)
    metrics, _ = learner.update(segment)
    assert list(agent.state_dict()) == names
    gradients = {n: p.grad for n, p in learner.optimiser.named.items() if p.grad is not None}
    return {**metrics, **gradients}


def perturb(agent: Agent) -> None:
    """Move weights away from zero: behind a head of zeros, gradients are rounding errors."""
    with torch.no_grad():
        for parameter in agent.parameters():
            parameter.add_(0.03 * torch.randn_like(parameter))


def gaps(recipe: Recipe, compiler: Compiler) -> Iterator[float]:
    """The largest difference in each tensor, relative to its largest number."""
    for learner in recipe.learning:
        expected, found = update(recipe, learner, None), update(recipe, learner, compiler)
        assert found.keys() == expected.keys()
        for name, value in expected.items():
            assert found[name].isfinite().all(), name
            scale = max(TINY, value.abs().max().item())
            yield (found[name] - value).abs().max().item() / scale


def main(name: str, backend: str) -> None:
    recipe = variant(load(name, "nano").recipe, {"behaviour.horizon": 2})
    notes: list[str] = []
    compiler = Compiler(torch.device("cpu"), notes.append, LOWER[backend])
    print(json.dumps({"gap": max(gaps(recipe, compiler)), "notes": notes}))


if __name__ == "__main__":
    main(*sys.argv[1:])
