"""PPO (Schulman et al., 2017) on real frames, without a world model.

Atari, with the settings of common implementations. See docs/agents/smaller_world_models.md.
"""

from tokenworlds.behaviours.ppo import PPO
from tokenworlds.nets.optimisers import Optimiser
from tokenworlds.nets.policy_networks import FrameNetwork
from tokenworlds.recipes.blocks import TOY, Block, recipe
from tokenworlds.replay.sampling import Latest
from tokenworlds.runs.recipe import Evaluation, Housekeeping, Learning, Recipe
from tokenworlds.training.schedules.epochs import Epochs
from tokenworlds.worlds.real import Real

NUM_ENVS, LENGTH = 8, 129
"""Of 129 steps the last frame is used only for its value. The frame stacks of the first three are
incomplete: they do not count unless an episode begins there."""

NANO: Block = {
    # 38 rollouts of 33 steps.
    "steps": 38 * 16 * 33,
    "resolution": 32,
    "num_envs": 16,
    "behaviour.horizon": 8,
    "behaviour.discount": 0.97,
    "behaviour.minibatch": 128,
    "behaviour.network": FrameNetwork.Config(
        filters=(16, 32, 32), kernels=(4, 3, 3), strides=(2, 2, 1), width=128
    ),
    "learning.behaviour.batch": 16,
    "learning.behaviour.length": 33,
    "learning.behaviour.optimiser.rate": 5e-4,
    "schedule.steps": 16 * 33,
    "evaluation.every": 10_000,
    "evaluation.episodes": 10,
    "evaluation.final_episodes": 10,
    "housekeeping.log_every": 1_000,
    "housekeeping.save_every": 5_000,
}
SMALL: Block = {"behaviour.network.width": 256}
# PPO's updates are cheap: the frames and the network of the paper.
TINY: Block = {"evaluation.episodes": 8, "evaluation.final_episodes": 50}


@recipe(sizes={"nano": NANO, "tiny": TINY, "small": SMALL}, games={"toy": TOY})
def ppo() -> Recipe:
    """Model-free baseline: PPO on real frames."""
    return Recipe(
        paper="PPO (Schulman et al., 2017)",
        # As many whole rollouts as fit into 100,000 steps: PPO learns from the latest steps only.
        steps=96 * NUM_ENVS * LENGTH,
        resolution=84,
        grey=True,
        num_envs=NUM_ENVS,
        world=Real.Config(frames=4),
        behaviour=PPO.Config(
            horizon=50,
            discount=0.99,
            return_lambda=0.95,
            clip=0.1,
            value_clip=0.1,
            epochs=4,
            minibatch=256,
            experience="real",
            sign_rewards=True,
            network=FrameNetwork.Config(),
        ),
        learning={
            "behaviour": Learning(
                batch=NUM_ENVS,
                length=LENGTH,
                scales={"value": 0.5, "entropy": 0.01},
                optimiser=Optimiser.Config(
                    kind="adam", rate=2.5e-4, epsilon=1e-5, warm_up=0, clip=0.5
                ),
            )
        },
        sampler=Latest.Config(),
        schedule=Epochs.Config(steps=NUM_ENVS * LENGTH, updates={"behaviour": 1}),
        evaluation=Evaluation(every=10_000, episodes=16, final_episodes=100, temperature=1.0),
        housekeeping=Housekeeping(log_every=1_000, save_every=5_000),
    )
