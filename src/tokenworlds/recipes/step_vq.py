"""STEP-VQ (withdrawn ICLR 2026 submission), its baseline, and DRAMA (Wang et al., ICLR 2025).

Atari 100k. What the papers leave open is settled in docs/agents/step_vq.md.
"""

from collections.abc import Mapping
from typing import Any

from tokenworlds.behaviours.latent_actor_critic import LatentActorCritic
from tokenworlds.core.config import variant
from tokenworlds.nets.codebook import Codebook
from tokenworlds.nets.optimisers import Optimiser
from tokenworlds.priors.factorised import Factorised
from tokenworlds.replay.sampling import DynamicFrequency
from tokenworlds.runs.recipe import Evaluation, Housekeeping, Learning, Recipe
from tokenworlds.sequence.mamba2 import Mamba2
from tokenworlds.sequence.transformer import Transformer
from tokenworlds.tokenizers.categorical import Categorical
from tokenworlds.tokenizers.vq import VQ
from tokenworlds.training.schedules.interleaved import Interleaved
from tokenworlds.worlds.latent import Latent

MAMBA = Mamba2.Config(width=512, layers=4, heads=4, state=16, dropout=0.1)
TRANSFORMER = Transformer.Config(
    width=512, layers=4, heads=8, feedforward=2048, window=128, dropout=0.1
)
VECTORS = VQ.Config(
    filters=(32, 64, 128, 256),
    strides=(1, 2, 2, 2),
    kernel=5,
    codebook=Codebook.Config(codes=64, width=128, decay=0.99),
)
CATEGORIES = Categorical.Config(
    filters=(32, 64, 128, 256, 256),
    strides=(1, 2, 2, 2, 2),
    kernel=5,
    categoricals=32,
    classes=32,
)
LEARNING = {
    "world": Learning(
        batch=16,
        length=128,
        scales={
            "reconstruction": 1.0,
            "commitment": 0.25,
            "dynamics": 1.0,
            "representation": 0.1,
            "reward": 1.0,
            "termination": 1.0,
        },
        optimiser=Optimiser.Config(rate=4e-5, rates={"tokenizer": 1e-4}, clip=1000.0),
    ),
    "behaviour": Learning(
        batch=1024,
        length=4,
        scales={"actor": 1.0, "entropy": 3e-4, "critic": 1.0, "slow_critic": 1.0},
        optimiser=Optimiser.Config(rate=4e-5, clip=100.0),
    ),
}
# Against `cb-m`, from DRAMA's released code.
DRAMA: Mapping[str, Any] = {
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


def step_vq_m() -> Recipe:
    """VQ codes on a grid, Mamba-2."""
    return Recipe(
        paper="STEP-VQ",
        steps=100_000,
        resolution=64,
        num_envs=1,
        world=Latent.Config(
            tokenizer=VECTORS,
            sequence=MAMBA,
            prior=Factorised.Config(objective="kl", free_bits=1.0, unimix=0.01),
            memory=16,
        ),
        behaviour=LatentActorCritic.Config(
            horizon=16, discount=0.985, return_lambda=0.95, actor=(256, 256), critic=(512, 512)
        ),
        learning=LEARNING,
        sampler=DynamicFrequency.Config(temperature=10.0, behaviour_temperature=10.0),
        schedule=Interleaved.Config(warm_up=1032, updates={"world": 1.0, "behaviour": 1.0}),
        evaluation=Evaluation(every=1000, episodes=10, final_episodes=10, temperature=0.0),
        housekeeping=Housekeeping(log_every=100, save_every=2000),
    )


def step_vq_t() -> Recipe:
    """The same codes with a Transformer."""
    return variant(step_vq_m(), {"world.sequence": TRANSFORMER})


def step_vq_m_ce() -> Recipe:
    """The ablation of the loss: the chosen codes are the target; no pull on the posterior."""
    changes = {
        "world.prior.objective": "cross-entropy",
        "learning.world.scales": scales_without("representation"),
    }
    return variant(step_vq_m(), changes)


def step_vq_m_96() -> Recipe:
    """Frames of 96x96: 12x12 codes."""
    return variant(step_vq_m(), {"resolution": 96})


def step_vq_iris() -> Recipe:
    """The speed test in IRIS's sizes: 16 codes per frame, ten layers of 256, 64 x 20 frames, and
    as many dreamt ones."""
    changes = {
        "world.tokenizer.filters": (32, 64, 128, 256, 256),
        "world.tokenizer.strides": (1, 2, 2, 2, 2),
        "world.tokenizer.codebook.codes": 512,
        "world.sequence.width": 256,
        "world.sequence.layers": 10,
        "world.sequence.heads": 4,
        "world.sequence.feedforward": 1024,
        "world.sequence.window": 20,
        "learning.world.batch": 64,
        "learning.world.length": 20,
        "behaviour.horizon": 20,
        "learning.behaviour.batch": 64,
    }
    return variant(step_vq_t(), changes)


def cb_m() -> Recipe:
    """The baseline: the flattened map as 32 categoricals of 32 classes, Mamba-2."""
    changes = {
        "world.tokenizer": CATEGORIES,
        "learning.world.scales": scales_without("commitment"),
    }
    return variant(step_vq_m(), changes)


def cb_t() -> Recipe:
    """The baseline with a Transformer."""
    return variant(cb_m(), {"world.sequence": TRANSFORMER})


def cb_m_96() -> Recipe:
    """The baseline on frames of 96x96."""
    return variant(cb_m(), {"resolution": 96})


def drama() -> Recipe:
    """The baseline in DRAMA's shape: a narrower encoder with batch norm, two layers of 16 heads."""
    return variant(cb_m(), DRAMA)


def scales_without(term: str) -> Mapping[str, float]:
    """The world's loss terms but one."""
    scales = LEARNING["world"].scales
    return {name: scale for name, scale in scales.items() if name != term}
