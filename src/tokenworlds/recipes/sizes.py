"""Smaller sizes of the latent agents: what changes against the paper's numbers, nothing else.

`nano` learns a built-in game on a laptop in minutes; `small` is for a workstation.
"""

from collections.abc import Mapping
from typing import Any, cast

from tokenworlds.core.config import variant
from tokenworlds.tokenizers.categorical import Categorical
from tokenworlds.tokenizers.vq import VQ
from tokenworlds.training.recipe import Recipe
from tokenworlds.worlds.latent import Latent

NANO: Mapping[str, Any] = {
    "steps": 10_000,
    "streams": 16,
    "world.tokenizer.kernel": 3,
    "world.tokenizer.groups": 8,
    # A wrong code in a dreamt frame is a ball that is not there: little is mixed in, nothing
    # forgiven.
    "world.tokenizer.unimix": 0.001,
    "world.prior.unimix": 0.001,
    "world.prior.free_bits": 0.02,
    "world.sequence.width": 128,
    "world.sequence.layers": 2,
    "world.sequence.dropout": 0.0,
    "world.reward.hidden": (128,),
    "world.ending.hidden": (128,),
    "behaviour.horizon": 8,
    "behaviour.actor": (128, 128),
    "behaviour.critic": (128, 128),
    "learning.world.batch": 8,
    "learning.world.length": 16,
    "learning.world.optimiser.rate": 2e-3,
    "learning.world.optimiser.rates": {"tokenizer": 1e-3},
    "learning.world.optimiser.warm_up": 50,
    "learning.behaviour.batch": 64,
    "learning.behaviour.length": 2,
    # The policy must not settle before the world is learned.
    "learning.behaviour.scales.entropy": 1e-2,
    "learning.behaviour.optimiser.rate": 5e-4,
    "learning.behaviour.optimiser.warm_up": 50,
    "schedule.warm_up": 1_024,
    "schedule.updates": {"world": 1 / 16, "behaviour": 1 / 8},
    "housekeeping.log_every": 160,
    "housekeeping.save_every": 1_000,
}
# Without a codebook that is placed on the data, rare sites take longer to be told apart.
NANO_CATEGORICAL: Mapping[str, Any] = {
    "steps": 14_000,
    "learning.world.optimiser.rates": {"tokenizer": 2e-3},
}
SMALL: Mapping[str, Any] = {
    "world.tokenizer.kernel": 3,
    "world.sequence.width": 256,
    "world.sequence.layers": 2,
    "behaviour.actor": (256, 256),
    "behaviour.critic": (256, 256),
    "learning.world.batch": 8,
    "learning.world.length": 64,
    "learning.world.optimiser.rate": 2e-4,
    "learning.world.optimiser.rates": {"tokenizer": 4e-4},
    "learning.world.optimiser.warm_up": 200,
    "learning.behaviour.batch": 256,
    "learning.behaviour.optimiser.rate": 1e-4,
    "learning.behaviour.optimiser.warm_up": 200,
}
# Games of a few steps cost nothing to judge by many.
TOY: Mapping[str, Any] = {
    "evaluation.every": 1_000,
    "evaluation.episodes": 20,
    "evaluation.final_episodes": 100,
}
NANO_FILTERS = (16, 32, 32, 32)
SMALL_FILTERS = (32, 64, 128, 128)


def for_toy(recipe: Recipe) -> Recipe:
    """Judged by as many episodes as a short game allows."""
    return variant(recipe, TOY)


def nano(recipe: Recipe) -> Recipe:
    """A few hundred thousand parameters."""
    vocabulary = {
        "codebook.codes": 16,
        "codebook.decay": 0.97,
        "codebook.revive_below": 0.5,
    }
    sequence = {"heads": 4, "chunk": 16, "feedforward": 256, "window": 32}
    world = cast(Latent.Config, recipe.world)
    more = NANO_CATEGORICAL if isinstance(world.tokenizer, Categorical.Config) else {}
    return shrink(recipe, {**NANO, **more}, NANO_FILTERS, vocabulary, sequence)


def small(recipe: Recipe) -> Recipe:
    """A few million parameters."""
    return shrink(recipe, SMALL, SMALL_FILTERS, {}, {"feedforward": 512})


def shrink(
    recipe: Recipe,
    changes: Mapping[str, Any],
    filters: tuple[int, ...],
    vocabulary: Mapping[str, Any],
    sequence: Mapping[str, Any],
) -> Recipe:
    """Apply changes; every layer of the tokenizer then halves the frame, on the same grid."""
    world = cast(Latent.Config, recipe.world)
    tokenizer = cast(VQ.Config | Categorical.Config, world.tokenizer)
    halvings = sum(stride > 1 for stride in tokenizer.strides)
    layers = {"filters": filters[:halvings], "strides": (2,) * halvings}
    chosen = {k: v for k, v in vocabulary.items() if has(tokenizer, k)}
    steps = {k: v for k, v in sequence.items() if has(world.sequence, k)}
    return variant(
        recipe,
        {
            **changes,
            **{f"world.tokenizer.{k}": v for k, v in {**layers, **chosen}.items()},
            **{f"world.sequence.{k}": v for k, v in steps.items()},
        },
    )


def has(config: object, path: str) -> bool:
    """Whether a configuration has a choice of this name."""
    return hasattr(config, path.partition(".")[0])
