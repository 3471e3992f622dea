"""Worlds with a constant state, in which the action with the state's number pays."""

import dataclasses
from typing import Any

import torch
from frame_worlds import SHAPE, SolvedWorld
from torch import Generator, Tensor
from torch.nn import functional

from tokenworlds.behaviours.ppo import PPO
from tokenworlds.core.types import ActionSpace, Outcome, Segment, View
from tokenworlds.nets.policy_networks import GridNetwork

STATES = 2
SMALL = PPO.Config(
    horizon=4,
    discount=0.5,
    epochs=3,
    minibatch=32,
    network=GridNetwork.Config(filters=8, kernel=1, width=8),
)
SCALES = {"policy": 1.0, "value": 0.5, "entropy": 0.01}


class Bandit(SolvedWorld):
    """Pays 1 for the action that equals the state, which is a segment's last action."""

    feature_shape: tuple[int, ...] = (STATES,)

    def feature(self, state: Tensor) -> Tensor:
        return functional.one_hot(state, STATES).float()

    def view(self, carry: Tensor) -> View:
        frame = carry.view(-1, 1, 1, 1).float().expand(-1, 3, 8, 8)
        return View(lambda: self.feature(carry), lambda: frame)

    def start(self, segment: Segment, steps: int) -> Tensor:
        return segment.action[:, -1]

    def step(
        self, carry: Tensor, action: Tensor, generator: Generator | None = None
    ) -> tuple[Tensor, Outcome]:
        return carry, Outcome((action == carry).float(), torch.zeros(len(carry)))


class DescribedBandit(Bandit):
    """Gives features of real steps: the state is a frame's first byte, unknown if it is white."""

    def features(self, segment: Segment) -> tuple[Tensor, Tensor]:
        byte = segment.frame[:, :, 0, 0, 0]
        return self.feature(byte.long().clamp(max=STATES - 1)), byte < 255


def ppo(**choices: Any) -> PPO:
    return ppo_for(ActionSpace(STATES), **choices)


def ppo_for(space: ActionSpace, **choices: Any) -> PPO:
    torch.manual_seed(0)
    config = dataclasses.replace(SMALL, **choices)
    return config.build(feature_shape=(STATES,), frame_shape=SHAPE, action_space=space)


def steps_of(state: Tensor, **fields: Tensor) -> Segment:
    """Steps in these states (rows, time), in the middle of an episode unless fields differ."""
    no = torch.zeros(state.shape, dtype=torch.bool)
    byte = state.to(torch.uint8)[..., None, None, None]
    defaults = {"first": no, "terminated": no, "truncated": no, "mask": ~no, "reward": no.float()}
    frame = byte.expand(*state.shape, 8, 8, 3)
    return Segment(frame=frame, **{"action": state, **defaults, **fields})


def generator(seed: int = 0) -> Generator:
    return torch.Generator().manual_seed(seed)
