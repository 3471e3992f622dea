"""Δ-IRIS (Micheli et al., ICML 2024).

Atari 100k and Crafter. docs/agents/delta_iris.md lists where paper, released code and this recipe
differ.
"""

from tokenworlds.behaviours.pixel_actor_critic import PixelActorCritic
from tokenworlds.core.config import variant
from tokenworlds.heads.outcomes import ReadoutReward, ReadoutTermination, SignReward
from tokenworlds.nets.codebooks import UnitCodebook
from tokenworlds.nets.pixel_encoders import ResidualEncoder
from tokenworlds.nets.residual import FrameEncoder
from tokenworlds.recipes.blocks import TOY, Block, recipe
from tokenworlds.recipes.iris import ADAM, NANO_BASE, TINY_BASE
from tokenworlds.replay.sampling import EpisodeCounts
from tokenworlds.runs.recipe import Collection, Evaluation, Housekeeping, Learning, Recipe
from tokenworlds.sequence.token_transformer import TokenTransformer
from tokenworlds.tokenizers.delta import Delta
from tokenworlds.training.schedules.epochs import Epochs
from tokenworlds.worlds.delta_iris import DeltaIris

CRAFTER: Block = {
    "steps": 10_000_000,
    "num_envs": 16,
    "world.tokenizer.past": FrameEncoder.Config(width=64, latent=8),
    "world.tokenizer.codebook.revivals": 0,
    "world.sequence.width": 512,
    "world.sequence.heads": 8,
    "world.sequence.positions": 126,
    "world.image.latent": 8,
    "world.reward": ReadoutReward.Config(),
    "world.samples_reward": False,
    "behaviour.horizon": 15,
    "behaviour.discount": 0.997,
    "behaviour.value": "two-hot",
    "learning.tokenizer.batch": 32,
    "learning.tokenizer.optimiser.decay": 0.01,
    "learning.world.batch": 32,
    "learning.world.length": 21,
    "learning.world.scales": {"tokens": 1.0, "termination": 1.0},
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

NANO_FRAMES = FrameEncoder.Config(
    width=8, latent=8, multipliers=(1, 2, 4), halvings=(True, True, True)
)
NANO: Block = {
    **NANO_BASE,
    "world.tokenizer.encoder": FrameEncoder.Config(
        width=8, latent=16, multipliers=(1, 2, 4, 4), halvings=(True, True, True, False)
    ),
    "world.tokenizer.past": variant(NANO_FRAMES, {"latent": 16}),
    "world.tokenizer.codebook.codes": 32,
    "world.tokenizer.codebook.width": 16,
    # Small batches of few frames: shorter averages, and unused codes are replaced at any time.
    "world.tokenizer.codebook.decay": 0.9,
    "world.tokenizer.codebook.usage_decay": 0.9,
    "world.tokenizer.codebook.revivals": None,
    "world.sequence.positions": 60,  # 10 steps of an I-token, 4 tokens and an action
    "world.image": NANO_FRAMES,
    "behaviour.encoder": ResidualEncoder.Config(layers=NANO_FRAMES),
    "behaviour.target_decay": 0.98,
    "learning.tokenizer.batch": 8,
    "learning.tokenizer.length": 8,
    "learning.tokenizer.optimiser.rate": 1e-3,
    "learning.behaviour.optimiser.rate": 5e-4,
    "schedule.updates": {"tokenizer": 40, "world": 40, "behaviour": 60},
    "schedule.first_updates": {"tokenizer": 300, "world": 200},
}
# MinAtar's board has 10 x 10 cells: two pixels for each, and a vector of the maps for one of them.
NANO_MINATAR_FRAMES = FrameEncoder.Config(
    width=8, latent=8, multipliers=(1, 2, 2), halvings=(True, False, False)
)
NANO_MINATAR: Block = {
    "resolution": 20,
    "world.tokenizer.encoder": variant(NANO_MINATAR_FRAMES, {"latent": 16}),
    "world.tokenizer.past": variant(NANO_MINATAR_FRAMES, {"latent": 16}),
    # 6 channels on 5 x 5 cells: the width of the sequence model.
    "world.image": variant(NANO_MINATAR_FRAMES, {"latent": 6, "halvings": (True, True, False)}),
    "world.sequence.width": 150,
    "world.sequence.heads": 5,
    "behaviour.encoder": ResidualEncoder.Config(layers=NANO_MINATAR_FRAMES),
    # Episodes are longer than those of `catch`, and so are the memories of the policy. It has few
    # updates: they must be large.
    "behaviour.burn_in": 4,
    "learning.behaviour.length": 5,
    "learning.behaviour.optimiser.rate": 2e-3,
    "learning.behaviour.scales.entropy": 3e-3,
}

# Frames of full size. Every level halves the side: on a CPU the first levels take most of the time.
TINY_FRAMES = FrameEncoder.Config(
    width=8, latent=16, multipliers=(1, 2, 4, 4), halvings=(True, True, True, True)
)
TINY: Block = {
    **NANO,
    **TINY_BASE,
    "world.tokenizer.encoder": FrameEncoder.Config(
        width=16, latent=32, multipliers=(1, 2, 4, 4), halvings=(True, True, True, False)
    ),
    "world.tokenizer.past": variant(NANO_FRAMES, {"width": 16, "latent": 16}),
    "world.tokenizer.codebook.codes": 256,
    "world.tokenizer.codebook.width": 32,
    "world.tokenizer.codebook.decay": 0.97,
    "world.sequence.positions": 78,  # 13 steps of an I-token, 4 tokens and an action
    "world.image": variant(TINY_FRAMES, {"latent": 12}),  # times 4 x 4 cells: the width
    "world.context": 2,
    "behaviour.encoder": ResidualEncoder.Config(layers=TINY_FRAMES),
    "behaviour.burn_in": 2,
    "learning.world.length": 13,  # one more step is known than in a dream of IRIS
    "learning.behaviour.length": 3,
    "learning.tokenizer.batch": 8,
    "learning.tokenizer.length": 8,
    "schedule.updates": {"tokenizer": 15, "world": 38, "behaviour": 11},
    "schedule.first_updates": {"tokenizer": 500, "world": 300},
}

# A few million parameters: 100,000 steps in a day on two CPU cores.
SMALL: Block = {
    "world.tokenizer.encoder.width": 32,
    "world.tokenizer.past": FrameEncoder.Config(width=16, latent=8),
    "world.sequence.width": 256,
    "world.sequence.layers": 3,
    "world.sequence.heads": 4,
    "world.image": FrameEncoder.Config(width=16, latent=4),
    "behaviour.horizon": 15,
    "behaviour.encoder": ResidualEncoder.Config(layers=FrameEncoder.Config(width=16, latent=16)),
    "behaviour.recurrent": 256,
    "learning.tokenizer.batch": 8,
    "learning.tokenizer.length": 9,
    "learning.world.batch": 16,
    "learning.behaviour.batch": 32,
    # 100,000 steps in a day on two CPU cores.
    "schedule.updates": {"tokenizer": 17, "world": 25, "behaviour": 12},
}


@recipe(
    benchmarks={"crafter": CRAFTER},
    sizes={"nano": NANO, "tiny": TINY, "small": SMALL},
    games={"toy": TOY, "minatar nano": NANO_MINATAR},
)
def delta_iris() -> Recipe:
    """4 VQ tokens for the change of a frame, beside an image token; CNN-LSTM policy on frames."""
    return Recipe(
        paper="Δ-IRIS",
        steps=100_000,
        resolution=64,
        num_envs=1,
        world=DeltaIris.Config(
            tokenizer=Delta.Config(
                encoder=FrameEncoder.Config(width=64, latent=64),
                past=FrameEncoder.Config(width=32, latent=16),
                action_channels=4,
                grid=2,
                codebook=UnitCodebook.Config(codes=1024, width=64, decay=0.99, revivals=400),
            ),
            sequence=TokenTransformer.Config(
                width=256, layers=3, heads=4, positions=156, dropout=0.0
            ),
            image=FrameEncoder.Config(width=32, latent=4),
            reward=SignReward.Config(),
            termination=ReadoutTermination.Config(),
            samples_reward=True,
            context=5,
        ),
        behaviour=PixelActorCritic.Config(
            horizon=20,
            discount=0.995,
            return_lambda=0.95,
            burn_in=5,
            encoder=ResidualEncoder.Config(layers=FrameEncoder.Config(width=32, latent=16)),
            recurrent=512,
            value="scalar",
            critic_scale=0.0,
            target_decay=0.995,
        ),
        learning={
            "tokenizer": Learning(
                batch=16,
                length=21,
                optimiser=ADAM,
            ),
            "world": Learning(
                batch=64,
                length=26,
                scales={"tokens": 0.1, "termination": 0.1},
                optimiser=variant(ADAM, {"decay": 0.01}),
            ),
            "behaviour": Learning(
                batch=64,
                length=6,
                scales={"entropy": 0.002},
                optimiser=ADAM,
            ),
        },
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


@recipe(like=delta_iris)
def delta_iris_no_image_tokens() -> Recipe:
    """Ablation: only the first frame of a history has an image token."""
    return variant(delta_iris(), {"world.with_image_tokens": False})
