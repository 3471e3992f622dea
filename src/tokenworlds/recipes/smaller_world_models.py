"""Smaller World Models (Robine et al., 2023) and its ablations.

Atari 100k. docs/agents/smaller_world_models.md lists where paper, released code and this recipe
differ.
"""

from tokenworlds.behaviours.ppo import PPO
from tokenworlds.core.config import variant
from tokenworlds.heads.outcomes import MapSignReward, MapTermination
from tokenworlds.nets.codebooks import AveragedCodebook
from tokenworlds.nets.optimisers import Optimiser
from tokenworlds.nets.policy_networks import FrameNetwork, GridNetwork
from tokenworlds.nets.strided import StridedEncoder
from tokenworlds.priors.factorised import Factorised
from tokenworlds.priors.gaussian import GaussianPrior
from tokenworlds.priors.pixelcnn import PixelCNN
from tokenworlds.recipes.blocks import Block, recipe
from tokenworlds.replay.sampling import Uniform
from tokenworlds.runs.recipe import Collection, Evaluation, Housekeeping, Learning, Recipe
from tokenworlds.sequence.convlstm import ConvLSTM
from tokenworlds.tokenizers.bernoulli_vq import BernoulliVQ
from tokenworlds.tokenizers.gaussian import GaussianTokenizer
from tokenworlds.training.schedules.iterations import Iterations
from tokenworlds.worlds.grid import Grid

ADAM = Optimiser.Config(kind="adam", rate=1e-4, epsilon=1e-8, warm_up=0, clip=None)

# Many episodes, at the end of an iteration: in the middle of one, the policy does not know the
# tokens yet that its world has learned.
TOY: Block = {
    "evaluation.episodes": 20,
    "evaluation.final_episodes": 100,
    "evaluation.temperature": 0.0,
}

# Half a million parameters, frames of a third of the side, 64 tokens.
NANO: Block = {
    "steps": 10_000,
    "resolution": 32,
    "num_envs": 16,
    "world.tokenizer.encoder.filters": (16, 32),
    "world.tokenizer.encoder.blocks": 1,
    "world.sequence.channels": 32,
    "world.sequence.kernel": 3,
    "world.reward.channels": 8,
    "world.reward.hidden": 64,
    # Without terminations a dream goes on in a new game, and losing one costs nothing.
    "world.termination": MapTermination.Config(channels=8, hidden=64),
    "behaviour.horizon": 8,
    "behaviour.discount": 0.97,
    "behaviour.minibatch": 128,
    "learning.tokenizer.optimiser.early_updates": 600,
    "learning.world.batch": 16,
    "learning.world.length": 8,
    "learning.world.optimiser.rate": 2e-3,
    "learning.world.optimiser.rates": {"reward": 2e-3},
    "learning.world.optimiser.epsilons": {},
    "learning.behaviour.batch": 64,
    "learning.behaviour.optimiser.rate": 5e-4,
    "schedule.steps": 1_024,
    "schedule.first_steps": 2_048,
    "schedule.warm_up_updates": 600,
    "schedule.epochs": (20, 5),
    "schedule.sequences": 16,
    "schedule.length": 8,
    "schedule.intervals": (3,),
    "schedule.batches": (20,),
    "collection.temperature": 1.0,
    "evaluation.every": 1_024,
    "evaluation.episodes": 10,
    "evaluation.final_episodes": 10,
    "housekeeping.log_every": 128,
    "housekeeping.save_every": 1_024,
}
NANO_VQ: Block = {
    "world.tokenizer.codebook.codes": 32,
    "world.tokenizer.codebook.width": 16,
    "world.tokenizer.codebook.decay": 0.97,
}
NANO_POLICY: Block = {
    "behaviour.network.filters": 32,
    "behaviour.network.kernel": 3,
    "behaviour.network.width": 128,
}
# MinAtar's board has 10 x 10 cells: two pixels and a token for each. The world soon knows the game;
# the policy needs more updates.
NANO_MINATAR: Block = {
    "resolution": 20,
    "world.tokenizer.encoder.filters": (32,),
    "schedule.epochs": (20, 2),
    "schedule.batches": (80,),
}

# The map of a vector has a single cell.
ONE_CELL: Block = {"world.sequence.kernel": 1, "behaviour.network.kernel": 1}

# One million parameters, frames of two thirds of the side, 64 tokens.
TINY: Block = {
    **NANO,
    "steps": 102_400,
    "resolution": 64,
    "num_envs": 8,
    "world.tokenizer.encoder.filters": (32, 64, 64),
    "world.sequence.channels": 64,
    "world.reward.channels": 16,
    "world.reward.hidden": 128,
    "world.termination": MapTermination.Config(channels=16, hidden=128),
    "behaviour.horizon": 12,
    "behaviour.discount": 0.985,
    "learning.world.optimiser.rate": 1e-3,
    "learning.world.optimiser.rates": {"reward": 1e-3},
    "learning.behaviour.optimiser.rate": 3e-4,
    "learning.behaviour.scales.entropy": 3e-3,
    "schedule.steps": 2_048,
    "schedule.first_steps": 4_096,
    "schedule.warm_up_updates": 2_000,
    "schedule.epochs": (8, 4, 2, 2, 1),
    "schedule.batches": (40,),
    "evaluation.every": 10_240,
    "evaluation.episodes": 8,
    "evaluation.final_episodes": 50,
    "housekeeping.log_every": 1_024,
    "housekeeping.save_every": 2_048,
}
TINY_VQ: Block = {
    "world.tokenizer.codebook.codes": 64,
    "world.tokenizer.codebook.width": 32,
    "world.tokenizer.codebook.decay": 0.97,
}

# A few million parameters.
SMALL: Block = {
    "world.tokenizer.encoder.filters": (32, 64, 64, 128),
    "world.tokenizer.encoder.blocks": 1,
    "world.sequence.channels": 64,
}


@recipe(
    sizes={
        "nano": {**NANO, **NANO_VQ, **NANO_POLICY, "learning.world.length": 11},
        "tiny": {**TINY, **TINY_VQ, **NANO_POLICY, "learning.world.length": 11},
        "small": SMALL,
    },
    games={"toy": TOY, "minatar nano": NANO_MINATAR},
)
def swm() -> Recipe:
    """36 VQ tokens of the last four grey frames; convolutional LSTM; PPO in imagination."""
    return Recipe(
        paper="Smaller World Models",
        steps=102_400,
        resolution=96,
        grey=True,
        num_envs=1,
        world=Grid.Config(
            tokenizer=BernoulliVQ.Config(
                encoder=StridedEncoder.Config(filters=(32, 64, 128, 256), blocks=2),
                codebook=AveragedCodebook.Config(codes=128, width=32, decay=0.99, smoothing=1e-5),
            ),
            sequence=ConvLSTM.Config(channels=128, layers=2, kernel=5),
            prior=Factorised.Config(shared=True, objective="cross-entropy", unimix=0.0),
            reward=MapSignReward.Config(channels=32, hidden=512),
            frames=4,
            context=4,
            given=4,
            samples_reward=True,
        ),
        behaviour=PPO.Config(
            horizon=50,
            discount=0.99,
            return_lambda=0.95,
            clip=0.1,
            value_clip=0.1,
            epochs=4,
            minibatch=256,
            network=GridNetwork.Config(filters=64, kernel=5, width=512),
        ),
        learning={
            "tokenizer": Learning(
                batch=40,
                length=4,
                optimiser=variant(ADAM, {"early_rate": 1e-3, "early_updates": 16_000}),
            ),
            "world": Learning(
                batch=4,
                length=14,
                # A reward weight of 1e-6 with an epsilon of 1e-8 equals weight 1 with this epsilon.
                optimiser=variant(
                    ADAM, {"rate": 5e-4, "rates": {"reward": 1e-3}, "epsilons": {"reward": 1e-2}}
                ),
            ),
            "behaviour": Learning(
                batch=16,
                length=8,
                scales={"value": 0.5, "entropy": 0.01},
                optimiser=variant(ADAM, {"rate": 2.5e-4, "clip": 0.5}),
            ),
        },
        sampler=Uniform.Config(),
        schedule=Iterations.Config(
            steps=6_400,
            first_steps=12_800,
            warm_up_updates=16_000,
            epochs=(140, 32, 24, 20, 16, 14, 12, 11, 10, 9, 8, 8, 7, 7, 6),
            sequences=4,
            length=11,
            intervals=(2, 2, 3),
            batches=(*[1000] * 7, 2000, *[1000] * 3, 2000, *[1000] * 2, 3000),
        ),
        collection=Collection(temperature=1.5),
        evaluation=Evaluation(every=6_400, episodes=32, final_episodes=32, temperature=1.0),
        housekeeping=Housekeeping(log_every=100, save_every=400),
    )


@recipe(
    like=swm,
    sizes={
        "nano": {**NANO, **NANO_VQ, **NANO_POLICY},
        "tiny": {**TINY, **TINY_VQ, **NANO_POLICY},
    },
)
def swm_1frame() -> Recipe:
    """One frame instead of four."""
    changes = {
        "world.frames": 1,
        "learning.tokenizer.length": 1,
        "learning.world.length": 11,
        "learning.behaviour.length": 5,
    }
    return variant(swm(), changes)


@recipe(like=swm_1frame)
def swm_1d() -> Recipe:
    """Ablation: the tokens of one frame in a line of 36."""
    return variant(swm_1frame(), {"world.layout": "line"})


@recipe(
    like=swm_1frame,
    sizes={"nano": {**NANO, **NANO_POLICY}, "tiny": {**TINY, **NANO_POLICY}},
)
def swm_continuous() -> Recipe:
    """Ablation: a normal variable in each of 36 grid cells instead of a token."""
    changes = {
        "world.tokenizer": GaussianTokenizer.Config(encoder=StridedEncoder.Config(), width=1),
        "world.prior": GaussianPrior.Config(shared=True),
    }
    return variant(swm_1frame(), changes)


@recipe(
    like=swm_continuous,
    sizes={
        "nano": {**NANO, **NANO_POLICY, **ONE_CELL},
        "tiny": {**TINY, **NANO_POLICY, **ONE_CELL},
    },
)
def swm_continuous_1d() -> Recipe:
    """Ablation: 36 normal variables in one vector, an LSTM and linear layers."""
    changes = {
        "world.layout": "vector",
        # On a map of one cell with a kernel of 1, convolutions are linear layers.
        "world.sequence": ConvLSTM.Config(channels=512, layers=2, kernel=1),
        "world.prior": GaussianPrior.Config(shared=False),
        "behaviour.network": GridNetwork.Config(filters=512, kernel=1, width=512),
    }
    return variant(swm_continuous(), changes)


@recipe(
    like=swm_1frame,
    sizes={
        "nano": {
            **NANO,
            **NANO_VQ,
            "behaviour.network": FrameNetwork.Config(
                filters=(16, 32, 32), kernels=(4, 3, 3), strides=(2, 2, 1), width=128
            ),
        },
        "tiny": {
            **TINY,
            **TINY_VQ,
            "behaviour.network": FrameNetwork.Config(
                filters=(16, 32, 32), kernels=(8, 4, 3), strides=(4, 2, 1), width=128
            ),
        },
    },
)
def swm_reconstructions() -> Recipe:
    """Ablation: a policy on reconstructed frames instead of tokens."""
    changes = {"behaviour.looks_at": "frame", "behaviour.network": FrameNetwork.Config()}
    return variant(swm_1frame(), changes)


@recipe(
    like=swm_1frame,
    sizes={
        "nano": {**NANO, **NANO_VQ, **NANO_POLICY, "world.prior.channels": 32},
        "tiny": {**TINY, **TINY_VQ, **NANO_POLICY, "world.prior.channels": 32},
    },
)
def swm_autoregressive() -> Recipe:
    """Ablation: tokens sampled one by one from a PixelCNN; an LSTM of one cell."""
    changes = {
        "world.prior": PixelCNN.Config(layers=3, objective="cross-entropy", unimix=0.0),
        "world.sequence.layers": 1,
    }
    return variant(swm_1frame(), changes)


@recipe(like=swm_1frame)
def swm_small_field() -> Recipe:
    """Ablation: a token sees only its own 16 by 16 pixels."""
    return variant(swm_1frame(), {"world.tokenizer.encoder.field": "patch"})
