"""Smaller World Models (Robine et al., 2023), its ablations, and PPO without any model.

Where paper and released code disagree is settled in docs/agents/smaller_world_models.md.
"""

from tokenworlds.behaviours.ppo import PPO
from tokenworlds.core.config import variant
from tokenworlds.heads.map_sign_reward import MapSignReward
from tokenworlds.nets.averaged_codebook import AveragedCodebook
from tokenworlds.nets.optimisers import Optimiser
from tokenworlds.nets.policy_networks import FrameNetwork, GridNetwork
from tokenworlds.nets.strided import StridedEncoder
from tokenworlds.priors.factorised import Factorised
from tokenworlds.priors.gaussian import Gaussian as GaussianPrior
from tokenworlds.priors.pixelcnn import PixelCNN
from tokenworlds.replay.sampling import Latest, Uniform
from tokenworlds.runs.recipe import Collection, Evaluation, Housekeeping, Learning, Recipe
from tokenworlds.sequence.convlstm import ConvLSTM
from tokenworlds.tokenizers.bernoulli_vq import BernoulliVQ
from tokenworlds.tokenizers.gaussian import Gaussian
from tokenworlds.training.schedules.epochs import Epochs
from tokenworlds.training.schedules.iterations import Iterations
from tokenworlds.worlds.grid import Grid
from tokenworlds.worlds.real import Real

SITES = Grid.Config(
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
    draws_reward=True,
)
ON_CODES = PPO.Config(
    horizon=50,
    discount=0.99,
    return_lambda=0.95,
    clip=0.1,
    value_clip=0.1,
    epochs=4,
    minibatch=256,
    network=GridNetwork.Config(filters=64, kernel=5, width=512),
)
ADAM = Optimiser.Config(kind="adam", rate=1e-4, epsilon=1e-8, warm_up=0, clip=None)
LEARNING = {
    "tokenizer": Learning(
        batch=40,
        length=4,
        scales={"reconstruction": 1.0, "commitment": 0.25},
        optimiser=variant(ADAM, {"early_rate": 1e-3, "early_updates": 16_000}),
    ),
    "world": Learning(
        batch=4,
        length=14,
        scales={"dynamics": 1.0, "reward": 1.0},
        # A weight of 1e-6 on the reward and an epsilon of 1e-8 are a weight of 1 and this epsilon.
        optimiser=variant(
            ADAM, {"rate": 5e-4, "rates": {"reward": 1e-3}, "epsilons": {"reward": 1e-2}}
        ),
    ),
    "behaviour": Learning(
        batch=16,
        length=8,
        scales={"policy": 1.0, "value": 0.5, "entropy": 0.01},
        optimiser=variant(ADAM, {"rate": 2.5e-4, "clip": 0.5}),
    ),
}


def swm() -> Recipe:
    """36 VQ codes of the last four grey frames, a convolutional LSTM, PPO in simulation."""
    return Recipe(
        paper="Smaller World Models",
        steps=102_400,
        resolution=96,
        grey=True,
        num_envs=1,
        world=SITES,
        behaviour=ON_CODES,
        learning=LEARNING,
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


def swm_1frame() -> Recipe:
    """One frame instead of four."""
    changes = {
        "world.frames": 1,
        "learning.tokenizer.length": 1,
        "learning.world.length": 11,
        "learning.behaviour.length": 5,
    }
    return variant(swm(), changes)


def swm_1d() -> Recipe:
    """The ablation: the same codes of one frame in a line of 36."""
    return variant(swm_1frame(), {"world.layout": "line"})


def swm_continuous() -> Recipe:
    """The ablation: a normal variable at each of 36 sites instead of a code."""
    changes = {
        "world.tokenizer": Gaussian.Config(encoder=StridedEncoder.Config(), width=1),
        "world.prior": GaussianPrior.Config(shared=True),
        "learning.tokenizer.scales": {"reconstruction": 1.0, "kl": 1.0},
    }
    return variant(swm_1frame(), changes)


def swm_continuous_1d() -> Recipe:
    """The ablation: 36 normal variables in one vector, an LSTM and linear layers."""
    changes = {
        "world.layout": "vector",
        # On a map of one site with a kernel of 1, convolutions are linear layers.
        "world.sequence": ConvLSTM.Config(channels=512, layers=2, kernel=1),
        "world.prior": GaussianPrior.Config(shared=False),
        "behaviour.network": GridNetwork.Config(filters=512, kernel=1, width=512),
    }
    return variant(swm_continuous(), changes)


def swm_reconstructions() -> Recipe:
    """The ablation: a policy that looks at reconstructed frames instead of codes."""
    changes = {"behaviour.looks_at": "frame", "behaviour.network": FrameNetwork.Config()}
    return variant(swm_1frame(), changes)


def swm_autoregressive() -> Recipe:
    """The ablation: codes drawn one after the other by a PixelCNN; one cell of the memory."""
    changes = {
        "world.prior": PixelCNN.Config(layers=3, objective="cross-entropy", unimix=0.0),
        "world.sequence.layers": 1,
    }
    return variant(swm_1frame(), changes)


def swm_small_field() -> Recipe:
    """The ablation: a code knows of no more than its own 16 by 16 pixels."""
    return variant(swm_1frame(), {"world.tokenizer.encoder.field": "patch"})


def ppo() -> Recipe:
    """No world model: PPO on real frames, the baseline of all."""
    # The frame of one step more is only judged. What the first three saw is not known for sure, and
    # they do not count unless an episode opens there.
    num_envs, length = 8, 128 + 1
    return Recipe(
        paper="PPO (Schulman et al., 2017)",
        # As many whole windows as there are in 100,000: what is learned from was just played.
        steps=96 * num_envs * length,
        resolution=84,
        grey=True,
        num_envs=num_envs,
        world=Real.Config(frames=4),
        behaviour=variant(
            ON_CODES,
            {
                "experience": "real",
                "sign_rewards": True,
                "network": FrameNetwork.Config(),
            },
        ),
        learning={
            "behaviour": Learning(
                batch=num_envs,
                length=length,
                scales={"policy": 1.0, "value": 0.5, "entropy": 0.01},
                optimiser=variant(ADAM, {"rate": 2.5e-4, "epsilon": 1e-5, "clip": 0.5}),
            )
        },
        sampler=Latest.Config(),
        schedule=Epochs.Config(steps=num_envs * length, updates={"behaviour": 1}),
        evaluation=Evaluation(every=10_000, episodes=16, final_episodes=100, temperature=1.0),
        housekeeping=Housekeeping(log_every=1_000, save_every=5_000),
    )
