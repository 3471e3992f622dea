"""Convolutions from a frame to one vector per grid cell, and back.

The base of tokenizers that differ only in how they quantise these vectors.
"""

from dataclasses import dataclass
from math import prod

import torch
from einops import pack, rearrange, unpack
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional

from tokenworlds.core.precision import widen
from tokenworlds.core.types import Codes, Context, FrameShape
from tokenworlds.nets.blocks import ConvolutionDecoder, ConvolutionEncoder, finish_map, grid_of
from tokenworlds.nets.codebooks import certain


@dataclass(frozen=True, kw_only=True, slots=True)
class GridConfig:
    """The convolutions, named as in `VQ`, so that they keep their sizes in a swap."""

    filters: tuple[int, ...] = (32, 64, 128, 256)
    strides: tuple[int, ...] = (1, 2, 2, 2)
    kernel: int = 5
    groups: int = 32


class GridMaps(nn.Module):
    """Encoder, decoder and the layers between them and vectors of `width`."""

    def __init__(self, config: GridConfig, *, frame_shape: FrameShape, width: int) -> None:
        super().__init__()
        stack = (frame_shape.channels, config.filters, config.strides, config.kernel, config.groups)
        channels = config.filters[-1]
        self.width = width
        self.encoder = ConvolutionEncoder(*stack)
        self.project = nn.Conv2d(channels, width, 1)
        self.expand = nn.Conv2d(width, channels, 1, bias=False)
        self.norm = finish_map(channels, config.groups)
        self.decoder = ConvolutionDecoder(*stack)
        self.map_size = grid_of(frame_shape, config.strides)
        self.cells = prod(self.map_size)

    def to_cells(self, frames: Float[Tensor, "*rest C H W"]) -> Float[Tensor, "*rest cells D"]:
        flat, lead = pack([frames], "* c h w")
        maps = rearrange(widen(self.project(self.encoder(flat))), "b d h w -> b (h w) d")
        cells: list[Tensor] = unpack(maps, lead, "* k d")
        return cells[0]

    def to_frames(self, cells: Float[Tensor, "*rest cells D"]) -> Float[Tensor, "*rest C H W"]:
        """Pixels in [0, 1]."""
        flat, lead = pack([cells], "* k d")
        maps = self.norm(self.expand(rearrange(flat, "b (h w) d -> b d h w", h=self.map_size[0])))
        frames: list[Tensor] = unpack(torch.sigmoid(widen(self.decoder(maps))), lead, "* c h w")
        return frames[0]


class FixedCodebook(GridMaps):
    """One code per cell, from a codebook that is not learned; `encode` chooses it."""

    codebook: Tensor

    def __init__(
        self, config: GridConfig, *, frame_shape: FrameShape, codes: Float[Tensor, "V D"]
    ) -> None:
        super().__init__(config, frame_shape=frame_shape, width=codes.shape[-1])
        self.grid = self.map_size
        self.tokens, self.vocabulary = self.cells, len(codes)
        self.register_buffer("codebook", codes)

    def encode(self, frames: Float[Tensor, "*rest C H W"], context: Context | None = None) -> Codes:
        raise NotImplementedError

    def encode_vectors(self, frames: Float[Tensor, "*rest C H W"]) -> Float[Tensor, "*rest K D"]:
        return self.encode(frames).vector

    def token_vectors(self, sampled: Int[Tensor, "*rest K"]) -> Float[Tensor, "*rest K D"]:
        return functional.embedding(sampled, self.codebook)

    def decode_vectors(self, vector: Float[Tensor, "*rest K D"]) -> Float[Tensor, "*rest C H W"]:
        return self.to_frames(vector)

    def look_up(self, index: Int[Tensor, "*rest K"]) -> Codes:
        return certain(index, self.token_vectors(index), self.vocabulary)

    def decode(self, codes: Codes, context: Context | None = None) -> Float[Tensor, "*rest C H W"]:
        return self.to_frames(codes.vector)


def pixel_error(
    decoded: Float[Tensor, "*rest C H W"], frames: Float[Tensor, "*rest C H W"]
) -> Float[Tensor, "*rest"]:
    """Squared, summed over pixels."""
    return (decoded - frames).square().sum(dim=(-3, -2, -1))
