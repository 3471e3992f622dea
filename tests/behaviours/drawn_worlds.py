"""Worlds small enough to be solved on paper, drawn as frames of 8x8."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Generator, Tensor

from tokenworlds.core.types import Dream, FrameShape, Segment, to_frames

SHAPE = FrameShape(8, 8)


class Drawn:
    """What the worlds have in common: a state is drawn, and frames are all that can be read."""

    feature_shape: tuple[int, ...] = (1,)

    def draw(self, state: Tensor) -> Tensor:
        raise NotImplementedError

    def dream(self, state: Tensor, reward: Tensor, terminated: Tensor) -> Dream:
        return Dream(unreadable(state), reward, terminated, lambda: to_frames(self.draw(state)))

    def view(self, carry: Tensor) -> Dream:
        nothing = torch.zeros(len(carry))
        return self.dream(carry, nothing, nothing)

    def seen(self, segment: Segment) -> Tensor:
        return to_frames(segment.frame)

    def parts(self) -> Any:
        raise AssertionError("never learned")

    def recode(self, segment: Segment) -> None:
        raise AssertionError("has no codes")

    def observe(self, *_: Any) -> Tensor:
        raise AssertionError("never observed")


def unreadable(state: Tensor) -> Callable[[], Tensor]:
    """Features that would spoil every number made of them."""
    return lambda: torch.full((len(state), 1), torch.nan)


class Chain(Drawn):
    """Four rooms in a row; leaving the last pays 1 and ends. Any action but the right one stays.

    The right ones are 1, 0, 1, 0. With a discount of 0.9 the best value of room i is
    0.9 ** (3 - i). A room is drawn as a pair of white columns; a segment's last action says in
    which room a dream begins.
    """

    def draw(self, state: Tensor) -> Tensor:
        frame = torch.zeros(len(state), 8, 4, 2, 3, dtype=torch.uint8)
        frame[torch.arange(len(state)), :, state] = 255
        return frame.flatten(2, 3)

    def start(self, segment: Segment, steps: int) -> Tensor:
        return segment.action[:, -1]

    def step(
        self, carry: Tensor, action: Tensor, generator: Generator | None = None
    ) -> tuple[Tensor, Dream]:
        moves = (carry + action) % 2 == 1
        leaves = moves & (carry == 3)
        room = (carry + moves.long()).clamp(max=3)
        return room, self.dream(room, leaves.float(), leaves.float())


class Signpost(Drawn):
    """A sign is seen once, then two blank frames; then the action must be the one it showed.

    Right pays 1 and wrong costs 1, and either ends the episode. The state is the sign (0 or 1)
    and the time; the sign is a white half of the frame. A segment's actions tell the sign, its
    length the time at which a dream begins.
    """

    def draw(self, state: Tensor) -> Tensor:
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
    ) -> tuple[Tensor, Dream]:
        sign, time = carry.unbind(-1)
        decides = (time == 2).float()
        reward = decides * (2.0 * (action == sign).float() - 1.0)
        state = torch.stack([sign, time + 1], dim=-1)
        return state, self.dream(state, reward, decides)


def segment_of(frame: Tensor, action: Tensor, **flags: Tensor) -> Segment:
    """Steps at which nothing special happened, unless flags say so."""
    nothing = torch.zeros(frame.shape[:2], dtype=torch.bool)
    names = {
        "first": nothing,
        "terminated": nothing,
        "truncated": nothing,
        "mask": ~nothing,
        **flags,
    }
    return Segment(frame=frame, action=action, reward=nothing.float(), **names)


def rooms(room: Tensor) -> Segment:
    """One step in each of these rooms."""
    return segment_of(Chain().draw(room).unsqueeze(1), room.unsqueeze(1))


def walk_to_sign(sign: Tensor, steps: int) -> Segment:
    """So many steps, the first of them at the sign."""
    times = [torch.stack([sign, torch.full_like(sign, time)], dim=-1) for time in range(steps)]
    frames = torch.stack([Signpost().draw(state) for state in times], dim=1)
    return segment_of(frames, sign.unsqueeze(1).expand(-1, steps))
