"""The weight of each loss term, from the defaults of parts and the overrides of recipes."""

from collections.abc import Mapping

import pytest
import torch

from tokenworlds.agent import Agent
from tokenworlds.core.types import ActionSpace, FrameShape, Losses
from tokenworlds.recipes.catalogue import load
from tokenworlds.runs.recipe import Recipe
from tokenworlds.training.dry_run import blank_segment

OUTCOMES = {"reward": 1.0, "termination": 1.0}
LATENT = {"actor": 1.0, "entropy": 3e-4, "critic": 1.0, "slow_critic": 1.0}
PIXEL = {"actor": 1.0, "entropy": 0.001, "critic": 1.0}
DELTA = {"l1": 0.1, "l2": 1.0, "max_pixel": 0.01, "commitment": 0.02}
VQ = {"reconstruction": 1.0, "commitment": 0.25}
ABSOLUTE = {"reconstruction": 1.0, "codebook": 1.0, "commitment": 1.0}
KL = {"dynamics": 1.0, "representation": 0.1}
STORM_KL = {"dynamics": 0.5, "representation": 0.1}
PPO = {"policy": 1.0, "value": 0.5, "entropy": 0.01}
GRID = {"dynamics": 1.0, "reward": 1.0}

WEIGHTS: Mapping[tuple[str, str, str], Mapping[str, Mapping[str, float]]] = {
    ("step-vq-m", "paper", "atari:Pong"): {"world": {**VQ, **KL, **OUTCOMES}, "behaviour": LATENT},
    ("step-vq-m", "nano", "atari:Pong"): {
        "world": {**VQ, **KL, **OUTCOMES},
        "behaviour": {**LATENT, "entropy": 1e-2},
    },
    ("step-vq-m-ce", "paper", "atari:Pong"): {
        "world": {**VQ, "dynamics": 1.0, **OUTCOMES},
        "behaviour": LATENT,
    },
    ("cb-m", "paper", "atari:Pong"): {
        "world": {"reconstruction": 1.0, **KL, **OUTCOMES},
        "behaviour": LATENT,
    },
    ("storm", "paper", "atari:Pong"): {
        "world": {"reconstruction": 1.0, **STORM_KL, **OUTCOMES},
        "behaviour": LATENT,
    },
    ("git-storm-vq", "paper", "atari:Pong"): {
        "world": {**VQ, **STORM_KL, **OUTCOMES},
        "behaviour": LATENT,
    },
    ("iris", "paper", "atari:Pong"): {
        "tokenizer": ABSOLUTE,
        "world": {"tokens": 1.0, **OUTCOMES},
        "behaviour": PIXEL,
    },
    ("iris", "nano", "atari:Pong"): {
        "tokenizer": {"reconstruction": 100.0, "codebook": 1.0, "commitment": 0.25},
        "world": {"tokens": 1.0, **OUTCOMES},
        "behaviour": {**PIXEL, "entropy": 1e-2},
    },
    ("delta-iris", "paper", "atari:Pong"): {
        "tokenizer": DELTA,
        "world": {"tokens": 0.1, "reward": 1.0, "termination": 0.1},
        "behaviour": {**PIXEL, "entropy": 0.002},
    },
    ("delta-iris", "paper", "crafter"): {
        "tokenizer": DELTA,
        "world": {"tokens": 1.0, **OUTCOMES},
        "behaviour": PIXEL,
    },
    ("swm", "paper", "atari:Pong"): {"tokenizer": VQ, "world": GRID, "behaviour": PPO},
    ("swm-continuous", "paper", "atari:Pong"): {
        "tokenizer": {"reconstruction": 1.0, "kl": 1.0},
        "world": GRID,
        "behaviour": PPO,
    },
    ("ppo", "paper", "atari:Pong"): {"behaviour": PPO},
}


def weights(recipe: Recipe) -> dict[str, dict[str, float]]:
    shape = FrameShape(recipe.resolution, recipe.resolution, 1 if recipe.grey else 3)
    torch.manual_seed(0)
    agent = Agent.build(recipe, shape, ActionSpace(3))
    generator, found = torch.Generator().manual_seed(0), {}
    with torch.no_grad():
        for name, trainable in agent.trainables(generator).items():
            learning = recipe.learning[name]
            segment = blank_segment(agent, shape, steps=min(learning.length, 12))
            losses = trainable.losses(segment)
            losses = losses if isinstance(losses, Losses) else next(losses)
            found[name] = losses.weights(learning.scales)
    return found


@pytest.mark.parametrize("case", WEIGHTS, ids=" ".join)
def test_each_loss_term_has_the_weight_of_the_paper(case: tuple[str, str, str]) -> None:
    assert weights(load(*case).recipe) == WEIGHTS[case]
