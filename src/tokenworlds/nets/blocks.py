"""Stacks of convolutions and of linear layers."""

from collections.abc import Sequence
from typing import cast

from jaxtyping import Float
from torch import Tensor, nn

from tokenworlds.core.types import FrameShape


def group_norm(channels: int, groups: int) -> nn.GroupNorm:
    """Group normalisation; narrow layers get fewer groups."""
    return nn.GroupNorm(min(groups, channels), channels)


class ConvolutionEncoder(nn.Module):
    """Convolutions, each followed by a group norm and SiLU."""

    def __init__(
        self,
        channels: int,
        filters: Sequence[int],
        strides: Sequence[int],
        kernel: int,
        groups: int,
    ) -> None:
        super().__init__()
        widths = [channels, *filters]
        self.layers = nn.Sequential()
        for before, after, stride in zip(widths, filters, strides, strict=False):
            self.layers.append(nn.Conv2d(before, after, kernel, stride, padding=kernel // 2))
            self.layers.append(group_norm(after, groups))
            self.layers.append(nn.SiLU())

    def forward(self, frames: Float[Tensor, "B C H W"]) -> Float[Tensor, "B D h w"]:
        """Frames to a map."""
        return cast(Tensor, self.layers(frames))


class ConvolutionDecoder(nn.Module):
    """The mirror of the encoder; the last layer has neither norm nor activation."""

    def __init__(
        self,
        channels: int,
        filters: Sequence[int],
        strides: Sequence[int],
        kernel: int,
        groups: int,
    ) -> None:
        super().__init__()
        widths = [channels, *filters]
        self.layers = nn.Sequential()
        for index in reversed(range(len(filters))):
            before, after, stride = filters[index], widths[index], strides[index]
            layer = nn.ConvTranspose2d(
                before, after, kernel, stride, padding=kernel // 2, output_padding=stride - 1
            )
            self.layers.append(layer)
            if index > 0:
                self.layers.append(group_norm(after, groups))
                self.layers.append(nn.SiLU())

    def forward(self, maps: Float[Tensor, "B D h w"]) -> Float[Tensor, "B C H W"]:
        """A map to frames, unbounded."""
        return cast(Tensor, self.layers(maps))


def grid_of(frame_shape: FrameShape, strides: tuple[int, ...]) -> tuple[int, int]:
    """Height and width of the map that is left of a frame."""
    height, width = frame_shape.height, frame_shape.width
    for stride in strides:
        height, width = -(-height // stride), -(-width // stride)
    return height, width


class Perceptron(nn.Module):
    """Hidden layers with RMS norm and SiLU, then a linear output."""

    def __init__(self, inputs: int, hidden: Sequence[int], outputs: int) -> None:
        super().__init__()
        widths = [inputs, *hidden]
        self.layers = nn.Sequential()
        for before, after in zip(widths, hidden, strict=False):
            self.layers.append(nn.Linear(before, after))
            self.layers.append(nn.RMSNorm(after, eps=1e-5))
            self.layers.append(nn.SiLU())
        self.output = nn.Linear(widths[-1], outputs)

    def forward(self, x: Float[Tensor, "*rest D"]) -> Float[Tensor, "*rest E"]:
        """Map the last axis."""
        return cast(Tensor, self.output(self.layers(x)))


def shrink_output(network: Perceptron, factor: float) -> Perceptron:
    """Scale down the last layer, so that first predictions are near zero."""
    network.output.weight.data.mul_(factor)
    network.output.bias.data.zero_()
    return network
