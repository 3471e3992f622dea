"""IRIS (Micheli et al., ICLR 2023).

Atari 100k. docs/agents/delta_iris.md lists where paper, released code and this recipe differ.
"""

from tokenworlds.behaviours.pixel_actor_critic import PixelActorCritic
from tokenworlds.core.config import variant
from tokenworlds.heads.outcomes import ReadoutTermination, SignReward
from tokenworlds.nets.optimisers import Optimiser
from tokenworlds.nets.pixel_encoders import PoolingEncoder
from tokenworlds.recipes.blocks import TOY, Block, recipe
from tokenworlds.replay.sampling import EpisodeCounts
from tokenworlds.runs.recipe import Collection, Evaluation, Housekeeping, Learning, Recipe
from tokenworlds.sequence.token_transformer import TokenTransformer
from tokenworlds.tokenizers.attentive_vq import AttentiveVQ
from tokenworlds.training.schedules.epochs import Epochs
from tokenworlds.worlds.iris import Iris

ADAM = Optimiser.Config(kind="adam", rate=1e-4, epsilon=1e-8, warm_up=0, clip=10.0)

# A few hundred thousand parameters, and frames of half the side on the same grid of tokens: the
# rows that IRIS and Δ-IRIS share, then those of IRIS.
NANO_BASE: Block = {
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
    "learning.world.batch": 16,
    # A dream has 8 steps after the one that it knows. The last step of a segment trains no tokens.
    "learning.world.length": 10,
    "learning.world.optimiser.rate": 1e-3,
    "learning.behaviour.batch": 32,
    "learning.behaviour.length": 2,
    "learning.behaviour.scales.entropy": 1e-2,
    "sampler.count_after": 1_920,
    "schedule.steps": 480,
    "schedule.first_steps": 1_920,
    "schedule.random_first": True,
    "schedule.final_epochs": 0,
    "schedule.start_after": {"tokenizer": 0, "world": 0, "behaviour": 1},
    "evaluation.every": 1_000,
    "evaluation.episodes": 10,
    "evaluation.final_episodes": 10,
    "housekeeping.log_every": 160,
    "housekeeping.save_every": 1_000,
}
NANO: Block = {
    **NANO_BASE,
    "world.tokenizer.width": 16,
    "world.tokenizer.levels": 4,
    "world.tokenizer.blocks": 1,
    "world.tokenizer.attention": (),
    "world.tokenizer.codes": 64,
    "world.tokenizer.code_width": 32,
    # A ball is 1/64 of a frame. Absolute errors without perceptual ones leave it out, and so do
    # codes that settle before the decoder shows it.
    "world.tokenizer.error": "squared",
    "world.tokenizer.revive_below": 0.01,
    "world.tokenizer.reconstruction_scale": 100.0,
    "world.tokenizer.commitment_scale": 0.25,
    "world.sequence.positions": 170,  # 10 steps of 16 tokens and an action
    "behaviour.encoder": PoolingEncoder.Config(filters=(16, 32, 32)),
    "learning.tokenizer.batch": 32,
    "learning.tokenizer.optimiser.rate": 3e-3,
    "learning.tokenizer.optimiser.betas": (0.9, 0.99),
    "learning.behaviour.optimiser.rate": 1e-3,
    # Each token describes the whole frame: the world needs more updates and a tokenizer that
    # changes little.
    "schedule.updates": {"tokenizer": 10, "world": 100, "behaviour": 60},
    "schedule.first_updates": {"tokenizer": 500, "world": 400},
}

# One to two million parameters and frames of full size: 100,000 steps of Atari in an afternoon on a
# laptop. The rows that IRIS and Δ-IRIS share, then those of IRIS.
TINY_BASE: Block = {
    "steps": 100_000,
    "resolution": 64,
    "num_envs": 8,
    "world.sequence.width": 192,
    "behaviour.horizon": 10,
    "behaviour.recurrent": 256,
    "learning.world.batch": 12,
    "learning.world.length": 12,
    "learning.behaviour.optimiser.rate": 3e-4,
    "learning.behaviour.scales.entropy": 1e-3,
    "evaluation.every": 10_000,
    "evaluation.episodes": 8,
    "evaluation.final_episodes": 50,
    "housekeeping.log_every": 480,
    "housekeeping.save_every": 2_000,
}
TINY: Block = {
    **NANO,
    **TINY_BASE,
    "world.tokenizer.levels": 5,
    "world.tokenizer.codes": 256,
    "world.tokenizer.code_width": 64,
    "world.sequence.positions": 204,  # 12 steps of 16 tokens and an action
    "behaviour.encoder": PoolingEncoder.Config(filters=(16, 32, 32, 32)),
    "learning.tokenizer.optimiser.rate": 1e-3,
    "schedule.updates": {"tokenizer": 20, "world": 90, "behaviour": 14},
    "schedule.first_updates": {"tokenizer": 600, "world": 400},
}

# A few million parameters: 100,000 steps in a day on two CPU cores.
SMALL: Block = {
    "world.tokenizer.width": 24,
    "world.tokenizer.blocks": 1,
    "world.tokenizer.code_width": 128,
    "world.sequence.width": 256,
    "world.sequence.layers": 3,
    "world.sequence.heads": 4,
    "behaviour.horizon": 15,
    "behaviour.burn_in": 4,
    "behaviour.recurrent": 256,
    "learning.tokenizer.batch": 64,
    "learning.world.batch": 16,
    "learning.behaviour.batch": 32,
    "learning.behaviour.length": 5,
    # 100,000 steps in a day on two CPU cores.
    "schedule.updates": {"tokenizer": 22, "world": 53, "behaviour": 9},
}


@recipe(sizes={"nano": NANO, "tiny": TINY, "small": SMALL}, games={"toy": TOY})
def iris() -> Recipe:
    """16 VQ tokens per frame, predicted autoregressively; CNN-LSTM policy on reconstructions."""
    return Recipe(
        paper="IRIS",
        steps=100_000,
        resolution=64,
        num_envs=1,
        world=Iris.Config(
            tokenizer=AttentiveVQ.Config(
                width=64, levels=5, blocks=2, attention=(16, 8), codes=512, code_width=512
            ),
            sequence=TokenTransformer.Config(
                width=256, layers=10, heads=4, positions=340, dropout=0.1
            ),
            reward=SignReward.Config(),
            termination=ReadoutTermination.Config(),
            samples_reward=True,
            context=0,
        ),
        behaviour=PixelActorCritic.Config(
            # The released code uses the 20th step only for its value.
            horizon=19,
            discount=0.995,
            return_lambda=0.95,
            burn_in=20,
            encoder=PoolingEncoder.Config(filters=(32, 32, 64, 64)),
            recurrent=512,
            value="scalar",
            critic_scale=1.0,
            target_decay=None,
        ),
        learning={
            "tokenizer": Learning(
                batch=256,
                length=1,
                optimiser=ADAM,
            ),
            "world": Learning(
                batch=64,
                length=20,
                optimiser=variant(ADAM, {"decay": 0.01}),
            ),
            "behaviour": Learning(
                batch=64,
                length=21,
                scales={"entropy": 0.001},
                optimiser=ADAM,
            ),
        },
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


@recipe(
    like=iris,
    sizes={
        "nano": {**NANO, "world.tokenizer.levels": 3, "world.sequence.positions": 650},
        "tiny": {
            **TINY,
            "world.tokenizer.levels": 4,
            "world.sequence.positions": 780,
            "schedule.updates": {"tokenizer": 20, "world": 40, "behaviour": 5},
        },
    },
)
def iris_64() -> Recipe:
    """64 tokens per frame: one halving less."""
    changes = {"world.tokenizer.levels": 4, "world.sequence.positions": 65 * 20}
    return variant(iris(), changes)
