"""DreamerV3's layers: affine, RMS norm, SiLU; truncated normal weights (Hafner et al., 2023)."""

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import cast

import torch
from einops import rearrange
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from tokenworlds.core.errors import UserError
from tokenworlds.core.precision import widen
from tokenworlds.core.types import Feature, FrameShape, to_dense
from tokenworlds.nets.blocks import RMSNorm
from tokenworlds.nets.fast.convolution import lay_out
from tokenworlds.nets.fast.doubling import Doubling

EPSILON = 1e-4
TRUNCATION = 1.1368
"""The ratio of a normal's deviation before and after it is truncated at two deviations."""


def initialise(layer: nn.Module, fan_in: int) -> None:
    """Truncated normal weights of deviation 1/sqrt(fan_in), zero biases."""
    weight, bias = cast(Tensor, layer.weight), cast(Tensor, layer.bias)
    scale = TRUNCATION / math.sqrt(fan_in)
    nn.init.trunc_normal_(weight, std=scale, a=-2 * scale, b=2 * scale)
    nn.init.zeros_(bias)


def linear(inputs: int, outputs: int, scale: float = 1.0) -> nn.Linear:
    layer = nn.Linear(inputs, outputs)
    initialise(layer, inputs)
    layer.weight.data.mul_(scale)
    return layer


def convolution(inputs: int, outputs: int, kernel: int) -> nn.Conv2d:
    """Stride 1, same size."""
    layer = nn.Conv2d(inputs, outputs, kernel, padding=kernel // 2)
    initialise(layer, inputs * kernel * kernel)
    return layer


def doubling(inputs: int, outputs: int, kernel: int) -> Doubling:
    """Upsampling by two, then a convolution."""
    layer = Doubling(inputs, outputs, kernel)
    initialise(layer, inputs * kernel * kernel)
    return layer


class ChannelNorm(RMSNorm):
    """RMS norm over the channels of a map, fastest with channels last in memory."""

    def forward(self, maps: Float[Tensor, "B C H W"]) -> Float[Tensor, "B C H W"]:
        return super().forward(maps.movedim(1, -1)).movedim(-1, 1)


class BlockLinear(nn.Module):
    """A linear layer for each block of features: a block-diagonal matrix."""

    def __init__(self, inputs: int, outputs: int, blocks: int) -> None:
        super().__init__()
        self.blocks = blocks
        self.weight = nn.Parameter(torch.empty(blocks, inputs // blocks, outputs // blocks))
        self.bias = nn.Parameter(torch.empty(outputs))
        # The total input width counts, as in the released code.
        initialise(self, inputs)

    def forward(self, x: Float[Tensor, "B g i"]) -> Float[Tensor, "B g o"]:
        """Blocks along the second axis."""
        bias = rearrange(self.bias, "(g o) -> g o", g=self.blocks)
        return torch.einsum("bgi,gio->bgo", x, self.weight.to(x.dtype)) + bias


class MLP(nn.Module):
    """Hidden layers of one width, then a linear output in full precision."""

    def __init__(
        self, inputs: int, hidden: Sequence[int], outputs: int, output_scale: float = 1.0
    ) -> None:
        super().__init__()
        widths = [inputs, *hidden]
        self.layers = nn.ModuleList(linear(before, after) for before, after in pairwise(widths))
        self.norms = nn.ModuleList(RMSNorm(width, eps=EPSILON) for width in hidden)
        self.output = linear(widths[-1], outputs, output_scale)

    def forward(self, feature: Feature) -> Float[Tensor, "*rest E"]:
        x = to_dense(feature)
        for layer, norm in zip(self.layers, self.norms, strict=True):
            x = functional.silu(norm(layer(x)))
        return widen(cast(Tensor, self.output(x)))


class ImageEncoder(nn.Module):
    """Stages of convolution, max-pooling by two, norm and SiLU; the last map is flattened."""

    def __init__(self, channels: int, filters: Sequence[int], kernel: int) -> None:
        super().__init__()
        widths = [channels, *filters]
        self.layers = nn.ModuleList(
            convolution(before, after, kernel) for before, after in pairwise(widths)
        )
        self.norms = nn.ModuleList(ChannelNorm(width, eps=EPSILON) for width in filters)

    def forward(self, frames: Float[Tensor, "B C H W"]) -> Float[Tensor, "B D"]:
        x = lay_out(frames - 0.5, torch.channels_last)
        for layer, norm in zip(self.layers, self.norms, strict=True):
            x = functional.silu(norm(functional.max_pool2d(layer(x), 2)))
        return rearrange(x, "b c h w -> b (h w c)")


class ImageDecoder(nn.Module):
    """A map from both halves of the state, then stages of upsampling with convolution.

    Each block of the deterministic state makes its own channels of the first map.
    """

    def __init__(
        self,
        *,
        deter: int,
        stoch: int,
        hidden: int,
        blocks: int,
        channels: int,
        filters: Sequence[int],
        kernel: int,
        grid: tuple[int, int],
    ) -> None:
        super().__init__()
        self.blocks, self.grid, self.width = blocks, grid, filters[-1]
        size = grid[0] * grid[1] * filters[-1]
        self.from_deter = BlockLinear(deter, size, blocks)
        self.from_stoch = MLP(stoch, (2 * hidden,), size)
        self.norm = ChannelNorm(filters[-1], eps=EPSILON)
        widths = list(reversed(filters))
        self.layers = nn.ModuleList(
            doubling(before, after, kernel) for before, after in pairwise(widths)
        )
        self.norms = nn.ModuleList(ChannelNorm(width, eps=EPSILON) for width in widths[1:])
        self.output = doubling(widths[-1], channels, kernel)

    def forward(
        self, deter: Float[Tensor, "B D"], stoch: Float[Tensor, "B S"]
    ) -> Float[Tensor, "B C H W"]:
        """Frames in [0, 1]."""
        blocks = self.from_deter(rearrange(deter, "b (g d) -> b g d", g=self.blocks))
        height, width = self.grid
        x = rearrange(blocks, "b g (h w c) -> b (g c) h w", h=height, w=width)
        flat = self.from_stoch(stoch)
        x = x + rearrange(flat, "b (h w c) -> b c h w", h=height, w=width)
        x = functional.silu(self.norm(lay_out(x, torch.channels_last)))
        for layer, norm in zip(self.layers, self.norms, strict=True):
            x = functional.silu(norm(layer(x)))
        return torch.sigmoid(widen(self.output(x)))


def pooled(frame_shape: FrameShape, stages: int) -> tuple[int, int]:
    """The size of a frame after max-pooling by two in each stage."""
    parts = 2**stages
    if frame_shape.height % parts or frame_shape.width % parts:
        raise UserError(
            f"frames of {frame_shape.height}x{frame_shape.width} cannot be halved {stages} times: "
            f"resolution takes a multiple of {parts}, or world.multipliers fewer stages"
        )
    return frame_shape.height // parts, frame_shape.width // parts
