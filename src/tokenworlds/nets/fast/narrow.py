"""Convolutions and norms of maps with few channels, as in the smallest sizes of IRIS and Δ-IRIS.

Torch's kernels fill a vector register with channels. On fewer channels than that they compute
zeros, and a norm with one group per channel runs without vectors.
"""

from typing import Any, cast

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.autograd import Function
from torch.autograd.function import once_differentiable
from torch.nn import functional

from tokenworlds.nets.fast import eager_without_autocast

Maps = Float[Tensor, "B C H W"]
aten = torch.ops.aten

NARROW = 32
"""Maps up to this many channels have one group per channel, in the stacks of IRIS and Δ-IRIS."""
NARROW_CHUNK = 32
"""Maps convolved at a time at inference: a few channels of them fit a cache."""
LANES = 16
"""Channels that a vector register holds."""
LARGE = 1024
"""Cells from which torch's group norm with channels last is fast, and its convolutions need it."""


def lay_out_narrow(maps: Maps, cells: int | None = None) -> Maps:
    """Channels last on large maps, where convolutions gain most, and contiguous on small ones,
    where norms do. Wider maps, and those on other devices, keep their layout.

    `cells` is the size of the map that decides, if it is not this one.
    """
    large = (cells or maps.shape[2] * maps.shape[3]) >= LARGE
    if maps.shape[1] > (LANES if large else NARROW) or not eager_without_autocast(maps):
        return maps
    return maps.contiguous(memory_format=torch.channels_last if large else torch.contiguous_format)


class NarrowConvolution(nn.Conv2d):
    """A 3x3 convolution that keeps the size of a map.

    With few outputs, it computes several columns at once: as channels of one output cell, whose
    kernel is wider. Channels last in memory, these channels are the columns.
    """

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__(inputs, outputs, 3, padding=1)

    def forward(self, input: Maps) -> Float[Tensor, "B D H W"]:
        maps = lay_out_narrow(input) if self.out_channels <= LANES else input
        if not pays(maps, self.out_channels):
            return super().forward(maps)
        if not torch.is_grad_enabled():
            return convolve_columns(maps, self.weight, self.bias)
        return cast(Tensor, ConvolveColumns.apply(maps, self.weight, self.bias))  # type: ignore[no-untyped-call]


def plain_narrow_convolution(layer: nn.Conv2d, maps: Maps) -> Float[Tensor, "B D H W"]:
    return functional.conv2d(maps, layer.weight, layer.bias, padding=1)


def pays(maps: Maps, outputs: int) -> bool:
    return (
        maps.shape[1] <= LANES
        and columns_at_once(outputs, maps.shape[3]) > 1
        and maps.shape[2] * maps.shape[3] >= LARGE
        and maps.is_contiguous(memory_format=torch.channels_last)
        and eager_without_autocast(maps)
    )


def columns_at_once(outputs: int, width: int) -> int:
    """A power of two that divides the width; a register holds its columns."""
    count = 1
    while 2 * count * outputs <= LANES and width % (2 * count) == 0:
        count *= 2
    return count


def convolve_columns(
    maps: Maps, weight: Float[Tensor, "D C 3 3"], bias: Float[Tensor, " D"] | None
) -> Float[Tensor, "B D H W"]:
    count = columns_at_once(len(weight), maps.shape[3])
    shifted = [functional.pad(weight, (step, count - 1 - step)) for step in range(count)]
    biases = None if bias is None else bias.repeat(count)
    joint = functional.conv2d(maps, torch.cat(shifted), biases, stride=(1, count), padding=1)
    cells = joint.permute(0, 2, 3, 1).reshape(*maps.shape[:1], *maps.shape[2:], len(weight))
    return cells.permute(0, 3, 1, 2)


class ConvolveColumns(Function):
    """The gradient of the map is a convolution of the same kind."""

    @staticmethod
    def forward(ctx: Any, maps: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        ctx.save_for_backward(maps, weight)
        return convolve_columns(maps, weight, bias)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor, Tensor]:
        maps, weight = ctx.saved_tensors
        grad = grad.contiguous(memory_format=torch.channels_last)
        by_map = None
        if ctx.needs_input_grad[0]:
            by_map = convolve_columns(grad, weight.flip(-1, -2).transpose(0, 1), None)
        plain = ([1, 1], [1, 1], [1, 1], False, [0, 0], 1, [False, True, True])
        _, by_weight, by_bias = aten.convolution_backward(grad, maps, weight, [len(weight)], *plain)
        return by_map, by_weight, by_bias


TILE = 64
"""Numbers in a row of a tiled map. Torch broadcasts along rows, and short ones take their time."""
Tiles = Float[Tensor, "B rows tile"]
Channels = Float[Tensor, "B C"]


def tiles_narrow(maps: Maps, groups: int) -> bool:
    """Whether `NormChannels` applies: one group per channel, on large maps with channels last."""
    channels, cells = maps.shape[1], maps.shape[2] * maps.shape[3]
    return (
        channels == groups
        and TILE % channels == 0
        and cells >= LARGE
        and cells * channels % TILE == 0
        and maps.is_contiguous(memory_format=torch.channels_last)
        and eager_without_autocast(maps)
    )


def tile(maps: Maps) -> Tiles:
    """Rows of a few cells each, all channels of a cell side by side."""
    return maps.permute(0, 2, 3, 1).reshape(len(maps), -1, TILE)


def untile(tiles: Tiles, like: Maps) -> Maps:
    batch, channels, height, width = like.shape
    return tiles.view(batch, height, width, channels).permute(0, 3, 1, 2)


def spread(values: Channels) -> Float[Tensor, "B 1 tile"]:
    """One row of a tiled map with the value of each channel in its place."""
    return values.repeat(1, TILE // values.shape[1]).unsqueeze(1)


def total(tiles: Tiles, channels: int) -> Channels:
    return tiles.sum(1).view(len(tiles), -1, channels).sum(1)


class NormChannels(Function):
    """Group norm with one group per channel, then SiLU; the backward pass recomputes the norm."""

    @staticmethod
    def forward(ctx: Any, maps: Tensor, weight: Tensor, bias: Tensor, epsilon: float) -> Tensor:
        tiles, channels = tile(maps), maps.shape[1]
        cells = maps.shape[2] * maps.shape[3]
        mean = total(tiles, channels) / cells
        centred = tiles - spread(mean)
        deviation = (total(centred.square(), channels) / cells + epsilon).rsqrt()
        ctx.save_for_backward(maps, weight, bias, mean, deviation)
        normed = torch.addcmul(spread(bias[None]), centred, spread(deviation * weight))
        return untile(functional.silu(normed, inplace=True), maps)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, Tensor, None]:
        maps, weight, bias, mean, deviation = ctx.saved_tensors
        channels, cells = maps.shape[1], maps.shape[2] * maps.shape[3]
        scale = deviation * weight
        centred = tile(maps) - spread(mean)
        normed = torch.addcmul(spread(bias[None]), centred, spread(scale))
        outer = tile(grad.contiguous(memory_format=torch.channels_last))
        inner = aten.silu_backward(outer, normed)
        added, tilted = total(inner, channels), total(inner * centred, channels)
        tilt = scale * deviation.square() * tilted / cells
        back = torch.addcmul(spread(scale * added / -cells), centred, spread(-tilt))
        back.addcmul_(inner, spread(scale))
        return untile(back, maps), (tilted * deviation).sum(0), added.sum(0), None
