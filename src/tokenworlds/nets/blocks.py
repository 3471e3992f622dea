"""Stacks of convolutions and of linear layers, and their norms."""

from collections.abc import Sequence
from typing import Literal, cast

import torch
from jaxtyping import Float
from torch import Tensor, nn

from tokenworlds.core.errors import UserError
from tokenworlds.core.precision import widen
from tokenworlds.core.types import Feature, FrameShape
from tokenworlds.nets.fast.convolution import BatchNorm, BatchNormed, ConvolutionStack, NormedSiLU
from tokenworlds.nets.fast.tokens import map_feature

Style = Literal["silu", "relu"]
"""Norm and activation. `silu`: group or RMS norm (DreamerV3); `relu`: batch or layer norm, and no
bias before it (STORM)."""


class RMSNorm(nn.RMSNorm):
    """Computes in float32. Torch would keep the precision of a bfloat16 input here, and warn."""

    def forward(self, x: Float[Tensor, "*rest D"]) -> Float[Tensor, "*rest D"]:
        return super().forward(widen(x))


def finish_map(channels: int, groups: int, style: Style = "silu") -> nn.Module:
    """Norm and activation after a convolution: a batch norm if `groups` is 0, and at most one group
    per channel."""
    if has_batch_norm(groups, style):
        return nn.Sequential(BatchNorm(channels), activation(style))
    return NormedSiLU(min(groups, channels), channels)


def has_batch_norm(groups: int, style: Style) -> bool:
    return style == "relu" or groups == 0


def vector_norm(width: int, style: Style = "silu") -> nn.Module:
    return nn.LayerNorm(width) if style == "relu" else RMSNorm(width, eps=1e-5)


def activation(style: Style) -> nn.Module:
    return nn.ReLU(inplace=True) if style == "relu" else nn.SiLU()


class ConvolutionEncoder(ConvolutionStack):
    """Convolutions, each followed by a norm and an activation."""

    def __init__(
        self,
        channels: int,
        filters: Sequence[int],
        strides: Sequence[int],
        kernel: int,
        groups: int,
        style: Style = "silu",
    ) -> None:
        super().__init__()
        check_strides(kernel, strides)
        widths, biased = [channels, *filters], style == "silu"
        self.layers = nn.Sequential()
        for before, after, stride in zip(widths, filters, strides, strict=False):
            padding = (kernel - 1) // 2
            layer = nn.Conv2d(before, after, kernel, stride, padding=padding, bias=biased)
            if has_batch_norm(groups, style):
                self.layers.append(BatchNormed(layer, activation(style)))
            else:
                self.layers.extend([layer, finish_map(after, groups, style)])
        self.layout = fastest_layout(groups, style)


class ConvolutionDecoder(ConvolutionStack):
    """The mirror of `ConvolutionEncoder`; the last layer has neither norm nor activation."""

    def __init__(
        self,
        channels: int,
        filters: Sequence[int],
        strides: Sequence[int],
        kernel: int,
        groups: int,
        style: Style = "silu",
    ) -> None:
        super().__init__()
        check_strides(kernel, strides)
        widths, padding = [channels, *filters], (kernel - 1) // 2
        self.layers = nn.Sequential()
        for index in reversed(range(len(filters))):
            before, after, stride = filters[index], widths[index], strides[index]
            layer = nn.ConvTranspose2d(
                before,
                after,
                kernel,
                stride,
                padding=padding,
                output_padding=stride + 2 * padding - kernel,
                bias=style == "silu" or index == 0,
            )
            self.layers.append(layer)
            if index > 0:
                self.layers.append(finish_map(after, groups, style))
        self.layout = fastest_layout(groups, style)


def fastest_layout(groups: int, style: Style) -> torch.memory_format:
    """The memory format in which the norms of a stack learn fastest."""
    return torch.channels_last if has_batch_norm(groups, style) else torch.contiguous_format


def check_strides(kernel: int, strides: Sequence[int]) -> None:
    """An even kernel with stride 1 would make the map one pixel too small."""
    if kernel % 2 == 0 and any(stride == 1 for stride in strides):
        raise UserError(f"kernel={kernel} is even and needs strides of 2 throughout, not {strides}")


def grid_of(frame_shape: FrameShape, strides: tuple[int, ...]) -> tuple[int, int]:
    """Height and width of the map that strided convolutions make of a frame."""
    height, width = frame_shape.height, frame_shape.width
    for stride in strides:
        height, width = -(-height // stride), -(-width // stride)
    return height, width


class Perceptron(nn.Module):
    """Hidden layers, each with a norm and an activation, then a linear output."""

    def __init__(
        self, inputs: int, hidden: Sequence[int], outputs: int, style: Style = "silu"
    ) -> None:
        super().__init__()
        widths = [inputs, *hidden]
        self.layers = nn.Sequential()
        for before, after in zip(widths, hidden, strict=False):
            layer = nn.Linear(before, after, bias=style == "silu")
            self.layers.extend([layer, vector_norm(after, style), activation(style)])
        self.output = nn.Linear(widths[-1], outputs)

    def forward(self, x: Feature) -> Float[Tensor, "*rest E"]:
        """The output is in float32 or wider."""
        if not len(self.layers):
            return widen(map_feature(self.output, x))
        first, *others = self.layers
        hidden = map_feature(cast(nn.Linear, first), x)
        for layer in others:
            hidden = layer(hidden)
        return widen(cast(Tensor, self.output(hidden)))


def shrink_output(network: Perceptron, factor: float) -> Perceptron:
    """Scale down the last layer, so that the first predictions are near zero."""
    network.output.weight.data.mul_(factor)
    network.output.bias.data.zero_()
    return network
