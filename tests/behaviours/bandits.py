"""Worlds of one state that never changes, in which the action of its number pays."""

import dataclasses
from typing import Any

import torch
from torch import Generator, Tensor
from torch.nn import functional

from tokenworlds.behaviours.ppo import PPO
from tokenworlds.core.types import ActionSpace, Dream, FrameShape, Segment
from tokenworlds.nets.policy_networks import GridNetwork

SHAPE, STATES = FrameShape(8, 8), 2
SMALL = PPO.Config(
    horizon=4,
    discount=0.5,
    epochs=3,
    minibatch=32,
    network=GridNetwork.Config(filters=8, kernel=1, width=8),
)
SCALES = {"policy": 1.0, "value": 0.5, "entropy": 0.01}


class Bandit:
    """Pays 1 for the action that is the state, which is the last action of a segment."""

    feature_shape: tuple[int, ...] = (STATES,)

    def feature(self, state: Tensor) -> Tensor:
        return functional.one_hot(state, STATES).float()

    def view(self, carry: Tensor) -> Dream:
        return self.dream(carry, torch.zeros(len(carry)))

    def dream(self, state: Tensor, reward: Tensor) -> Dream:
        nothing = torch.zeros(len(state))
        return Dream(lambda: self.feature(state), reward, nothing, lambda: self.draw(state))

    def draw(self, state: Tensor) -> Tensor:
        return state.view(-1, 1, 1, 1).float().expand(-1, 3, 8, 8)

    def start(self, segment: Segment, steps: int) -> Tensor:
        return segment.action[:, -1]

    def step(
        self, carry: Tensor, action: Tensor, generator: Generator | None = None
    ) -> tuple[Tensor, Dream]:
        return carry, self.dream(carry, (action == carry).float())

    def parts(self) -> Any:
        raise AssertionError("never learned")

    def seen(self, segment: Segment) -> Tensor:
        return segment.frame.movedim(-1, -3).float()

    def recode(self, segment: Segment) -> None:
        raise AssertionError("has no codes")

    def observe(self, *_: Any) -> Tensor:
        raise AssertionError("never observed")


class ToldBandit(Bandit):
    """Tells what it showed: the state is the first byte of a frame. A white frame is unknown."""

    def describe(self, segment: Segment) -> tuple[Tensor, Tensor]:
        byte = segment.frame[:, :, 0, 0, 0]
        return self.feature(byte.long().clamp(max=STATES - 1)), byte < 255


def ppo(**choices: Any) -> PPO:
    return ppo_for(ActionSpace(STATES), **choices)


def ppo_for(space: ActionSpace, **choices: Any) -> PPO:
    torch.manual_seed(0)
    config = dataclasses.replace(SMALL, **choices)
    return config.build(feature_shape=(STATES,), frame_shape=SHAPE, action_space=space)


def steps_of(state: Tensor, **fields: Tensor) -> Segment:
    """Steps in these states (rows, time), at which nothing special happened unless told so."""
    no = torch.zeros(state.shape, dtype=torch.bool)
    byte = state.to(torch.uint8)[..., None, None, None]
    known = {"first": no, "terminated": no, "truncated": no, "mask": ~no, "reward": no.float()}
    frame = byte.expand(*state.shape, 8, 8, 3)
    return Segment(frame=frame, **{"action": state, **known, **fields})


def generator(seed: int = 0) -> Generator:
    return torch.Generator().manual_seed(seed)
