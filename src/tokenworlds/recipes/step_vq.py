"""STEP-VQ (withdrawn ICLR 2026 submission) and its baseline.

Atari 100k. docs/agents/step_vq.md lists what the paper leaves open and the choices made here.
"""

from tokenworlds.behaviours.latent_actor_critic import LatentActorCritic
from tokenworlds.core.config import variant
from tokenworlds.nets.codebooks import Codebook
from tokenworlds.nets.optimisers import Optimiser
from tokenworlds.priors.factorised import Factorised
from tokenworlds.recipes import latent
from tokenworlds.recipes.blocks import TOY, Block, recipe
from tokenworlds.replay.sampling import DynamicFrequency
from tokenworlds.runs.recipe import Evaluation, Housekeeping, Learning, Recipe
from tokenworlds.sequence.mamba2 import Mamba2
from tokenworlds.sequence.transformer import Transformer
from tokenworlds.tokenizers.categorical import Categorical
from tokenworlds.tokenizers.vq import VQ
from tokenworlds.training.schedules.interleaved import Interleaved
from tokenworlds.worlds.latent import Latent

TRANSFORMER = Transformer.Config(
    width=512, layers=4, heads=8, feedforward=2048, window=128, dropout=0.1
)
CATEGORICAL = Categorical.Config(
    filters=(32, 64, 128, 256, 256),
    strides=(1, 2, 2, 2, 2),
    kernel=5,
    categoricals=32,
    classes=32,
)

# A segment of 128 steps from each environment before the first update.
CONTROL: Block = {**latent.CONTROL, "schedule.warm_up": 2_048}
NANO_MAMBA: Block = {"world.sequence.chunk": 16}
NANO_TRANSFORMER: Block = {"world.sequence.feedforward": 256, "world.sequence.window": 32}
TINY_TRANSFORMER: Block = {"world.sequence.feedforward": 512, "world.sequence.window": 32}
# 60 ms per step on two cores.
TINY_CATEGORICAL: Block = {"schedule.updates": {"world": 1 / 6, "behaviour": 1 / 8}}
SMALL_TRANSFORMER: Block = {"world.sequence.feedforward": 512}


@recipe(
    benchmarks={"dmc": CONTROL},
    sizes={
        "nano": {**latent.NANO, **latent.NANO_VQ, **NANO_MAMBA},
        "tiny": {**latent.TINY, **latent.TINY_VQ},
        "small": {**latent.SMALL, **latent.SMALL_VQ},
    },
    games={
        "toy": TOY,
        "toy:steer nano": latent.NANO_STEER,
        "minatar nano": latent.NANO_MINATAR,
        "dmc nano": latent.NANO_CONTROL,
        "dmc tiny": latent.CONTROL_ENTROPY,
    },
)
def step_vq_m() -> Recipe:
    """64 VQ tokens per frame, predicted in parallel; Mamba-2."""
    return Recipe(
        paper="STEP-VQ",
        steps=100_000,
        resolution=64,
        num_envs=1,
        world=Latent.Config(
            tokenizer=VQ.Config(
                filters=(32, 64, 128, 256),
                strides=(1, 2, 2, 2),
                kernel=5,
                codebook=Codebook.Config(codes=64, width=128, decay=0.99),
            ),
            sequence=Mamba2.Config(width=512, layers=4, heads=4, state=16, dropout=0.1),
            prior=Factorised.Config(
                objective="kl",
                free_bits=1.0,
                dynamics_scale=1.0,
                representation_scale=0.1,
                unimix=0.01,
            ),
            memory=16,
        ),
        behaviour=LatentActorCritic.Config(
            horizon=16, discount=0.985, return_lambda=0.95, actor=(256, 256), critic=(512, 512)
        ),
        learning={
            "world": Learning(
                batch=16,
                length=128,
                optimiser=Optimiser.Config(rate=4e-5, rates={"tokenizer": 1e-4}, clip=1000.0),
            ),
            "behaviour": Learning(
                batch=1024,
                length=4,
                scales={"entropy": 3e-4},
                optimiser=Optimiser.Config(rate=4e-5, clip=100.0),
            ),
        },
        sampler=DynamicFrequency.Config(temperature=10.0, behaviour_temperature=10.0),
        schedule=Interleaved.Config(warm_up=1032, updates={"world": 1.0, "behaviour": 1.0}),
        evaluation=Evaluation(every=1000, episodes=10, final_episodes=10, temperature=0.0),
        housekeeping=Housekeeping(log_every=100, save_every=2000),
    )


@recipe(
    like=step_vq_m,
    sizes={
        "nano": {**latent.NANO, **latent.NANO_VQ, **NANO_TRANSFORMER},
        "tiny": {**latent.TINY, **latent.TINY_VQ, **TINY_TRANSFORMER},
        "small": {**latent.SMALL, **latent.SMALL_VQ, **SMALL_TRANSFORMER},
    },
)
def step_vq_t() -> Recipe:
    """The same tokens with a Transformer."""
    return variant(step_vq_m(), {"world.sequence": TRANSFORMER})


@recipe(like=step_vq_m)
def step_vq_m_ce() -> Recipe:
    """Loss ablation: cross-entropy with the nearest tokens; no gradient into the posterior."""
    return variant(step_vq_m(), {"world.prior.objective": "cross-entropy"})


@recipe(like=step_vq_m, games={"minatar nano": {}})
def step_vq_m_96() -> Recipe:
    """Frames of 96x96: 12x12 tokens."""
    return variant(step_vq_m(), {"resolution": 96})


@recipe(
    like=step_vq_t,
    benchmarks={"dmc": {**CONTROL, "schedule.warm_up": 1_032}},
    sizes={
        "nano": {
            **latent.NANO,
            **latent.NANO_VQ,
            **NANO_TRANSFORMER,
            "world.tokenizer.filters": (16, 32, 32, 32),
            "world.tokenizer.strides": (2, 2, 2, 2),
        },
        "tiny": {
            **latent.TINY,
            **latent.TINY_VQ,
            **TINY_TRANSFORMER,
            "world.tokenizer.filters": (32, 64, 64, 64),
            "world.tokenizer.strides": (2, 2, 2, 2),
        },
        "small": {**latent.SMALL, **latent.SMALL_CATEGORICAL, **SMALL_TRANSFORMER},
    },
    games={"minatar nano": {}},
)
def step_vq_iris() -> Recipe:
    """Speed test in IRIS's sizes: 16 tokens per frame, 10 layers of 256, batches of 64 x 20."""
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


@recipe(
    like=step_vq_m,
    sizes={
        "nano": {**latent.NANO, **latent.NANO_CATEGORICAL, **NANO_MAMBA},
        "tiny": {**latent.TINY, **latent.TINY_CATEGORICAL, **TINY_CATEGORICAL},
        "small": {**latent.SMALL, **latent.SMALL_CATEGORICAL},
    },
    games={"toy:steer nano": {}, "minatar nano": latent.NANO_MINATAR_CATEGORICAL},
)
def cb_m() -> Recipe:
    """Baseline: the flattened map as 32 categoricals of 32 classes; Mamba-2."""
    return variant(step_vq_m(), {"world.tokenizer": CATEGORICAL})


@recipe(
    like=cb_m,
    sizes={
        "nano": {**latent.NANO, **latent.NANO_CATEGORICAL, **NANO_TRANSFORMER},
        "tiny": {
            **latent.TINY,
            **latent.TINY_CATEGORICAL,
            **TINY_CATEGORICAL,
            **TINY_TRANSFORMER,
        },
        "small": {**latent.SMALL, **latent.SMALL_CATEGORICAL, **SMALL_TRANSFORMER},
    },
)
def cb_t() -> Recipe:
    """Baseline with a Transformer."""
    return variant(cb_m(), {"world.sequence": TRANSFORMER})


@recipe(like=cb_m, games={"minatar nano": {}})
def cb_m_96() -> Recipe:
    """Baseline on frames of 96x96."""
    return variant(cb_m(), {"resolution": 96})
