"""The order in which the numbers of a map lie in memory: no result depends on it, speed does."""

from typing import cast

import torch
from jaxtyping import Float
from torch import Tensor, nn

PIECE = 256
"""Maps that are convolved at a time while nothing is learned."""


def lay_out(
    maps: Float[Tensor, "B C H W"], learning: torch.memory_format = torch.contiguous_format
) -> Float[Tensor, "B C H W"]:
    """As a CPU convolves it fastest; what follows keeps the order of what it is given.

    Channels last while nothing is learned. The gradient of a group norm is several times slower
    in that order, so that stacks with group norms learn channel by channel. Other devices choose
    for themselves.
    """
    if maps.device.type != "cpu":
        return maps
    order = learning if torch.is_grad_enabled() else torch.channels_last
    return maps.contiguous(memory_format=order)


def convolve(
    layers: nn.Module,
    maps: Float[Tensor, "B C H W"],
    learning: torch.memory_format = torch.contiguous_format,
) -> Float[Tensor, "B D h w"]:
    """A stack of layers on maps laid out for it.

    While nothing is learned, piece by piece: it takes no longer, and memory does not grow with
    the number of maps. In training a batch norm must see all of them.
    """
    if torch.is_grad_enabled() or layers.training or len(maps) <= PIECE:
        return cast(Tensor, layers(lay_out(maps, learning)))
    return torch.cat([layers(lay_out(piece)) for piece in maps.split(PIECE)])
