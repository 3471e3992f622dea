"""Errors of pixels that move, with more weight than those of a still background."""

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from tokenworlds.core.sharing import total

MIN_CHANGE = 0.1
"""The difference from its mean over the segment by which a pixel counts as moving."""


def weigh_moving(
    error: Float[Tensor, "B T C H W"], frames: Float[Tensor, "B T C H W"], share: float | None
) -> Float[Tensor, "B T C H W"]:
    """Give moving pixels this share of the weight of all pixels, unless they have more already.

    The ball of Pong is one pixel of 4,096: without weights, a decoder that draws the background
    only has nearly the smallest error. The weights have a mean of 1.
    """
    if share is None:
        return error
    moving = find_moving(frames)
    part = total(moving.sum(dtype=error.dtype)) / total(error.new_tensor(moving.numel()))
    weights = torch.where(moving, share / part, (1 - share) / (1 - part))
    return error * torch.where(part < share, weights, torch.ones_like(weights))


def find_moving(frames: Float[Tensor, "B T C H W"]) -> Bool[Tensor, "B T 1 H W"]:
    """Where a frame differs from the mean of its segment in any channel."""
    still = frames.mean(dim=1, keepdim=True)
    return ((frames - still).abs() > MIN_CHANGE).any(dim=-3, keepdim=True)
