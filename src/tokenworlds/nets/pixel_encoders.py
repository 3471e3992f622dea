"""Frames to vectors for policies that look at pixels: the networks of IRIS and of Δ-IRIS."""

from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from einops import rearrange
from jaxtyping import Float
from torch import Tensor, nn

from tokenworlds.core.config import Component, ConfigOf
from tokenworlds.core.types import FrameShape
from tokenworlds.nets.map_layout import convolve
from tokenworlds.nets.residual import FrameEncoder, halved


@runtime_checkable
class PixelEncoder(Protocol):
    """Built from a frame's shape."""

    width: int

    def __call__(self, frames: Float[Tensor, "B C H W"]) -> Float[Tensor, "B D"]:
        """A vector for each frame in [0, 1]."""
        ...


class PoolingEncoder(nn.Module, Component):
    """Convolutions, each followed by the largest of every four sites (IRIS)."""

    @dataclass(frozen=True, kw_only=True, slots=True)
    class Config(ConfigOf["PoolingEncoder"]):
        """Choices."""

        filters: tuple[int, ...] = (32, 32, 64, 64)

    def __init__(self, config: Config, *, frame_shape: FrameShape) -> None:
        super().__init__()
        height, width = halved(frame_shape, len(config.filters))
        self.width = config.filters[-1] * height * width
        self.layers = nn.Sequential()
        before = frame_shape.channels
        for after in config.filters:
            layer = nn.Conv2d(before, after, 3, padding=1)
            self.layers.extend([layer, nn.MaxPool2d(2), nn.ReLU()])
            before = after

    def forward(self, frames: Float[Tensor, "B C H W"]) -> Float[Tensor, "B D"]:
        """The frames are read in [-1, 1]."""
        maps = convolve(self.layers, 2 * frames - 1)
        return rearrange(maps, "b c h w -> b (c h w)")


class ResidualEncoder(nn.Module, Component):
    """The residual convolutions of Δ-IRIS's tokenizer, with other widths."""

    @dataclass(frozen=True, kw_only=True, slots=True)
    class Config(ConfigOf["ResidualEncoder"]):
        """Choices."""

        layers: FrameEncoder.Config = field(
            default_factory=lambda: FrameEncoder.Config(width=32, latent=16)
        )

    def __init__(self, config: Config, *, frame_shape: FrameShape) -> None:
        super().__init__()
        height, width = halved(frame_shape, sum(config.layers.halvings))
        self.width = config.layers.latent * height * width
        self.layers = config.layers.build(channels=frame_shape.channels)

    def forward(self, frames: Float[Tensor, "B C H W"]) -> Float[Tensor, "B D"]:
        """The map, site by site."""
        maps: Tensor = self.layers(frames)
        return rearrange(maps, "b c h w -> b (h w c)")
