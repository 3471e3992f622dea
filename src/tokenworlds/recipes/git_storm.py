"""GIT-STORM (Meo et al., 2024): STORM with a masked generative prior.

Atari 100k and DeepMind Control. docs/agents/git_storm.md lists where paper, released code and this
recipe differ.
"""

from tokenworlds.core.config import variant
from tokenworlds.nets.codebooks import Codebook
from tokenworlds.priors.maskgit import MaskGIT
from tokenworlds.recipes import latent
from tokenworlds.recipes.blocks import Block, recipe
from tokenworlds.recipes.storm import NANO, NANO_CATEGORICAL, SMALL, TINY, TINY_CATEGORICAL, storm
from tokenworlds.runs.recipe import Recipe
from tokenworlds.tokenizers.vq import VQ

NANO_MASKGIT: Block = {
    "world.prior.embedding": 64,
    "world.prior.layers": 2,
    "world.prior.heads": 4,
    "world.prior.feedforward": 128,
}
TINY_MASKGIT: Block = {
    "world.prior.embedding": 64,
    "world.prior.layers": 2,
    "world.prior.heads": 4,
    # Two passes of the prior for each imagined frame: fewer updates in the same time.
    "schedule.updates": {"world": 1 / 8, "behaviour": 1 / 20},
}
SMALL_MASKGIT: Block = {
    "world.prior.embedding": 64,
    "schedule.updates": {"world": 1 / 3, "behaviour": 1 / 5},
}


@recipe(
    like=storm,
    sizes={
        "nano": {
            **NANO,
            **NANO_CATEGORICAL,
            **NANO_MASKGIT,
            # Each token is predicted from its own slice of the state: fewer tokens, wider slices.
            "world.tokenizer.categoricals": 16,
        },
        "tiny": {**TINY, **TINY_CATEGORICAL, **TINY_MASKGIT},
        "small": {**SMALL, **latent.SMALL_CATEGORICAL, **SMALL_MASKGIT},
    },
)
def git_storm() -> Recipe:
    """STORM with a MaskGIT prior, which samples the tokens of a frame jointly."""
    prior = MaskGIT.Config(
        embedding=128,
        layers=4,
        heads=8,
        feedforward=128,
        draft=1,
        revise=1,
        repetitions=1,
        free_bits=1.0,
        free_bits_over="batch",
        dynamics_scale=0.5,
        representation_scale=0.1,
        unimix=0.01,
    )
    return variant(storm(), {"paper": "GIT-STORM", "world.prior": prior})


@recipe(like=git_storm)
def git_storm_mlp_logits() -> Recipe:
    """Ablation: logits from a layer of their own instead of a dot product."""
    return variant(git_storm(), {"world.prior.logits": "mlp"})


@recipe(
    like=git_storm,
    sizes={
        "nano": {**NANO, **latent.NANO_VQ, **NANO_MASKGIT},
        "tiny": {**TINY, **latent.TINY_VQ, **TINY_MASKGIT},
        "small": {**SMALL, **latent.SMALL_VQ, **SMALL_MASKGIT},
    },
    games={"toy:steer nano": latent.NANO_STEER, "minatar nano": {}},
)
def git_storm_vq() -> Recipe:
    """Ablation: a grid of VQ tokens instead of categoricals."""
    tokenizer = VQ.Config(
        filters=(32, 64, 128),
        strides=(2, 2, 2),
        kernel=5,
        codebook=Codebook.Config(codes=32, width=128, decay=0.99),
    )
    return variant(git_storm(), {"world.tokenizer": tokenizer})
