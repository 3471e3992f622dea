"""The last few real frames, from which a history of tokens is made when one is asked for."""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int, UInt8
from torch import Tensor
from torch.nn import functional

from tokenworlds.core.types import ActionSpace, Segment, to_frames


@dataclass(frozen=True, slots=True)
class Glimpses:
    """Frames, oldest first, and what was done at each; at the last one nothing yet counts.

    `opens` is set where nothing before a frame is known: its episode began, or the memory does.
    `codes` are those of a segment's frames, if it knew them.
    """

    frame: UInt8[Tensor, "B T H W C"]
    action: Float[Tensor, "B T A"]
    opens: Bool[Tensor, "B T"]
    codes: Int[Tensor, "B T K"] | None = None

    @staticmethod
    def of(segment: Segment, steps: int, space: ActionSpace) -> "Glimpses":
        """The last steps of a segment, at most so many."""
        action, opens = space.encode(segment.action), openings(segment)
        kept = openings_of_a_window(opens[:, -steps:])
        codes = None if segment.codes is None else segment.codes[:, -steps:]
        return Glimpses(segment.frame[:, -steps:], action[:, -steps:], kept, codes)

    @staticmethod
    def blank(like: UInt8[Tensor, "B H W C"], steps: int, space: ActionSpace) -> "Glimpses":
        """Nothing seen yet: every place opens an episode, so that none is looked back on."""
        frame = like.new_zeros((len(like), steps, *like.shape[1:]))
        action = torch.zeros(len(like), steps, space.size, device=like.device)
        opens = torch.ones(len(like), steps, dtype=torch.bool, device=like.device)
        return Glimpses(frame, action, opens)

    def look(self) -> Float[Tensor, "B C H W"]:
        """The frame in front."""
        return to_frames(self.frame[:, -1])

    def push(
        self,
        frame: UInt8[Tensor, "B H W C"],
        action: Float[Tensor, "B A"],
        reset: Bool[Tensor, " B"],
    ) -> "Glimpses":
        """Add a frame and the action that led to it; drop the oldest."""
        done = [self.action[:, :-1], action[:, None], torch.zeros_like(action)[:, None]]
        opens = torch.cat([self.opens, reset[:, None]], dim=1)[:, 1:]
        return Glimpses(
            torch.cat([self.frame, frame[:, None]], dim=1)[:, 1:],
            torch.cat(done, dim=1)[:, 1:],
            openings_of_a_window(opens),
        )


def openings(segment: Segment) -> Bool[Tensor, "B T"]:
    """Where nothing before a step is known: episodes begin, the segment does, or padding ends."""
    after_padding = functional.pad(~segment.mask[:, :-1], (1, 0))
    return openings_of_a_window(segment.first | after_padding)


def openings_of_a_window(opens: Bool[Tensor, "B T"]) -> Bool[Tensor, "B T"]:
    """The same, with nothing known before the first step."""
    return functional.pad(opens[:, 1:], (1, 0), value=True)


def follows(segment: Segment) -> Bool[Tensor, "B t"]:
    """Whether each step but the first comes after the one before it: both real, of one episode."""
    return segment.mask[:, 1:] & ~openings(segment)[:, 1:]
