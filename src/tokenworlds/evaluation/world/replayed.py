"""Predictions of steps that a world learned from, to see whether it overfits them."""

import numpy as np
from jaxtyping import Float
from torch import Generator

from tokenworlds.agent import Agent
from tokenworlds.evaluation.world.held_out import HeldOut
from tokenworlds.evaluation.world.images import mean
from tokenworlds.evaluation.world.loops import ClosedLoop, closed_loop
from tokenworlds.evaluation.world.scores import Figures, reward_scores


def replay_figures(agent: Agent, replay: HeldOut, generator: Generator) -> Figures:
    """One step ahead in the closed loop, as for held-out steps."""
    closed, mask = closed_loop(agent, replay, generator), replay.segment.mask.numpy()
    row, time = np.argwhere(replay.follows).T
    scores = closed.predicted.tokens
    return {
        "steps": int(mask.sum()),
        "tokens": {
            "accuracy": mean(scores.accuracy[row, time - 1]),
            "nll": mean(scores.nll[row, time - 1]),
        },
        "reward": reward_scores(closed.predicted.reward[mask], rewards_of(replay, closed)[mask]),
    }


def rewards_of(held: HeldOut, closed: ClosedLoop) -> Float[np.ndarray, "N T"]:
    """Real rewards as the world predicts them: their signs, if it knows no more."""
    reward = held.segment.reward.double().numpy()
    return np.sign(reward) if closed.predicted.signed else reward
