"""The newest frames of an episode as the channels of one, made when they are read."""

from dataclasses import dataclass

import torch
from einops import rearrange, repeat
from jaxtyping import Bool, Float, Int, UInt8
from torch import Tensor

from tokenworlds.core.trees import where_rows
from tokenworlds.core.types import Segment, to_frames
from tokenworlds.worlds.glimpses import openings


def stacked(segment: Segment, count: int) -> tuple[Float[Tensor, "B T C H W"], Bool[Tensor, "B T"]]:
    """The `count` newest frames at each step in [0, 1], oldest first, and if these were they.

    What an episode lacks is filled with its first frame. Where that lies before the segment the
    oldest frame there is stands in, and the stack is not known to be true.
    """
    opens = openings(segment)
    since = last_opening(opens)
    time = torch.arange(opens.shape[1], device=opens.device)
    known = segment.first.gather(1, since) | (time - since >= count - 1)
    return stack(segment.frame, opens, count), known


def last_opening(opens: Bool[Tensor, "B T"]) -> Int[Tensor, "B T"]:
    """The time since which all is known."""
    time = torch.arange(opens.shape[1], device=opens.device)
    return torch.cummax(torch.where(opens, time, 0), dim=1).values


def stack(
    frame: UInt8[Tensor, "B T H W C"], opens: Bool[Tensor, "B T"], count: int
) -> Float[Tensor, "B T c H W"]:
    """The `count` newest frames at each step, none from before the last that opens."""
    time, back = (torch.arange(n, device=opens.device) for n in (opens.shape[1], count))
    since = rearrange(last_opening(opens), "b t -> b t 1")
    place = torch.maximum(rearrange(time, "t -> t 1") - back.flip(0), since)
    rows = rearrange(torch.arange(len(opens), device=opens.device), "b -> b 1 1")
    return as_channels(frame[rows, place])


@dataclass(frozen=True, slots=True)
class FrameStack:
    """The newest frames of each row, oldest first."""

    frame: UInt8[Tensor, "B T H W C"]

    @staticmethod
    def of(frame: UInt8[Tensor, "B H W C"], count: int) -> "FrameStack":
        """An episode's first frame, in every place."""
        # A copy: the caller may write the next frame where this one is.
        return FrameStack(repeat(frame, "b h w c -> b t h w c", t=count).clone())

    def push(self, frame: UInt8[Tensor, "B H W C"], reset: Bool[Tensor, " B"]) -> "FrameStack":
        """Add a frame and drop the oldest; where an episode begins, all but the new one."""
        moved = torch.cat([self.frame[:, 1:], frame.unsqueeze(1)], dim=1)
        return where_rows(reset, FrameStack.of(frame, moved.shape[1]), FrameStack(moved))

    def channels(self) -> Float[Tensor, "B C H W"]:
        """As one frame in [0, 1]."""
        return as_channels(self.frame)


def as_channels(frame: UInt8[Tensor, "*rest n H W C"]) -> Float[Tensor, "*rest c H W"]:
    """Several frames as one."""
    return to_frames(rearrange(frame, "... n h w c -> ... h w (n c)"))
