"""STORM (Zhang et al., NeurIPS 2023) and GIT-STORM (Meo et al., 2024), Atari 100k and DMC.

Where papers and released code disagree is settled in docs/agents/git_storm.md.
"""

from collections.abc import Mapping
from typing import Any

from tokenworlds.behaviours.latent_actor_critic import LatentActorCritic
from tokenworlds.core.config import variant
from tokenworlds.heads.reward import Reward
from tokenworlds.heads.termination import Termination
from tokenworlds.mixers.concatenation import Concatenation
from tokenworlds.nets.codebook import Codebook
from tokenworlds.nets.optimisers import Optimiser
from tokenworlds.priors.factorised import Factorised
from tokenworlds.priors.maskgit import MaskGIT
from tokenworlds.replay.sampling import Uniform
from tokenworlds.runs.recipe import Evaluation, Housekeeping, Learning, Recipe
from tokenworlds.sequence.post_norm_transformer import PostNormTransformer
from tokenworlds.tokenizers.categorical import Categorical
from tokenworlds.tokenizers.vq import VQ
from tokenworlds.training.schedules.interleaved import Interleaved
from tokenworlds.worlds.latent import Latent

CATEGORIES = Categorical.Config(
    filters=(32, 64, 128, 256),
    strides=(2, 2, 2, 2),
    kernel=4,
    style="relu",
    output="linear",
    categoricals=32,
    classes=32,
    unimix=0.01,
)
MASKED = MaskGIT.Config(
    embedding=128,
    layers=4,
    heads=8,
    feedforward=128,
    draft=1,
    revise=1,
    repetitions=1,
    free_bits=1.0,
    free_bits_over="batch",
    unimix=0.01,
)
SCALES = {
    "reconstruction": 1.0,
    "dynamics": 0.5,
    "representation": 0.1,
    "reward": 1.0,
    "termination": 1.0,
}
LEARNING = {
    "world": Learning(
        batch=16,
        length=64,
        scales=SCALES,
        optimiser=Optimiser.Config(kind="adam", rate=1e-4, epsilon=1e-8, warm_up=0, clip=1000.0),
    ),
    "behaviour": Learning(
        batch=1024,
        length=9,
        scales={"actor": 1.0, "entropy": 3e-4, "critic": 1.0, "slow_critic": 1.0},
        optimiser=Optimiser.Config(kind="adam", rate=3e-5, epsilon=1e-5, warm_up=0, clip=100.0),
    ),
}
# GIT-STORM on DeepMind Control: 500k steps of two frames, sixteen games side by side.
CONTROL: Mapping[str, Any] = {
    "steps": 500_000,
    "num_envs": 16,
    "schedule.updates": {"world": 1 / 16, "behaviour": 1 / 16},
    "evaluation.every": 100_000,
    "housekeeping.log_every": 1_600,
    "housekeeping.save_every": 16_000,
}


def storm() -> Recipe:
    """32 categoricals of 32, a Transformer, and a linear prior over all codes at once."""
    return Recipe(
        paper="STORM",
        steps=100_000,
        resolution=64,
        num_envs=1,
        world=Latent.Config(
            tokenizer=CATEGORIES,
            sequence=PostNormTransformer.Config(
                width=512, layers=2, heads=8, feedforward=1024, positions=64, dropout=0.1
            ),
            prior=Factorised.Config(free_bits=1.0, free_bits_over="batch", unimix=0.01),
            mixer=Concatenation.Config(),
            reward=Reward.Config(hidden=(512, 512), bins=255, style="relu"),
            termination=Termination.Config(hidden=(512, 512), style="relu"),
            memory=16,
        ),
        behaviour=LatentActorCritic.Config(
            horizon=16,
            discount=0.985,
            return_lambda=0.95,
            actor=(512, 512),
            critic=(512, 512),
            style="relu",
            slow_decay=0.98,
            range_decay=0.99,
        ),
        learning=LEARNING,
        sampler=Uniform.Config(),
        schedule=Interleaved.Config(warm_up=1024, updates={"world": 1.0, "behaviour": 1.0}),
        evaluation=Evaluation(every=2_500, episodes=20, final_episodes=20, temperature=1.0),
        housekeeping=Housekeeping(log_every=100, save_every=2_500),
    )


def git_storm() -> Recipe:
    """STORM with a masked generative prior: the codes of a frame are drawn together."""
    return variant(storm(), {"paper": "GIT-STORM", "world.prior": MASKED})


def git_storm_mlp_logits() -> Recipe:
    """The ablation of the dot product: logits from a layer of their own."""
    return variant(git_storm(), {"world.prior.logits": "mlp"})


def git_storm_vq() -> Recipe:
    """The ablation of the latents: a grid of VQ codes in place of one-hot categories."""
    vectors = VQ.Config(
        filters=(32, 64, 128),
        strides=(2, 2, 2),
        kernel=5,
        codebook=Codebook.Config(codes=32, width=128, decay=0.99),
    )
    changes = {
        "world.tokenizer": vectors,
        "learning.world.scales": {**SCALES, "commitment": 0.25},
    }
    return variant(git_storm(), changes)
