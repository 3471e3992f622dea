"""The token worlds learn a game of one moving square: their dreams follow its rules."""

from dataclasses import dataclass
from typing import Any

import pytest
import torch
from einops import reduce, repeat
from token_world_parts import SIDE, build
from torch import Tensor, nn
from torch.nn import functional

from tokenworlds.core.config import Component, ConfigOf
from tokenworlds.core.trees import map_tensors
from tokenworlds.core.types import (
    Codes,
    Context,
    FrameShape,
    Losses,
    Segment,
    to_frames,
)

PLACES, HALF, STEPS = 4, SIDE // 2, 5


def render(place: Tensor) -> Tensor:
    """A bright quarter."""
    frame = torch.zeros(*place.shape, SIDE, SIDE, 3, dtype=torch.uint8)
    for quarter in range(PLACES):
        row, column = divmod(quarter, 2)
        rows = slice(row * HALF, (row + 1) * HALF)
        columns = slice(column * HALF, (column + 1) * HALF)
        frame[..., rows, columns, :][place == quarter] = 255
    return frame


def play(batch: int, steps: int, generator: torch.Generator) -> Segment:
    """Action 0 stays, 1 moves on; reaching the last quarter pays 1."""
    action = torch.randint(0, 2, (batch, steps), generator=generator)
    begin = torch.randint(0, PLACES, (batch, 1), generator=generator)
    place = (begin + torch.cat([torch.zeros_like(begin), action.cumsum(1)], 1)) % PLACES
    no = torch.zeros(batch, steps, dtype=torch.bool)
    reward = ((place[:, 1:] == PLACES - 1) & (action == 1)).float()
    return Segment(render(place[:, :-1]), no, action, reward, no, no, ~no)


def learn(world: Any, name: str, updates: int, batch: int, steps: int) -> None:
    generator = torch.Generator().manual_seed(0)
    learning = world.trainables()[name]
    optimizer = torch.optim.Adam(learning.module.parameters(), lr=5e-3)
    rate = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.05, updates)
    learning.module.train()
    for _ in range(updates):
        losses = learning.losses(play(batch, steps, generator))
        optimizer.zero_grad()
        sum(losses.means().values(), torch.zeros(())).backward()
        optimizer.step()
        rate.step()
        for follow in losses.after:
            follow()
    learning.module.eval()


class Quarters(nn.Module, Component):
    """A tokenizer without weights: one token for each quarter, bright or dark."""

    @dataclass(frozen=True, kw_only=True, slots=True)
    class Config(ConfigOf["Quarters"]):
        pass

    def __init__(self, config: Config, *, frame_shape: FrameShape) -> None:
        super().__init__()
        self.tokens, self.vocabulary = PLACES, 2

    def encode(self, frames: Tensor, context: Context | None = None) -> Codes:
        corners = frames[..., 0, ::HALF, ::HALF]
        return self.look_up((corners > 0.5).long().flatten(-2))

    def look_up(self, index: Tensor) -> Codes:
        hard = functional.one_hot(index, 2).float()
        return Codes(index, hard.clamp_min(1e-8).log(), hard, hard, hard)

    def decode(self, codes: Codes, context: Context | None = None) -> Tensor:
        pattern = "... (h w) -> ... c (h y) (w x)"
        return repeat(codes.index.float(), pattern, h=2, c=3, y=HALF, x=HALF)

    def losses(self, *given: Any) -> Losses:
        return Losses({}, {})


def place_of(frame: Tensor) -> Tensor:
    """The brightest quarter."""
    light = reduce(frame, "b c (h y) (w x) -> b (h w)", "mean", h=2, w=2)
    return light.argmax(-1)


def share_predicted(world: Any) -> tuple[float, float]:
    """The shares of imagined frames and of imagined rewards that are right."""
    # Only as long as the segments of training, whose positions have learned.
    real = play(32, STEPS, torch.Generator().manual_seed(1))
    given = map_tensors(lambda leaf: leaf[:, :2], real)
    carry, generator = world.start(given, STEPS), torch.Generator().manual_seed(0)
    frames, rewards = [], []
    for t in range(1, STEPS - 1):
        carry, outcome = world.step(carry, real.action[:, t], generator)
        frame = world.view(carry).frame
        frames.append(place_of(frame) == place_of(to_frames(real.frame[:, t + 1])))
        rewards.append((outcome.reward - real.reward[:, t]).abs() < 0.1)
    return float(torch.stack(frames).float().mean()), float(torch.stack(rewards).float().mean())


def test_dreams_of_iris_follow_the_rules() -> None:
    world = build("iris", tokenizer=Quarters.Config(), context=1)
    learn(world, "world", 220, 16, STEPS)
    frames, rewards = share_predicted(world)
    assert frames > 0.95
    assert rewards > 0.95


@pytest.mark.slow
def test_dreams_of_delta_iris_follow_the_rules() -> None:
    world = build("delta_iris", context=1)
    learn(world, "tokenizer", 200, 8, 3)
    learn(world, "world", 160, 16, STEPS)
    frames, rewards = share_predicted(world)
    assert frames > 0.95
    assert rewards > 0.95
