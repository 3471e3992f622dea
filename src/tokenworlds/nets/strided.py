"""Strided convolutions around residual blocks (Smaller World Models: Robine et al., 2023)."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, cast

from einops import pack, rearrange, unpack
from jaxtyping import Float
from torch import Tensor, nn

from tokenworlds.core.config import Component, ConfigOf
from tokenworlds.nets.fast.convolution import BatchNorm, BatchNormed
from tokenworlds.nets.fast.map_convolution import MapConvolution

Field = Literal["wide", "patch"]
"""The receptive field of a grid cell: most of the frame, or only its own pixels."""


class StridedEncoder(nn.Module, Component):
    """Convolutions of stride 2, residual blocks, and a 1x1 convolution."""

    @dataclass(frozen=True, kw_only=True, slots=True)
    class Config(ConfigOf["StridedEncoder"]):
        """`filters`: the channels after each halving; `blocks`: residual blocks after the last."""

        filters: tuple[int, ...] = (32, 64, 128, 256)
        blocks: int = 2
        field: Field = "wide"

        def __post_init__(self) -> None:
            if not self.filters:
                raise ValueError("filters needs a width for each halving, at least one")

        @property
        def kernel(self) -> int:
            """The kernel of layers that halve or double a map."""
            return 4 if self.field == "wide" else 2

        @property
        def reach(self) -> int:
            """The kernel of layers that keep a map's size."""
            return 3 if self.field == "wide" else 1

    def __init__(self, config: Config, *, channels: int, latent: int, normed: bool = True) -> None:
        """`normed`: end with a batch norm, without which the vectors of a codebook drift."""
        super().__init__()
        self.config = config
        self.layers = nn.Sequential()
        for before, after in pairwise((channels, *config.filters)):
            layer = nn.Conv2d(before, after, config.kernel, 2, config.kernel // 2 - 1, bias=False)
            self.layers.append(BatchNormed(layer, nn.LeakyReLU(inplace=True)))
        self.layers.extend(residual_blocks(config, normed=True))
        self.layers.append(nn.Conv2d(config.filters[-1], latent, 1, bias=not normed))
        if normed:
            self.layers.append(BatchNorm(latent))

    def forward(self, frames: Float[Tensor, "B C H W"]) -> Float[Tensor, "B D h w"]:
        return cast(Tensor, self.layers(frames))


class StridedDecoder(nn.Module):
    """The mirror of an encoder with this configuration, with biases and without norms."""

    def __init__(self, config: StridedEncoder.Config, *, channels: int, latent: int) -> None:
        super().__init__()
        widest, padding = config.filters[-1], config.kernel // 2 - 1
        first = MapConvolution(latent, widest, config.reach, bias=True)
        self.layers = nn.Sequential(first, nn.LeakyReLU(inplace=True))
        self.layers.extend(residual_blocks(config, normed=False))
        for before, after in pairwise((*reversed(config.filters), channels)):
            layer = nn.ConvTranspose2d(before, after, config.kernel, 2, padding)
            self.layers.extend([layer, nn.LeakyReLU(inplace=True)])
        self.layers.pop(-1)

    def forward(self, maps: Float[Tensor, "B D h w"]) -> Float[Tensor, "B C H W"]:
        """Frames without bounds."""
        return cast(Tensor, self.layers(maps))

    def decode(
        self, vector: Float[Tensor, "*rest K D"], height: int
    ) -> Float[Tensor, "*rest C H W"]:
        """Frames from cell vectors in raster order, on a grid of this height, in float32."""
        flat, lead = pack([vector], "* k d")
        maps = rearrange(flat, "b (h w) d -> b d h w", h=height)
        frames: list[Tensor] = unpack(self(maps).float(), lead, "* c h w")
        return frames[0]


class ResidualBlock(nn.Module):
    """A convolution over neighbours and a 1x1 convolution, added to the map."""

    def __init__(self, channels: int, reach: int, *, normed: bool) -> None:
        super().__init__()
        near = MapConvolution(channels, channels, reach, bias=not normed)
        single = nn.Conv2d(channels, channels, 1, bias=not normed)
        norms = [BatchNorm(channels) if normed else nn.Identity() for _ in range(2)]
        self.layers = nn.Sequential(near, norms[0], nn.ReLU(inplace=True), single, norms[1])

    def forward(self, maps: Float[Tensor, "B C H W"]) -> Float[Tensor, "B C H W"]:
        return cast(Tensor, maps + self.layers(maps))


def residual_blocks(config: StridedEncoder.Config, *, normed: bool) -> Iterator[nn.Module]:
    """The blocks of the smallest map, each with its activation."""
    for _ in range(config.blocks):
        yield ResidualBlock(config.filters[-1], config.reach, normed=normed)
        yield nn.LeakyReLU(inplace=True)
