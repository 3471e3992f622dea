"""Short histories of real steps, stacks of the latest frames, and the worlds that keep them."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from einops import rearrange
from jaxtyping import Bool, Float, Int, UInt8
from torch import Generator, Tensor, nn
from torch.nn import functional

from tokenworlds.core.types import ActionSpace, Losses, Segment, Trainable, to_frames


@dataclass(frozen=True, slots=True)
class History:
    """The latest observations (frames or tokens), oldest first, and the action taken at each.

    The last action is zero: it is not known yet. `first` is set where an episode starts, and in
    places that hold no step yet. `tokens` are those of a segment's frames, if it had them.
    """

    observation: Int[Tensor, "B T *shape"] | UInt8[Tensor, "B T *shape"]
    action: Float[Tensor, "B T A"]
    first: Bool[Tensor, "B T"]
    tokens: Int[Tensor, "B T K"] | None = None

    @staticmethod
    def blank(like: Tensor, steps: int, space: ActionSpace) -> "History":
        return History(
            like.new_zeros((len(like), steps, *like.shape[1:])),
            torch.zeros(len(like), steps, space.size, device=like.device),
            torch.ones(len(like), steps, dtype=torch.bool, device=like.device),
        )

    @staticmethod
    def of_segment(segment: Segment, steps: int, space: ActionSpace) -> "History":
        """The last steps of a segment, at most this many."""
        last = slice(-steps, None)
        tokens = None if segment.tokens is None else segment.tokens[:, last]
        action = space.encode(segment.action)[:, last]
        return History(segment.frame[:, last], action, starts(segment)[:, last], tokens)

    def push(
        self, observation: Tensor, action: Float[Tensor, "B A"], first: Bool[Tensor, " B"]
    ) -> "History":
        """Add an observation and the action that led to it; drop the oldest step."""
        pending = torch.zeros_like(action)[:, None]
        return History(
            torch.cat([self.observation[:, 1:], observation[:, None]], dim=1),
            torch.cat([self.action[:, 1:-1], action[:, None], pending], dim=1)[:, -len(self) :],
            torch.cat([self.first[:, 1:], first[:, None]], dim=1),
        )

    def __len__(self) -> int:
        """Steps, not rows."""
        return self.first.shape[1]

    @property
    def starts(self) -> Bool[Tensor, "B T"]:
        """Where no earlier step is known: `first`, and the oldest step."""
        return with_start(self.first)

    @property
    def frame(self) -> Float[Tensor, "B C H W"]:
        """The latest frame, in [0, 1]."""
        return to_frames(self.observation[:, -1])


class FrameWorld(nn.Module):
    """A world that observes by keeping the `kept` latest frames; a feature or a dream encodes them
    on request."""

    action_space: ActionSpace
    kept: int

    @torch.no_grad()
    def observe(
        self,
        frame: UInt8[Tensor, "B H W C"],
        action: Tensor,
        reset: Bool[Tensor, " B"],
        carry: History | None,
        generator: Generator | None = None,
    ) -> History:
        carry = carry or History.blank(frame, self.kept, self.action_space)
        return carry.push(frame, self.action_space.encode(action), reset)


class TwoLearnerWorld(FrameWorld):
    """A tokenizer with losses of its own, and dynamics that predict its tokens."""

    tokenizer: Any
    dynamics: nn.Module
    losses: Callable[[Segment], Losses]
    tokenizer_losses: Callable[[Segment], Losses]
    step: Callable[..., Any]

    def trainables(self) -> dict[str, Trainable]:
        return {
            "tokenizer": Trainable(self.tokenizer, self.tokenizer_losses),
            "world": Trainable(self.dynamics, self.losses),
        }

    def compile_with(self, compile_function: Callable[..., Any]) -> None:
        compiled = ("losses", "tokenizer_losses", "step")
        vars(self).update({name: compile_function(getattr(self, name)) for name in compiled})


def with_start(first: Bool[Tensor, "B T"]) -> Bool[Tensor, "B T"]:
    """Set the first column: nothing is known before it."""
    return functional.pad(first[:, 1:], (1, 0), value=True)


def starts(segment: Segment) -> Bool[Tensor, "B T"]:
    """Where no earlier step is known: an episode, the segment, or its real part starts."""
    after_padding = functional.pad(~segment.mask[:, :-1], (1, 0))
    return with_start(segment.first | after_padding)


def follows(segment: Segment) -> Bool[Tensor, "B t"]:
    """Whether each step but the first continues the one before it: both real, of one episode."""
    return segment.mask[:, 1:] & ~starts(segment)[:, 1:]


def last_start(starts: Bool[Tensor, "B T"]) -> Int[Tensor, "B T"]:
    """The index of the latest start up to each step."""
    time = torch.arange(starts.shape[1], device=starts.device)
    return torch.cummax(torch.where(starts, time, 0), dim=1).values


def stack_frames(
    frame: UInt8[Tensor, "B T H W C"], starts: Bool[Tensor, "B T"], count: int
) -> Float[Tensor, "B T c H W"]:
    """The latest `count` frames of each step as channels, oldest first, in [0, 1].

    Where an episode has fewer frames, its first one is repeated.
    """
    time, back = (torch.arange(n, device=starts.device) for n in (starts.shape[1], count))
    since = rearrange(last_start(starts), "b t -> b t 1")
    place = torch.maximum(rearrange(time, "t -> t 1") - back.flip(0), since)
    rows = rearrange(torch.arange(len(starts), device=starts.device), "b -> b 1 1")
    return to_frames(rearrange(frame[rows, place], "b t n h w c -> b t h w (n c)"))


def stack_segment(
    segment: Segment, count: int
) -> tuple[Float[Tensor, "B T C H W"], Bool[Tensor, "B T"]]:
    """The frame stack of each step, and whether the segment holds all of its frames."""
    opens = starts(segment)
    since = last_start(opens)
    time = torch.arange(opens.shape[1], device=opens.device)
    complete = segment.first.gather(1, since) | (time - since >= count - 1)
    return stack_frames(segment.frame, opens, count), complete
