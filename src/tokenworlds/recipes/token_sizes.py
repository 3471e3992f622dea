"""Smaller sizes of the token agents: what changes against the papers' numbers, nothing else."""

from collections.abc import Mapping
from typing import Any, cast

from tokenworlds.core.config import variant
from tokenworlds.nets.pixel_encoders import PoolingEncoder, ResidualEncoder
from tokenworlds.nets.residual import FrameEncoder
from tokenworlds.runs.recipe import Recipe
from tokenworlds.tokenizers.attentive_vq import AttentiveVQ
from tokenworlds.worlds.iris import Iris

STEPS = 10
"""Steps of a known history at `nano`."""
NANO: Mapping[str, Any] = {
    "steps": 10_000,
    "resolution": 32,
    "num_envs": 16,
    "world.sequence.width": 128,
    "world.sequence.layers": 2,
    "world.sequence.heads": 4,
    "world.sequence.dropout": 0.0,
    "world.context": 1,
    "behaviour.horizon": 8,
    "behaviour.discount": 0.985,
    "behaviour.burn_in": 1,
    "behaviour.recurrent": 128,
    "behaviour.range_decay": 0.99,
    "learning.tokenizer.optimiser.rate": 1e-3,
    "learning.world.batch": 16,
    "learning.world.length": 8,
    "learning.world.optimiser.rate": 1e-3,
    "learning.behaviour.batch": 32,
    "learning.behaviour.length": 2,
    "learning.behaviour.scales.entropy": 1e-2,
    "learning.behaviour.optimiser.rate": 5e-4,
    "sampler.count_after": 1_920,
    "schedule.steps": 480,
    "schedule.first_steps": 1_920,
    "schedule.random_first": True,
    "schedule.final_epochs": 0,
    "schedule.updates": {"tokenizer": 40, "world": 40, "behaviour": 60},
    "schedule.start_after": {"tokenizer": 0, "world": 0, "behaviour": 1},
    "schedule.first_updates": {"tokenizer": 300, "world": 200},
    "evaluation.every": 1_000,
    "evaluation.episodes": 10,
    "evaluation.final_episodes": 10,
    "housekeeping.log_every": 160,
    "housekeeping.save_every": 1_000,
}
NANO_IRIS: Mapping[str, Any] = {
    "world.tokenizer.width": 16,
    "world.tokenizer.blocks": 1,
    "world.tokenizer.attention": (),
    "world.tokenizer.codes": 64,
    "world.tokenizer.code_width": 32,
    # A ball is a sixty-fourth of a frame. Absolute errors without perceptual ones leave it out, and
    # so do codes that settle before it is drawn.
    "world.tokenizer.error": "squared",
    "world.tokenizer.revive_below": 0.01,
    "learning.tokenizer.scales": {"reconstruction": 100.0, "codebook": 1.0, "commitment": 0.25},
    "learning.tokenizer.optimiser.rate": 3e-3,
    "learning.tokenizer.optimiser.betas": (0.9, 0.99),
    # Each code tells of the whole frame: the world needs longer, and a tokenizer that keeps still.
    "schedule.first_updates": {"tokenizer": 500, "world": 400},
    "schedule.updates": {"tokenizer": 10, "world": 100, "behaviour": 60},
    "behaviour.encoder": PoolingEncoder.Config(filters=(16, 32, 32)),
    "learning.behaviour.optimiser.rate": 1e-3,
    "learning.tokenizer.batch": 32,
}
NANO_DELTA: Mapping[str, Any] = {
    "world.tokenizer.encoder": FrameEncoder.Config(
        width=8, latent=16, multipliers=(1, 2, 4, 4), halvings=(True, True, True, False)
    ),
    "world.tokenizer.past": FrameEncoder.Config(
        width=8, latent=16, multipliers=(1, 2, 4), halvings=(True, True, True)
    ),
    "world.tokenizer.codebook.codes": 32,
    "world.tokenizer.codebook.width": 16,
    # Small batches of few frames: averages that remember less, and codes placed anew at any time.
    "world.tokenizer.codebook.decay": 0.9,
    "world.tokenizer.codebook.usage_decay": 0.9,
    "world.tokenizer.codebook.revivals": None,
    "world.sequence.positions": 6 * STEPS,
    "world.image": FrameEncoder.Config(
        width=8, latent=8, multipliers=(1, 2, 4), halvings=(True, True, True)
    ),
    "behaviour.encoder": ResidualEncoder.Config(
        layers=FrameEncoder.Config(
            width=8, latent=8, multipliers=(1, 2, 4), halvings=(True, True, True)
        )
    ),
    "behaviour.target_decay": 0.98,
    "learning.tokenizer.batch": 8,
    "learning.tokenizer.length": 8,
}
SMALL: Mapping[str, Any] = {
    "world.sequence.width": 256,
    "world.sequence.layers": 3,
    "world.sequence.heads": 4,
    "behaviour.recurrent": 256,
    "learning.world.batch": 16,
    "learning.behaviour.batch": 32,
}
SMALL_IRIS: Mapping[str, Any] = {
    "world.tokenizer.width": 32,
    "world.tokenizer.blocks": 1,
    "world.tokenizer.code_width": 128,
    "learning.tokenizer.batch": 64,
}
SMALL_DELTA: Mapping[str, Any] = {
    "world.tokenizer.encoder.width": 32,
    "world.tokenizer.past": FrameEncoder.Config(width=32, latent=8),
    "world.image": FrameEncoder.Config(width=32, latent=4),
    "learning.tokenizer.batch": 8,
}


def nano(recipe: Recipe) -> Recipe:
    """A few hundred thousand parameters, and frames of half the side on the same grid of tokens."""
    if not isinstance(recipe.world, Iris.Config):
        return variant(recipe, {**NANO, **NANO_DELTA})
    tokenizer = cast(AttentiveVQ.Config, recipe.world.tokenizer)
    side = recipe.resolution >> (tokenizer.levels - 1)
    grid = {
        "world.tokenizer.levels": tokenizer.levels - 1,
        "world.sequence.positions": (side**2 + 1) * STEPS,
    }
    return variant(recipe, {**NANO, **NANO_IRIS, **grid})


def small(recipe: Recipe) -> Recipe:
    """A few million parameters."""
    own = SMALL_IRIS if isinstance(recipe.world, Iris.Config) else SMALL_DELTA
    return variant(recipe, {**SMALL, **own})
