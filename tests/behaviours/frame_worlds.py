"""Worlds small enough to solve on paper, with frames of 8x8."""

from typing import Any

import torch
from torch import Generator, Tensor

from tokenworlds.core.types import FrameShape, Outcome, Segment, Trainable, View, to_frames

SHAPE = FrameShape(8, 8)


class SolvedWorld:
    """A world with fixed rules: nothing learns, and nothing is observed."""

    feature_shape: tuple[int, ...] = (1,)
    frames = 1

    def trainables(self) -> dict[str, Trainable]:
        return {}

    def policy_frames(self, segment: Segment) -> Tensor:
        return to_frames(segment.frame)

    def reconstruct(self, segment: Segment) -> None:
        return None

    def observe(self, *_: Any, **__: Any) -> Tensor:
        raise AssertionError("nothing is observed")


class FrameWorld(SolvedWorld):
    """A world whose features are NaN, so that only frames can be read."""

    def render(self, state: Tensor) -> Tensor:
        raise NotImplementedError

    def view(self, carry: Tensor) -> View:
        return frame_view(to_frames(self.render(carry)))


def frame_view(frame: Tensor) -> View:
    return View(lambda: torch.full((len(frame), 1), torch.nan), lambda: frame)


class Chain(FrameWorld):
    """Four rooms in a row; leaving the last pays 1 and terminates. A wrong action stays.

    The right actions are 1, 0, 1, 0. With a discount of 0.9 the best value of room i is
    0.9 ** (3 - i). A room is a pair of white columns; a dream starts in the room of a segment's
    last action.
    """

    def render(self, state: Tensor) -> Tensor:
        frame = torch.zeros(len(state), 8, 4, 2, 3, dtype=torch.uint8)
        frame[torch.arange(len(state)), :, state] = 255
        return frame.flatten(2, 3)

    def start(self, segment: Segment, steps: int) -> Tensor:
        return segment.action[:, -1]

    def step(
        self, carry: Tensor, action: Tensor, generator: Generator | None = None
    ) -> tuple[Tensor, Outcome]:
        moves = (carry + action) % 2 == 1
        leaves = moves & (carry == 3)
        room = (carry + moves.long()).clamp(max=3)
        return room, Outcome(leaves.float(), leaves.float())


class Signpost(FrameWorld):
    """A sign is visible once, then come two blank frames; then the action must be the sign.

    The right action pays 1 and a wrong one costs 1; both terminate. The state is the sign (0 or 1)
    and the time; the sign is a white half of the frame. A segment's last action is the sign, its
    length gives the time at which a dream starts.
    """

    def render(self, state: Tensor) -> Tensor:
        sign, time = state.unbind(-1)
        frame = torch.zeros(len(state), 8, 2, 4, 3, dtype=torch.uint8)
        shows = (time == 0).nonzero().squeeze(-1)
        frame[shows, :, sign[shows]] = 255
        return frame.flatten(2, 3)

    def start(self, segment: Segment, steps: int) -> Tensor:
        sign = segment.action[:, -1]
        return torch.stack([sign, torch.full_like(sign, segment.action.shape[1] - 1)], dim=-1)

    def step(
        self, carry: Tensor, action: Tensor, generator: Generator | None = None
    ) -> tuple[Tensor, Outcome]:
        sign, time = carry.unbind(-1)
        decides = (time == 2).float()
        reward = decides * (2.0 * (action == sign).float() - 1.0)
        return torch.stack([sign, time + 1], dim=-1), Outcome(reward, decides)


def segment_of(frame: Tensor, action: Tensor, **flags: Tensor) -> Segment:
    """Steps in the middle of an episode, unless flags say otherwise."""
    no = torch.zeros(frame.shape[:2], dtype=torch.bool)
    names = {"first": no, "terminated": no, "truncated": no, "mask": ~no, **flags}
    return Segment(frame=frame, action=action, reward=no.float(), **names)


def rooms(room: Tensor) -> Segment:
    """One step in each of these rooms."""
    return segment_of(Chain().render(room).unsqueeze(1), room.unsqueeze(1))


def walk_from_sign(sign: Tensor, steps: int) -> Segment:
    """The first steps of an episode."""
    times = [torch.stack([sign, torch.full_like(sign, time)], dim=-1) for time in range(steps)]
    frames = torch.stack([Signpost().render(state) for state in times], dim=1)
    return segment_of(frames, sign.unsqueeze(1).expand(-1, steps))
