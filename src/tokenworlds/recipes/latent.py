"""Blocks that the recipes with a latent world share: STEP-VQ, DRAMA, STORM and GIT-STORM."""

from tokenworlds.nets.cells import CellSummary
from tokenworlds.nets.local_dynamics import LocalDynamics
from tokenworlds.recipes.blocks import Block

# DeepMind Control, with GIT-STORM's numbers: 500k steps of two frames, 16 environments.
CONTROL: Block = {
    "steps": 500_000,
    "num_envs": 16,
    "schedule.updates": {"world": 1 / 16, "behaviour": 1 / 16},
    "evaluation.every": 100_000,
    "housekeeping.log_every": 1_600,
    "housekeeping.save_every": 16_000,
}

# A few hundred thousand parameters: learns a built-in game on a laptop in minutes.
NANO: Block = {
    "steps": 10_000,
    "num_envs": 16,
    "world.tokenizer.kernel": 3,
    "world.tokenizer.groups": 8,
    # A wrong token in an imagined frame is a ball that is not there: little uniform probability,
    # few free bits.
    "world.tokenizer.unimix": 0.001,
    "world.prior.unimix": 0.001,
    "world.prior.free_bits": 0.02,
    "world.sequence.width": 128,
    "world.sequence.layers": 2,
    "world.sequence.heads": 4,
    "world.sequence.dropout": 0.0,
    "world.reward.hidden": (128,),
    "world.termination.hidden": (128,),
    "behaviour.horizon": 8,
    "behaviour.actor": (128, 128),
    "behaviour.critic": (128, 128),
    "learning.world.batch": 8,
    "learning.world.length": 16,
    "learning.world.optimiser.rate": 2e-3,
    "learning.world.optimiser.rates": {"tokenizer": 1e-3},
    "learning.world.optimiser.warm_up": 50,
    "learning.behaviour.batch": 64,
    "learning.behaviour.length": 2,
    # The policy must stay random until the world has learned.
    "learning.behaviour.scales.entropy": 1e-2,
    "learning.behaviour.optimiser.rate": 5e-4,
    "learning.behaviour.optimiser.warm_up": 50,
    "schedule.warm_up": 1_024,
    "schedule.updates": {"world": 1 / 16, "behaviour": 1 / 8},
    "evaluation.episodes": 10,
    "evaluation.final_episodes": 10,
    "housekeeping.log_every": 160,
    "housekeeping.save_every": 1_000,
}
NANO_VQ: Block = {
    "world.tokenizer.filters": (16, 32, 32),
    "world.tokenizer.strides": (2, 2, 2),
    "world.tokenizer.codebook.codes": 16,
    "world.tokenizer.codebook.decay": 0.97,
    "world.tokenizer.codebook.revive_below": 0.5,
    # Every place has the same laws: learned once, not once for each cell.
    "world.local": LocalDynamics.Config(channels=16),
}
NANO_CATEGORICAL: Block = {
    "world.tokenizer.filters": (16, 32, 32, 32),
    "world.tokenizer.strides": (2, 2, 2, 2),
    # Without a codebook that is placed on the data, rare contents of a cell separate later.
    "steps": 14_000,
    "learning.world.optimiser.rates": {"tokenizer": 2e-3},
}
# MinAtar's board has 10 x 10 cells. With 4 pixels for each, a token stands for one cell; on frames
# of 64 pixels, a cell of the grid covers 1.25 cells of the board. Games with many moving things
# need more updates than `catch`.
NANO_MINATAR: Block = {
    "resolution": 40,
    "schedule.updates": {"world": 1 / 8, "behaviour": 1 / 4},
    # Returns of games with rare rewards spread over a tenth. Divided by 1, their advantages would
    # be too small to move the policy against the entropy bonus.
    "behaviour.range_floor": 0.1,
    "world.tokenizer.filters": (16, 32),
    "world.tokenizer.strides": (2, 2),
}
NANO_MINATAR_CATEGORICAL: Block = {
    **NANO_MINATAR,
    "world.tokenizer.filters": (16, 32, 32),
    "world.tokenizer.strides": (2, 2, 2),
}
# Returns of control tasks spread over tens. Divided by that, advantages cannot move the policy
# against the entropy weight of the smaller sizes; this is the papers'.
CONTROL_ENTROPY: Block = {"learning.behaviour.scales.entropy": 3e-4}
# A pole is a hundredth of the pixels: without this share, reconstructions show the cart alone.
# Dreams start after eight frames, as in GIT-STORM: two say little of speeds.
NANO_CONTROL: Block = {
    **CONTROL_ENTROPY,
    "world.tokenizer.moving_share": 0.5,
    "learning.behaviour.length": 8,
}
# Positions on the track are finer than grid cells: more updates.
NANO_STEER: Block = {
    "schedule.updates": {"world": 1 / 8, "behaviour": 1 / 8},
}

# Two to five million parameters: 100,000 steps of Atari in an afternoon on a laptop. A model needs
# thousands of updates before it predicts the rewards of Boxing, and wide filters to see the boxers.
# The tokenizer learns from a quarter of the frames, since it converges before the rest does.
# Without shifted frames, the model overfits its replay: after 14,000 steps of Boxing it needs
# 2.6 nats for a frame of replay and 17 for one that it has not seen.
TINY: Block = {
    "num_envs": 8,
    "world.tokenizer.kernel": 3,
    "world.tokenizer.groups": 8,
    "world.tokenizer.unimix": 0.001,
    "world.prior.unimix": 0.001,
    "world.prior.free_bits": 0.02,
    "world.tokenizer_rows": 4,
    # The ball of Pong is one pixel of 4,096: without this share, no token stands for it.
    "world.tokenizer.moving_share": 0.5,
    "world.sequence.width": 256,
    "world.sequence.layers": 2,
    "world.sequence.heads": 4,
    # The mean in symlog space of a reward of 100 with a probability of 1 % is 0.05, not 1.
    "world.reward.bins": "symexp",
    "behaviour.bins": "symexp",
    "world.reward.hidden": (256,),
    "world.termination.hidden": (256,),
    "behaviour.horizon": 12,
    "behaviour.actor": (256, 256),
    "behaviour.critic": (256, 256),
    "learning.world.batch": 16,
    "learning.world.length": 32,
    "learning.world.shift": 4,
    # A batch holds few rewards: at this rate, what heads predict on average changes with each one.
    "learning.world.average": 0.98,
    "learning.world.optimiser.rate": 1e-3,
    "learning.world.optimiser.rates": {},
    "learning.world.optimiser.warm_up": 100,
    "learning.behaviour.batch": 192,
    "learning.behaviour.length": 3,
    "learning.behaviour.shift": 4,
    # With it and the papers' entropy weight, cb-m learns Boxing: the policy soon prefers few
    # actions and loses, and from 15,000 steps on it wins.
    "learning.behaviour.optimiser.rate": 3e-4,
    "learning.behaviour.optimiser.warm_up": 100,
    "schedule.warm_up": 2_048,
    "schedule.updates": {"world": 1 / 6, "behaviour": 1 / 12},
    "evaluation.every": 10_000,
    "evaluation.episodes": 8,
    # The greedy action of a policy that is still uncertain is arbitrary, and costs 100 in Boxing.
    "evaluation.temperature": 1.0,
    "housekeeping.log_every": 400,
    "housekeeping.save_every": 2_000,
}
TINY_VQ: Block = {
    "world.tokenizer.filters": (32, 64, 64),
    "world.tokenizer.strides": (2, 2, 2),
    "world.tokenizer.codebook.codes": 64,
    "world.tokenizer.codebook.width": 64,
    "world.tokenizer.codebook.decay": 0.97,
    "world.tokenizer.codebook.revive_below": 0.5,
    "world.local": LocalDynamics.Config(channels=32, pooled_kernel=3, embeds="vector"),
    # Half a cell: the tokens of what never moves are then of four kinds, not of 64.
    "learning.world.shift_step": 4,
    "learning.behaviour.shift_step": 4,
    # Advantages are divided by 1 at least, as in the papers: while the model knows no rewards, an
    # action must be worth a hundredth more than another to be preferred. With the papers' 3e-4,
    # the policy of Boxing became deterministic.
    "learning.behaviour.scales.entropy": 1e-2,
    # At 3e-4, values were the same in all states after 290 updates.
    "learning.behaviour.optimiser.rate": 1e-3,
    # What two boxers are worth to each other does not depend on where they stand, either.
    "behaviour.local": CellSummary.Config(),
    # 90 ms per step on two cores, with these convolutions.
    "learning.behaviour.batch": 144,
    "schedule.updates": {"world": 1 / 7, "behaviour": 1 / 16},
    # Local dynamics read two frames; encoding a third for every dream would take their time.
    "learning.behaviour.length": 2,
}
TINY_CATEGORICAL: Block = {
    "world.tokenizer.filters": (32, 64, 64, 64),
    "world.tokenizer.strides": (2, 2, 2, 2),
}

# A few million parameters: for a workstation.
SMALL: Block = {
    "world.tokenizer.kernel": 3,
    "world.sequence.width": 256,
    "world.sequence.layers": 2,
    "behaviour.actor": (256, 256),
    "behaviour.critic": (256, 256),
    "learning.world.batch": 8,
    "learning.world.length": 64,
    "learning.world.optimiser.rate": 2e-4,
    "learning.world.optimiser.rates": {"tokenizer": 4e-4},
    "learning.world.optimiser.warm_up": 200,
    "learning.behaviour.batch": 256,
    "learning.behaviour.optimiser.rate": 1e-4,
    "learning.behaviour.optimiser.warm_up": 200,
    # 100,000 steps in a day on two CPU cores.
    "schedule.updates": {"world": 1 / 2, "behaviour": 1 / 3},
}
SMALL_VQ: Block = {
    "world.tokenizer.filters": (32, 64, 128),
    "world.tokenizer.strides": (2, 2, 2),
}
SMALL_CATEGORICAL: Block = {
    "world.tokenizer.filters": (32, 64, 128, 128),
    "world.tokenizer.strides": (2, 2, 2, 2),
}
