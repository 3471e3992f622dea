"""DRAMA (Wang et al., ICLR 2025), with the numbers of its released code.

Atari 100k. docs/agents/step_vq.md lists where this implementation departs from that code.
"""

from tokenworlds.core.config import variant
from tokenworlds.recipes import latent
from tokenworlds.recipes.blocks import recipe
from tokenworlds.recipes.step_vq import NANO_MAMBA, cb_m
from tokenworlds.runs.recipe import Recipe


@recipe(
    like=cb_m,
    sizes={
        "nano": {
            **latent.NANO,
            **latent.NANO_CATEGORICAL,
            **NANO_MAMBA,
            # Free bits on the mean over the batch: the one run with them scored 0.68 on catch.
            "world.prior.free_bits_over": "frame",
        },
        "tiny": {
            **latent.TINY,
            **latent.TINY_CATEGORICAL,
            "world.prior.free_bits_over": "frame",
        },
        "small": {
            **latent.SMALL,
            **latent.SMALL_CATEGORICAL,
            "world.tokenizer.filters": (32, 48, 64, 64),
        },
    },
)
def drama() -> Recipe:
    """32 categoricals of 32 from a narrow encoder with batch norm; Mamba-2 of 2 layers."""
    changes = {
        "paper": "DRAMA",
        "world.tokenizer.filters": (16, 32, 48, 64, 64),
        "world.tokenizer.groups": 0,
        "world.sequence.layers": 2,
        "world.sequence.heads": 16,
        "world.prior.free_bits_over": "batch",
        "behaviour.actor": (256, 256, 256),
        "behaviour.critic": (512, 512, 512),
        "learning.world.optimiser.rates": {},
        "learning.behaviour.length": 9,
    }
    return variant(cb_m(), changes)
