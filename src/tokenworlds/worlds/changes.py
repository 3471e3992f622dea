"""Real frames as changes, each from the frame before it (Δ-IRIS, section 2.1)."""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from tokenworlds.core.errors import UserError
from tokenworlds.core.types import ActionSpace, Context, Losses, Recoded, Segment, to_frames
from tokenworlds.tokenizers.delta import Delta
from tokenworlds.worlds.glimpses import follows

Frames = Float[Tensor, "B T C H W"]
Actions = Float[Tensor, "B T A"]


def pair(frames: Frames, action: Actions) -> tuple[Float[Tensor, "B t C H W"], Context]:
    """Each frame but the first, and what came before it."""
    if frames.shape[1] < 2:
        raise UserError("a change takes two frames: segments of one step hold none")
    return frames[:, 1:], Context(frames[:, :-1], action[:, :-1])


@torch.no_grad()
def find_changes(
    tokenizer: Delta, frames: Frames, action: Actions, known: Int[Tensor, "B T K"] | None = None
) -> Int[Tensor, "B t K"]:
    """The tokens from each frame to the next, written now unless those to each are known."""
    return tokenizer.encode(*pair(frames, action)).index if known is None else known[:, 1:]


@torch.no_grad()
def find_some(
    tokenizer: Delta, segment: Segment, space: ActionSpace, wanted: Bool[Tensor, "B T"]
) -> Int[Tensor, "n K"]:
    """The tokens of the changes to some frames, none of them the first of its row."""
    row, time = wanted.nonzero(as_tuple=True)
    frame, past = segment.frame[row, time], segment.frame[row, time - 1]
    context = Context(to_frames(past), space.encode(segment.action[row, time - 1]))
    return tokenizer.encode(to_frames(frame), context).index


def losses_of_changes(tokenizer: Delta, segment: Segment, space: ActionSpace) -> Losses:
    """Of each frame that follows another of its episode."""
    frames, context = pair(to_frames(segment.frame), space.encode(segment.action))
    codes = tokenizer.encode(frames, context)
    return tokenizer.losses(frames, codes, follows(segment), context)


@torch.no_grad()
def redraw(tokenizer: Delta, segment: Segment, space: ActionSpace) -> Recoded:
    """Each frame through its change from the one before, which is real.

    Frames that follow none stay as they are, with -1 for codes.
    """
    frames = to_frames(segment.frame)
    index = torch.full((*frames.shape[:2], tokenizer.tokens), -1, device=frames.device)
    if frames.shape[1] > 1:
        action = space.encode(segment.action)
        _, context = pair(frames, action)
        changes, drawable = find_changes(tokenizer, frames, action), follows(segment)
        drawn = tokenizer.decode(tokenizer.look_up(changes), context)
        index[:, 1:][drawable] = changes[drawable]
        frames[:, 1:][drawable] = drawn[drawable]
    grid = tokenizer.config.grid
    return Recoded(index, frames, tokenizer.vocabulary, (grid, grid))


def draw_next(
    tokenizer: Delta, index: Int[Tensor, "B K"], context: Context
) -> Float[Tensor, "B C H W"]:
    """The frame that a change leads to, with 8 bits for each number as if it had been stored."""
    drawn = tokenizer.decode(tokenizer.look_up(index), context)
    return (drawn.clamp(0, 1) * 255).round() / 255
