"""Prints the memory of updates of small recipes as JSON: as torch counts it, and as predicted.

A process of its own: the profiler knows only what was allocated after its first start.
"""

import json
import os
from dataclasses import asdict
from typing import Any

import torch

from tokenworlds.agent import Agent
from tokenworlds.benchmarking.memory import measure_memory, predict_memory
from tokenworlds.core.config import variant
from tokenworlds.core.types import ActionSpace, FrameShape
from tokenworlds.recipes.catalogue import load
from tokenworlds.runs.recipe import Recipe

FAMILIES = ("step-vq-m", "storm", "iris", "delta-iris", "swm", "dreamer-v3", "ppo")
SPACE = ActionSpace(4)


def small(name: str) -> Recipe:
    """With short dreams and little repetition."""
    recipe = load(name, "nano").recipe
    is_ppo = name in ("swm", "ppo")
    return variant(recipe, {"behaviour.epochs": 1} if is_ppo else {"behaviour.horizon": 2})


def shape_of(recipe: Recipe) -> FrameShape:
    return FrameShape(recipe.resolution, recipe.resolution, 1 if recipe.grey else 3)


def main() -> None:
    os.environ["KINETO_LOG_LEVEL"] = "99"
    torch.set_num_threads(1)
    found: dict[str, dict[str, Any]] = {}
    for name in FAMILIES:
        torch.manual_seed(0)
        recipe = small(name)
        agent = Agent.build(recipe, shape_of(recipe), SPACE)
        found[name] = {"measured": asdict(measure_memory(agent, recipe))}
    for name in FAMILIES:
        recipe = small(name)
        found[name]["predicted"] = asdict(predict_memory(recipe, shape_of(recipe), SPACE))
    print(json.dumps(found))


if __name__ == "__main__":
    main()
