"""STORM (Zhang et al., NeurIPS 2023).

Atari 100k. docs/agents/git_storm.md lists where paper, released code and this recipe differ.
"""

from tokenworlds.behaviours.latent_actor_critic import LatentActorCritic
from tokenworlds.heads.outcomes import MLPReward, MLPTermination
from tokenworlds.mixers.concatenation import Concatenation
from tokenworlds.nets.optimisers import Optimiser
from tokenworlds.priors.factorised import Factorised
from tokenworlds.recipes import latent
from tokenworlds.recipes.blocks import TOY, Block, recipe
from tokenworlds.replay.sampling import Uniform
from tokenworlds.runs.recipe import Evaluation, Housekeeping, Learning, Recipe
from tokenworlds.sequence.post_norm_transformer import PostNormTransformer
from tokenworlds.tokenizers.categorical import Categorical
from tokenworlds.training.schedules.interleaved import Interleaved
from tokenworlds.worlds.latent import Latent

# Before the tokenizer has learned, a post-norm transformer learns to ignore its input. At the rate
# of the rest of the world, 1e-3 or 2e-3, it then does so for a thousand updates.
SEQUENCE_RATE = 3e-4
NANO: Block = {
    **latent.NANO,
    "world.sequence.feedforward": 256,
    "world.sequence.positions": 32,
    "learning.world.optimiser.rates.sequence": SEQUENCE_RATE,
}
NANO_CATEGORICAL: Block = {
    **latent.NANO_CATEGORICAL,
    # Batch norm over few frames and unbounded pixels lose the small objects of a game.
    "world.tokenizer.style": "silu",
    "world.tokenizer.output": "sigmoid",
    "schedule.updates": {"world": 1 / 8, "behaviour": 1 / 8},
}
TINY: Block = {
    **latent.TINY,
    "world.sequence.feedforward": 512,
    "world.sequence.positions": 48,
    "learning.world.optimiser.rates.sequence": SEQUENCE_RATE,
}
TINY_CATEGORICAL: Block = {
    **latent.TINY_CATEGORICAL,
    "world.tokenizer.style": "silu",
    "world.tokenizer.output": "sigmoid",
}
SMALL: Block = {**latent.SMALL, "world.sequence.feedforward": 512}


@recipe(
    benchmarks={"dmc": latent.CONTROL},
    sizes={
        "nano": {**NANO, **NANO_CATEGORICAL},
        "tiny": {**TINY, **TINY_CATEGORICAL},
        "small": {**SMALL, **latent.SMALL_CATEGORICAL},
    },
    games={
        "toy": TOY,
        "minatar nano": latent.NANO_MINATAR_CATEGORICAL,
        "dmc nano": latent.NANO_CONTROL,
        "dmc tiny": latent.CONTROL_ENTROPY,
    },
)
def storm() -> Recipe:
    """32 categoricals of 32 per frame, predicted in parallel by a linear prior; Transformer."""
    return Recipe(
        paper="STORM",
        steps=100_000,
        resolution=64,
        num_envs=1,
        world=Latent.Config(
            tokenizer=Categorical.Config(
                filters=(32, 64, 128, 256),
                strides=(2, 2, 2, 2),
                kernel=4,
                style="relu",
                output="linear",
                categoricals=32,
                classes=32,
                unimix=0.01,
            ),
            sequence=PostNormTransformer.Config(
                width=512, layers=2, heads=8, feedforward=1024, positions=64, dropout=0.1
            ),
            prior=Factorised.Config(
                free_bits=1.0,
                free_bits_over="batch",
                dynamics_scale=0.5,
                representation_scale=0.1,
                unimix=0.01,
            ),
            mixer=Concatenation.Config(),
            reward=MLPReward.Config(hidden=(512, 512), bin_count=255, style="relu"),
            termination=MLPTermination.Config(hidden=(512, 512), style="relu"),
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
        learning={
            "world": Learning(
                batch=16,
                length=64,
                optimiser=Optimiser.Config(
                    kind="adam", rate=1e-4, epsilon=1e-8, warm_up=0, clip=1000.0
                ),
            ),
            "behaviour": Learning(
                batch=1024,
                length=9,
                scales={"entropy": 3e-4},
                optimiser=Optimiser.Config(
                    kind="adam", rate=3e-5, epsilon=1e-5, warm_up=0, clip=100.0
                ),
            ),
        },
        sampler=Uniform.Config(),
        schedule=Interleaved.Config(warm_up=1024, updates={"world": 1.0, "behaviour": 1.0}),
        evaluation=Evaluation(every=2_500, episodes=20, final_episodes=20, temperature=1.0),
        housekeeping=Housekeeping(log_every=100, save_every=2_500),
    )
