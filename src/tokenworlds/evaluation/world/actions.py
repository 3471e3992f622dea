"""Whether dreams depend on actions.

From each state the world dreams four times: twice under one action that is held, twice under
another one. Dreams under the same action differ by chance alone.
"""

import numpy as np
import torch
from einops import rearrange, reduce, repeat
from jaxtyping import Float
from torch import Generator, Tensor

from tokenworlds.agent import Agent
from tokenworlds.core.precision import computing
from tokenworlds.core.types import ActionSpace
from tokenworlds.evaluation.episodes import random_actions
from tokenworlds.evaluation.world.held_out import HeldOut, gather_before
from tokenworlds.evaluation.world.loops import ROWS, Places
from tokenworlds.evaluation.world.scores import Figures

DREAMS = 4
"""From each state: two actions, twice each."""


@torch.no_grad()
def action_figures(
    agent: Agent, held: HeldOut, starts: Places, *, context: int, generator: Generator
) -> Figures:
    """The share of the squared difference between dreams that is due to their actions.

    Dreams are as long as those that the behaviour learns from. `error` is the standard error of
    `share` over the states. Dreams that are all alike have a share of 0.
    """
    at_once = ROWS // DREAMS
    parts = [
        differences(agent, held, starts[begin : begin + at_once], context, generator)
        for begin in range(0, len(starts), at_once)
    ]
    same, other = np.concatenate(parts, 1)
    share, error = share_of_difference(same, other)
    return {"horizon": agent.behaviour.horizon, "share": share, "error": error}


def share_of_difference(
    same: Float[np.ndarray, " W"], other: Float[np.ndarray, " W"]
) -> tuple[float, float]:
    """1 - sum(same) / sum(other), and its standard error over the states."""
    total = other.sum()
    if total == 0:
        return 0.0, 0.0
    share = 1 - same.sum() / total
    residual = other - same - share * other
    correction = len(same) / max(len(same) - 1, 1)
    return float(share), float(np.sqrt(correction * np.square(residual).sum()) / total)


def differences(
    agent: Agent, held: HeldOut, starts: Places, context: int, generator: Generator
) -> Float[np.ndarray, "2 W"]:
    """Mean squared differences of dreams under the same action, and under two actions."""
    world, horizon = agent.world, agent.behaviour.horizon
    begin = gather_before(held, np.repeat(starts, DREAMS, axis=0), context).to(agent.device)
    action = two_actions(agent.action_space, len(starts), generator)
    frames = []
    with computing(agent.device, agent.precision):
        carry = world.start(begin, horizon)
        for _ in range(horizon):
            carry, _ = world.step(carry, action, generator)
            frames.append(world.view(carry).frame.float())
    dream = rearrange(torch.stack(frames), "t (w a n) c h v -> w a n (t c h v)", a=2, n=2)
    one, two = dream.unbind(1)
    same = squares(one[:, 0] - one[:, 1]) + squares(two[:, 0] - two[:, 1])
    other = squares(one - two) + squares(one - two.flip(1))
    pairs = torch.stack([same / 2, reduce(other, "w n -> w", "sum") / 4])
    found: Float[np.ndarray, "2 W"] = pairs.double().cpu().numpy()
    return found


def squares(difference: Float[Tensor, "*rest D"]) -> Float[Tensor, "*rest"]:
    return difference.square().mean(-1)


def two_actions(space: ActionSpace, states: int, generator: Generator) -> Tensor:
    """Two different actions for each state, twice each, in the order (state action time)."""
    first = random_actions(space, states, generator)
    if space.discrete:
        others = ActionSpace(max(space.size - 1, 1))
        second = (first + 1 + random_actions(others, states, generator)) % space.size
    else:
        second = random_actions(space, states, generator)
    return repeat(torch.stack([first, second], 1), "w a ... -> (w a n) ...", n=2)
