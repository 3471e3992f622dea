"""Smaller sizes of the latent agents: what changes against the paper's numbers, nothing else.

`nano` learns a built-in game on a laptop in minutes; `small` is for a workstation.
"""

from collections.abc import Mapping
from typing import Any, cast

from tokenworlds.core.config import variant
from tokenworlds.priors.maskgit import MaskGIT
from tokenworlds.runs.recipe import Recipe
from tokenworlds.sequence.mamba2 import Mamba2
from tokenworlds.sequence.post_norm_transformer import PostNormTransformer
from tokenworlds.tokenizers.categorical import Categorical
from tokenworlds.tokenizers.vq import VQ
from tokenworlds.training.schedules.iterations import Iterations
from tokenworlds.worlds.latent import Latent

NANO: Mapping[str, Any] = {
    "steps": 10_000,
    "num_envs": 16,
    "world.tokenizer.kernel": 3,
    # Group norm for all: norms over batches of few frames lose the small things of a game.
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
    "world.termination.hidden": (128,),
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
    "evaluation.episodes": 10,
    "evaluation.final_episodes": 10,
    "housekeeping.log_every": 160,
    "housekeeping.save_every": 1_000,
}
# Without a codebook that is placed on the data, rare sites take longer to be told apart.
NANO_CATEGORICAL: Mapping[str, Any] = {
    "steps": 14_000,
    "learning.world.optimiser.rates": {"tokenizer": 2e-3},
}
# Nothing is forgiven a frame because others are wrong: a run of DRAMA's shape that did fell short.
NANO_MAMBA: Mapping[str, Any] = {"world.prior.free_bits_over": "frame"}
# Pixels without bounds lose the small things of a game, and so do norms over few frames.
NANO_STORM: Mapping[str, Any] = {
    "world.tokenizer.style": "silu",
    "world.tokenizer.output": "sigmoid",
    "schedule.updates": {"world": 1 / 8, "behaviour": 1 / 8},
}
# Each code sees its slice of the history: fewer codes, wider slices.
NANO_MASKGIT: Mapping[str, Any] = {"world.tokenizer.categoricals": 16}
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
# A place on a track is finer than a site of the grid: more updates, and codes sure of themselves.
NANO_STEER: Mapping[str, Any] = {
    "world.tokenizer.temperature": 8.0,
    "schedule.updates": {"world": 1 / 8, "behaviour": 1 / 8},
}
# Games of a few steps cost nothing to judge by many.
TOY: Mapping[str, Any] = {
    "evaluation.every": 1_000,
    "evaluation.episodes": 20,
    "evaluation.final_episodes": 100,
    "evaluation.temperature": 0.0,
}
# Parts that not every agent has: applied where the part in its place knows the choice.
NANO_PARTS: Mapping[str, Mapping[str, Any]] = {
    "tokenizer": {"codebook.codes": 16, "codebook.decay": 0.97, "codebook.revive_below": 0.5},
    "sequence": {"heads": 4, "chunk": 16, "feedforward": 256, "window": 32, "positions": 32},
    "prior": {"embedding": 64, "layers": 2, "heads": 4, "feedforward": 128},
}
SMALL_PARTS: Mapping[str, Mapping[str, Any]] = {
    "sequence": {"feedforward": 512},
    "prior": {"embedding": 64},
}
NANO_FILTERS = (16, 32, 32, 32)
SMALL_FILTERS = (32, 64, 128, 128)


def for_toy(recipe: Recipe) -> Recipe:
    """Judged by as many episodes as a short game allows.

    In the midst of an iteration a policy does not know the codes yet that its world has learned.
    """
    schedule = recipe.schedule
    if isinstance(schedule, Iterations.Config):
        return variant(recipe, {**TOY, "evaluation.every": schedule.steps})
    return variant(recipe, TOY)


def nano_for_steer(recipe: Recipe) -> Recipe:
    """What the continuous game asks for beyond `catch`, if codes are those of a codebook."""
    tokenizer = getattr(recipe.world, "tokenizer", None)
    return variant(recipe, NANO_STEER) if isinstance(tokenizer, VQ.Config) else recipe


def nano(recipe: Recipe) -> Recipe:
    """A few hundred thousand parameters."""
    return shrink(recipe, {**NANO, **nano_extras(recipe)}, NANO_FILTERS, NANO_PARTS)


def nano_extras(recipe: Recipe) -> dict[str, Any]:
    """What the parts of a recipe ask for beyond what all agents share."""
    world = cast(Latent.Config, recipe.world)
    if not isinstance(world.tokenizer, Categorical.Config):
        return {}
    storm = NANO_STORM if isinstance(world.sequence, PostNormTransformer.Config) else {}
    mamba = NANO_MAMBA if isinstance(world.sequence, Mamba2.Config) else {}
    masked = NANO_MASKGIT if isinstance(world.prior, MaskGIT.Config) else {}
    return {**NANO_CATEGORICAL, **storm, **mamba, **masked}


def small(recipe: Recipe) -> Recipe:
    """A few million parameters."""
    return shrink(recipe, SMALL, SMALL_FILTERS, SMALL_PARTS)


def shrink(
    recipe: Recipe,
    changes: Mapping[str, Any],
    filters: tuple[int, ...],
    parts: Mapping[str, Mapping[str, Any]],
) -> Recipe:
    """Apply changes; every layer of the tokenizer then halves the frame, on the same grid.

    No layer gets wider than the paper's.
    """
    world = cast(Latent.Config, recipe.world)
    tokenizer = cast(VQ.Config | Categorical.Config, world.tokenizer)
    layers = zip(tokenizer.filters, tokenizer.strides, strict=True)
    halving = [width for width, stride in layers if stride > 1]
    narrowed = tuple(map(min, filters, halving))
    known = {
        f"world.{part}.{choice}": value
        for part, choices in parts.items()
        for choice, value in choices.items()
        if has(getattr(world, part), choice)
    }
    grid = {
        "world.tokenizer.filters": narrowed,
        "world.tokenizer.strides": (2,) * len(narrowed),
    }
    return variant(recipe, {**changes, **grid, **known})


def has(config: object, path: str) -> bool:
    """Whether a configuration has a choice of this name."""
    return hasattr(config, path.partition(".")[0])
