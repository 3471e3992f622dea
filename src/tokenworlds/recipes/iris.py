"""IRIS (Micheli et al., ICLR 2023) and Δ-IRIS (Micheli et al., ICML 2024), Atari 100k and Crafter.

Where papers and released code disagree is settled in docs/agents/delta_iris.md.
"""

from collections.abc import Mapping
from typing import Any

from tokenworlds.behaviours.pixel_actor_critic import PixelActorCritic
from tokenworlds.core.config import variant
from tokenworlds.heads.sign_reward import SignReward
from tokenworlds.heads.two_class_termination import TwoClassTermination
from tokenworlds.heads.two_hot_reward import TwoHotReward
from tokenworlds.nets.optimisers import Optimiser
from tokenworlds.nets.pixel_encoders import PoolingEncoder, ResidualEncoder
from tokenworlds.nets.residual import FrameEncoder
from tokenworlds.nets.unit_codebook import UnitCodebook
from tokenworlds.replay.sampling import EpisodeCounts
from tokenworlds.runs.recipe import Collection, Evaluation, Housekeeping, Learning, Recipe
from tokenworlds.sequence.token_transformer import TokenTransformer
from tokenworlds.tokenizers.attentive_vq import AttentiveVQ
from tokenworlds.tokenizers.delta import Delta
from tokenworlds.training.schedules.epochs import Epochs
from tokenworlds.worlds.delta_iris import DeltaIris
from tokenworlds.worlds.iris import Iris

TOKENS = Iris.Config(
    tokenizer=AttentiveVQ.Config(
        width=64, levels=5, blocks=2, attention=(16, 8), codes=512, code_width=512
    ),
    sequence=TokenTransformer.Config(width=256, layers=10, heads=4, positions=340, dropout=0.1),
    reward=SignReward.Config(),
    termination=TwoClassTermination.Config(),
    draws_reward=True,
    context=0,
)
ON_RECONSTRUCTIONS = PixelActorCritic.Config(
    # The released code's 20th step is only looked at for its value.
    horizon=19,
    discount=0.995,
    return_lambda=0.95,
    burn_in=20,
    encoder=PoolingEncoder.Config(filters=(32, 32, 64, 64)),
    recurrent=512,
    value="scalar",
    critic_scale=1.0,
    target_decay=None,
)
CHANGES = DeltaIris.Config(
    tokenizer=Delta.Config(
        encoder=FrameEncoder.Config(width=64, latent=64),
        past=FrameEncoder.Config(width=32, latent=16),
        action_channels=4,
        grid=2,
        codebook=UnitCodebook.Config(codes=1024, width=64, decay=0.99, revivals=400),
    ),
    sequence=TokenTransformer.Config(width=256, layers=3, heads=4, positions=156, dropout=0.0),
    image=FrameEncoder.Config(width=32, latent=4),
    reward=SignReward.Config(),
    termination=TwoClassTermination.Config(),
    draws_reward=True,
    context=5,
)
ON_FRAMES = PixelActorCritic.Config(
    horizon=20,
    discount=0.995,
    return_lambda=0.95,
    burn_in=5,
    encoder=ResidualEncoder.Config(layers=FrameEncoder.Config(width=32, latent=16)),
    recurrent=512,
    value="scalar",
    critic_scale=0.0,
    target_decay=0.995,
)
ADAM = Optimiser.Config(kind="adam", rate=1e-4, epsilon=1e-8, warm_up=0, clip=10.0)
ADAM_WITH_DECAY = variant(ADAM, {"decay": 0.01})
LEARNING = {
    "tokenizer": Learning(
        batch=256,
        length=1,
        scales={"reconstruction": 1.0, "codebook": 1.0, "commitment": 1.0},
        optimiser=ADAM,
    ),
    "world": Learning(
        batch=64,
        length=20,
        scales={"tokens": 1.0, "reward": 1.0, "termination": 1.0},
        optimiser=ADAM_WITH_DECAY,
    ),
    "behaviour": Learning(
        batch=64,
        length=21,
        scales={"actor": 1.0, "entropy": 0.001, "critic": 1.0},
        optimiser=ADAM,
    ),
}
DELTA_LEARNING = {
    "tokenizer": Learning(
        batch=16,
        length=21,
        scales={"l1": 0.1, "l2": 1.0, "max_pixel": 0.01, "commitment": 0.02},
        optimiser=ADAM,
    ),
    "world": Learning(
        batch=64,
        length=26,
        scales={"tokens": 0.1, "reward": 1.0, "termination": 0.1},
        optimiser=ADAM_WITH_DECAY,
    ),
    "behaviour": Learning(
        batch=64,
        length=6,
        scales={"actor": 1.0, "entropy": 0.002, "critic": 1.0},
        optimiser=ADAM,
    ),
}


def iris() -> Recipe:
    """16 VQ codes per frame, foreseen one by one; a policy that looks at reconstructions."""
    return Recipe(
        paper="IRIS",
        steps=100_000,
        resolution=64,
        num_envs=1,
        world=TOKENS,
        behaviour=ON_RECONSTRUCTIONS,
        learning=LEARNING,
        sampler=EpisodeCounts.Config(exponent=0.0),
        schedule=Epochs.Config(
            steps=200,
            final_epochs=100,
            updates={"tokenizer": 200, "world": 200, "behaviour": 200},
            start_after={"tokenizer": 5, "world": 25, "behaviour": 50},
        ),
        collection=Collection(temperature=1.0, random_share=0.01),
        evaluation=Evaluation(every=1_000, episodes=16, final_episodes=100, temperature=0.5),
        housekeeping=Housekeeping(log_every=200, save_every=1_000),
    )


def iris_64() -> Recipe:
    """64 codes per frame: one halving less."""
    changes = {"world.tokenizer.levels": 4, "world.sequence.positions": 65 * 20}
    return variant(iris(), changes)


def delta_iris() -> Recipe:
    """4 codes for what changed since the last frame, which an image token shows."""
    return Recipe(
        paper="Δ-IRIS",
        steps=100_000,
        resolution=64,
        num_envs=1,
        world=CHANGES,
        behaviour=ON_FRAMES,
        learning=DELTA_LEARNING,
        sampler=EpisodeCounts.Config(exponent=1.0, count_after=2_000),
        schedule=Epochs.Config(
            steps=200,
            first_steps=2_000,
            random_first=True,
            final_epochs=109,
            updates={"tokenizer": 200, "world": 120, "behaviour": 200},
            start_after={"tokenizer": 5, "world": 50, "behaviour": 75},
        ),
        collection=Collection(temperature=1.0, random_share=0.01),
        evaluation=Evaluation(every=5_000, episodes=32, final_episodes=100, temperature=1.0),
        housekeeping=Housekeeping(log_every=200, save_every=1_000),
    )


def delta_iris_no_image_tokens() -> Recipe:
    """The ablation: a history that is shown its first frame only."""
    return variant(delta_iris(), {"world.with_image_tokens": False})


# Crafter differs from Atari in about twenty places.
CRAFTER: Mapping[str, Any] = {
    "steps": 10_000_000,
    "num_envs": 16,
    "world.tokenizer.past": FrameEncoder.Config(width=64, latent=8),
    "world.tokenizer.codebook.revivals": 0,
    "world.sequence.width": 512,
    "world.sequence.heads": 8,
    "world.sequence.positions": 126,
    "world.image.latent": 8,
    "world.reward": TwoHotReward.Config(),
    "world.draws_reward": False,
    "behaviour.horizon": 15,
    "behaviour.discount": 0.997,
    "behaviour.value": "two-hot",
    "learning.tokenizer.batch": 32,
    "learning.tokenizer.optimiser.decay": 0.01,
    "learning.world.batch": 32,
    "learning.world.length": 21,
    "learning.world.scales": {"tokens": 1.0, "reward": 1.0, "termination": 1.0},
    "learning.behaviour.batch": 86,
    "learning.behaviour.scales.entropy": 0.001,
    "sampler.exponent": 5.0,
    "sampler.count_after": 100_000,
    "schedule.steps": 10_000,
    "schedule.first_steps": 100_000,
    "schedule.final_epochs": 9,
    "schedule.updates": {"tokenizer": 500, "world": 500, "behaviour": 500},
    "schedule.start_after": {},
    "schedule.first_updates": {"tokenizer": 5_000, "world": 2_500},
    "evaluation.every": 500_000,
    "evaluation.episodes": 64,
    "evaluation.final_episodes": 256,
    "housekeeping.log_every": 10_000,
    "housekeeping.save_every": 50_000,
}
