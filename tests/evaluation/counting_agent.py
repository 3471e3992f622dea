"""An environment whose frames are one grey level, increased by each action; worlds for it."""

from typing import Any

import numpy as np
import torch
from torch import Generator, Tensor, nn

from tokenworlds.agent import Agent
from tokenworlds.core.types import ActionSpace, FrameShape, Losses, Outcome, Segment, View
from tokenworlds.recipes.catalogue import load

ACTIONS = ActionSpace(3)
SIDE = 16


class CountingWorld(nn.Module):
    """An action adds `gain` times itself plus 1 to the level; the reward is the action."""

    frames = 1

    def __init__(self, gain: int = 10) -> None:
        super().__init__()
        self.gain = gain
        self.feature_shape: tuple[int, ...] = (1,)
        self.unused = nn.Parameter(torch.zeros(1))

    def trainables(self) -> Any:
        raise NotImplementedError

    def policy_frames(self, segment: Segment) -> Tensor:
        raise NotImplementedError

    def reconstruct(self, segment: Segment) -> None:
        return None

    def observe(
        self,
        frame: Tensor,
        action: Tensor,
        reset: Tensor,
        carry: Any | None,
        generator: Generator | None = None,
    ) -> Any:
        raise NotImplementedError

    def start(self, segment: Segment, steps: int) -> Tensor:
        return segment.frame[:, -1, 0, 0, 0].float()

    def step(
        self, carry: Tensor, action: Tensor, generator: Generator | None = None
    ) -> tuple[Tensor, Outcome]:
        carry = carry + self.gain * action + 1
        return carry, Outcome(action.float(), torch.zeros(len(carry)))

    def view(self, carry: Tensor) -> View:
        frame = carry.view(-1, 1, 1, 1).expand(-1, 3, SIDE, SIDE) / 255
        return View(lambda: carry.unsqueeze(-1), lambda: frame)


class Idle(nn.Module):
    horizon = 1

    def initial(self, batch: int) -> Any:
        return ()

    def act(
        self, view: Any, carry: Any, generator: Generator | None, temperature: float = 1.0
    ) -> tuple[Tensor, Any]:
        raise NotImplementedError

    def losses(self, world: Any, segment: Segment, generator: Generator | None) -> Losses:
        raise NotImplementedError


def counting_agent(gain: int = 10) -> Agent:
    return Agent(CountingWorld(gain), Idle(), FrameShape(SIDE, SIDE), ACTIONS)


def recipe_agent(name: str, side: int = SIDE) -> Agent:
    """A recipe's world at size nano, with fresh weights and small frames."""
    torch.manual_seed(0)
    world = load(name, "nano").recipe.world
    shape = FrameShape(side, side)
    built = world.build(frame_shape=shape, action_space=ACTIONS)
    return Agent(built, Idle(), shape, ACTIONS).eval()


def counting_segment(
    starts: list[set[int]], steps: int, seed: int = 0, side: int = SIDE
) -> Segment:
    """Recorded rows; an episode starts, at a random level, at each of the steps in `starts`."""
    rng = np.random.default_rng(seed)
    shape = (len(starts), steps)
    action = rng.integers(ACTIONS.size, size=shape)
    level = np.zeros(shape)
    for row, times in enumerate(starts):
        for time in range(steps):
            fresh = time == 0 or time in times
            before = level[row, time - 1] + 10 * action[row, time - 1] + 1
            level[row, time] = rng.integers(5, 30) if fresh else before
    first = np.array([[time in times for time in range(steps)] for times in starts])
    frame = np.broadcast_to(level[..., None, None, None], (*shape, side, side, 3))
    never = torch.zeros(shape, dtype=torch.bool)
    return Segment(
        frame=torch.from_numpy(frame.astype(np.uint8)),
        first=torch.from_numpy(first),
        action=torch.from_numpy(action),
        reward=torch.from_numpy(action.astype(np.float32)),
        terminated=never,
        truncated=never,
        mask=~never,
    )
