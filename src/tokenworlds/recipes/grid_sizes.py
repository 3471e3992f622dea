"""Smaller sizes of the agents of Smaller World Models: what changes against the paper's numbers."""

from collections.abc import Mapping
from typing import Any

from tokenworlds.core.config import variant
from tokenworlds.nets.policy_networks import FrameNetwork
from tokenworlds.runs.recipe import Recipe
from tokenworlds.worlds.real import Real

SHORTER = 3
"""Steps by which segments of `nano` are shorter than the paper's."""
NANO: Mapping[str, Any] = {
    "steps": 10_000,
    "resolution": 32,
    "num_envs": 16,
    "behaviour.horizon": 8,
    "behaviour.discount": 0.97,
    "behaviour.minibatch": 128,
    "learning.behaviour.batch": 64,
    "learning.behaviour.optimiser.rate": 5e-4,
    "collection.temperature": 1.0,
    "evaluation.every": 1_024,
    "evaluation.episodes": 10,
    "evaluation.final_episodes": 10,
    "housekeeping.log_every": 128,
    "housekeeping.save_every": 1_024,
}
NANO_GRID: Mapping[str, Any] = {
    "world.tokenizer.encoder.filters": (16, 32),
    "world.tokenizer.encoder.blocks": 1,
    "world.sequence.channels": 32,
    "world.sequence.kernel": 3,
    "world.reward.channels": 8,
    "world.reward.hidden": 64,
    "learning.tokenizer.optimiser.early_updates": 600,
    "learning.world.batch": 16,
    "learning.world.optimiser.rate": 2e-3,
    "learning.world.optimiser.rates": {"reward": 2e-3},
    "learning.world.optimiser.epsilons": {},
    "schedule.steps": 1_024,
    "schedule.first_steps": 2_048,
    "schedule.warm_up_updates": 600,
    "schedule.epochs": (20, 5),
    "schedule.sequences": 16,
    "schedule.length": 8,
    "schedule.intervals": (3,),
    "schedule.batches": (20,),
}
# Parts that not every agent has: applied where the part in its place knows the choice.
NANO_PARTS: Mapping[str, Mapping[str, Any]] = {
    "world.tokenizer": {"codebook.codes": 32, "codebook.width": 16, "codebook.decay": 0.97},
    "world.prior": {"channels": 32},
    "behaviour.network": {"filters": 32, "kernel": 3, "width": 128},
}
NANO_FRAMES = FrameNetwork.Config(
    filters=(16, 32, 32), kernels=(4, 3, 3), strides=(2, 2, 1), width=128
)
# A map of one site has no neighbours.
LINEAR: Mapping[str, Any] = {"world.sequence.kernel": 1, "behaviour.network.kernel": 1}
NANO_PPO: Mapping[str, Any] = {
    "steps": 38 * 16 * 33,
    "behaviour.network": NANO_FRAMES,
    "learning.behaviour.batch": 16,
    "learning.behaviour.length": 33,
    "schedule.steps": 16 * 33,
    "evaluation.every": 10_000,
    "housekeeping.log_every": 1_000,
    "housekeeping.save_every": 5_000,
}
SMALL_GRID: Mapping[str, Any] = {
    "world.tokenizer.encoder.filters": (32, 64, 64, 128),
    "world.tokenizer.encoder.blocks": 1,
    "world.sequence.channels": 64,
}
SMALL_PPO: Mapping[str, Any] = {"behaviour.network.width": 256}


def nano(recipe: Recipe) -> Recipe:
    """Half a million parameters, frames of a third of the side, 64 sites."""
    if isinstance(recipe.world, Real.Config):
        return variant(recipe, {**NANO, **NANO_PPO})
    length = {"learning.world.length": recipe.learning["world"].length - SHORTER}
    frames = {"behaviour.network": NANO_FRAMES} if looks_at_frames(recipe) else {}
    linear = LINEAR if getattr(recipe.world, "layout", "map") == "vector" else {}
    return variant(recipe, {**NANO, **NANO_GRID, **known(recipe), **length, **frames, **linear})


def small(recipe: Recipe) -> Recipe:
    """A few million parameters."""
    return variant(recipe, SMALL_PPO if isinstance(recipe.world, Real.Config) else SMALL_GRID)


def looks_at_frames(recipe: Recipe) -> bool:
    """Whether the policy reads pictures."""
    return isinstance(getattr(recipe.behaviour, "network", None), FrameNetwork.Config)


def known(recipe: Recipe) -> dict[str, Any]:
    """The choices of `NANO_PARTS` that the parts of a recipe have."""
    return {
        f"{place}.{choice}": value
        for place, choices in NANO_PARTS.items()
        for choice, value in choices.items()
        if has_number(recipe, f"{place}.{choice}")
    }


def has_number(config: object, path: str) -> bool:
    """Whether there is a choice at the end of a path, and it is a number."""
    for name in path.split("."):
        if not hasattr(config, name):
            return False
        config = getattr(config, name)
    return isinstance(config, int | float)
