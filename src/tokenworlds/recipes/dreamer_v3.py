"""DreamerV3 (Hafner et al., 2023), with the numbers of its released code at size 12m.

Atari 100k, Crafter and DeepMind Control. docs/agents/dreamer_v3.md lists where paper, released code
and this implementation differ.
"""

from tokenworlds.behaviours.dreamer_actor_critic import DreamerActorCritic
from tokenworlds.nets.optimisers import Optimiser
from tokenworlds.recipes.blocks import TOY, Block, recipe
from tokenworlds.replay.sampling import OnlineUniform
from tokenworlds.runs.recipe import Evaluation, Housekeeping, Learning, Recipe
from tokenworlds.training.schedules.interleaved import Interleaved
from tokenworlds.worlds.rssm import RSSM

CRAFTER: Block = {
    "steps": 1_000_000,
    "schedule.updates": {"agent": 1 / 2},
    "evaluation.every": 100_000,
    "housekeeping.save_every": 20_000,
}
# A step is two frames here and one in the released code: as many updates per frame.
CONTROL: Block = {
    "steps": 500_000,
    "num_envs": 16,
    "schedule.warm_up": 2_048,
    "schedule.updates": {"agent": 1 / 2},
    "evaluation.every": 50_000,
    "housekeeping.log_every": 1_600,
    "housekeeping.save_every": 16_000,
}


def sized(deter: int, hidden: int, classes: int, depth: int) -> Block:
    """A row of the released code's table of sizes."""
    return {
        "world.deter": deter,
        "world.hidden": hidden,
        "world.classes": classes,
        "world.depth": depth,
        "behaviour.hidden": (hidden, hidden, hidden),
    }


SIZES = {
    "1m": sized(512, 64, 4, 4),
    "12m": sized(2048, 256, 16, 16),
    "25m": sized(3072, 384, 24, 24),
    "50m": sized(4096, 512, 32, 32),
    "100m": sized(6144, 768, 48, 48),
    "200m": sized(8192, 1024, 64, 64),
    "400m": sized(12288, 1536, 96, 96),
}
# The ball of `catch` is one cell of 64: wide layers on small frames find it after 900 updates.
NANO: Block = {
    **sized(256, 256, 4, 8),
    "steps": 10_000,
    "resolution": 16,
    "num_envs": 16,
    "world.multipliers": (2, 4),
    "world.kernel": 3,
    "world.discount": 0.97,
    "world.free_nats": 0.02,
    "behaviour.horizon": 8,
    "behaviour.discount": 0.97,
    "behaviour.hidden": (128, 128),
    "learning.agent.batch": 16,
    "learning.agent.length": 10,
    "learning.agent.scales": {"entropy": 1e-2},
    "learning.agent.optimiser.rate": 5e-4,
    "learning.agent.optimiser.warm_up": 50,
    "schedule.warm_up": 1_024,
    "schedule.updates": {"agent": 1 / 4},
    "evaluation.episodes": 10,
    "evaluation.final_episodes": 10,
    "housekeeping.log_every": 160,
    "housekeeping.save_every": 1_000,
}
# A pole is one pixel wide on 32 x 32. Rewards are dense and come late: the discount and the entropy
# weight of the paper.
NANO_CONTROL: Block = {
    "resolution": 32,
    "world.multipliers": (2, 4, 4),
    "world.discount": 1 - 1 / 333,
    "world.moving_share": 0.5,
    "behaviour.horizon": 12,
    "behaviour.discount": 1 - 1 / 333,
    "learning.agent.batch": 8,
    "learning.agent.length": 21,
    "learning.agent.scales": {},
}
# Short sequences and many of them: an update imagines from each of its states.
TINY: Block = {
    **sized(512, 128, 8, 8),
    "num_envs": 8,
    "world.kernel": 3,
    "world.moving_share": 0.5,
    "behaviour.horizon": 12,
    "behaviour.hidden": (128, 128),
    "learning.agent.batch": 8,
    "learning.agent.length": 33,
    "learning.agent.optimiser.rate": 3e-4,
    "learning.agent.optimiser.warm_up": 200,
    "schedule.warm_up": 2_048,
    "schedule.updates": {"agent": 1 / 8},
    "evaluation.episodes": 8,
    "evaluation.final_episodes": 50,
    "housekeeping.log_every": 400,
    "housekeeping.save_every": 2_000,
}
# At this rate and the paper's entropy weight, the policy of Crafter was nearly deterministic after
# 11,000 steps: it slept.
TINY_CRAFTER: Block = {"learning.agent.scales": {"entropy": 3e-3}}
SMALL: Block = {**sized(1024, 128, 8, 8), "schedule.updates": {"agent": 1 / 6}}


@recipe(
    sizes={"nano": NANO, "tiny": TINY, "small": SMALL, **SIZES},
    benchmarks={"crafter": CRAFTER, "dmc": CONTROL},
    games={"toy": TOY, "dmc nano": NANO_CONTROL, "crafter tiny": TINY_CRAFTER},
)
def dreamer_v3() -> Recipe:
    """32 categoricals of 16 from an RSSM with a block GRU; world and behaviour in one update."""
    return Recipe(
        paper="DreamerV3",
        steps=100_000,
        resolution=64,
        num_envs=1,
        world=RSSM.Config(
            deter=2048,
            hidden=256,
            latents=32,
            classes=16,
            blocks=8,
            depth=16,
            multipliers=(2, 3, 4, 4),
            kernel=5,
            unimix=0.01,
            free_nats=1.0,
            discount=1 - 1 / 333,
        ),
        behaviour=DreamerActorCritic.Config(
            horizon=15,
            discount=1 - 1 / 333,
            return_lambda=0.95,
            hidden=(256, 256, 256),
            slow_decay=0.98,
            range_decay=0.99,
        ),
        learning={
            "agent": Learning(
                batch=16,
                # One step more than the released 64: the first only gives the initial state.
                length=65,
                scales={},
                optimiser=Optimiser.Config(
                    kind="laprop",
                    rate=4e-5,
                    betas=(0.9, 0.999),
                    epsilon=1e-20,
                    warm_up=1000,
                    warm_up_from_zero=True,
                    rate_in_momentum=False,
                    clip=None,
                    agc=0.3,
                ),
            )
        },
        sampler=OnlineUniform.Config(),
        # 256 replayed steps per agent step: an update of 16 x 64 every four steps.
        schedule=Interleaved.Config(warm_up=1_088, random_warm_up=False, updates={"agent": 1 / 4}),
        evaluation=Evaluation(every=10_000, episodes=16, final_episodes=100, temperature=1.0),
        housekeeping=Housekeeping(log_every=100, save_every=5_000),
    )
