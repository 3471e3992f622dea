"""A tokenizer of your own: finite scalar quantisation (Mentzer et al., 2023) on a grid.

tokenworlds train step-vq-t --set world.tokenizer=examples/my_tokenizer.py:FSQ
"""

from dataclasses import dataclass
from math import prod

import torch
from einops import pack, rearrange, unpack
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from tokenworlds.core.config import Component, ConfigOf
from tokenworlds.core.precision import widen
from tokenworlds.core.types import Codes, Context, FrameShape, Losses
from tokenworlds.nets.blocks import ConvolutionDecoder, ConvolutionEncoder, finish_map, grid_of
from tokenworlds.nets.codebooks import certain


class FSQ(nn.Module, Component):
    """Each grid cell is a vector of numbers in [-1, 1], each rounded to one of a few levels."""

    @dataclass(frozen=True, kw_only=True, slots=True)
    class Config(ConfigOf["FSQ"]):
        """The vocabulary is the product of `levels`. `sharpness` is that of the posterior, which
        the prior learns to predict. In a swap, fields that `VQ` has too keep their values."""

        levels: tuple[int, ...] = (4, 4, 2)
        sharpness: float = 32.0
        filters: tuple[int, ...] = (32, 64, 128)
        strides: tuple[int, ...] = (2, 2, 2)
        kernel: int = 3
        groups: int = 8

    def __init__(self, config: Config, *, frame_shape: FrameShape) -> None:
        super().__init__()
        self.config = config
        stack = (frame_shape.channels, config.filters, config.strides, config.kernel, config.groups)
        width, numbers = config.filters[-1], len(config.levels)
        self.encoder = ConvolutionEncoder(*stack)
        self.project = nn.Conv2d(width, numbers, 1)
        self.expand = nn.Sequential(nn.Conv2d(numbers, width, 1), finish_map(width, config.groups))
        self.decoder = ConvolutionDecoder(*stack)
        self.grid = grid_of(frame_shape, config.strides)
        self.tokens, self.vocabulary = prod(self.grid), prod(config.levels)
        values = [torch.linspace(-1, 1, count) for count in config.levels]
        self.codebook: Tensor
        self.register_buffer("codebook", torch.cartesian_prod(*values))

    def encode(self, frames: Float[Tensor, "*rest C H W"], context: Context | None = None) -> Codes:
        flat, lead = pack([frames], "* c h w")
        maps = torch.tanh(widen(self.project(self.encoder(flat))))
        (vectors,) = unpack(rearrange(maps, "b d h w -> b (h w) d"), lead, "* k d")
        distance = (vectors.unsqueeze(-2) - self.codebook).square().sum(dim=-1)
        logits = torch.log_softmax(-self.config.sharpness * distance, dim=-1)
        nearest, probs = self.look_up(distance.argmin(dim=-1)), logits.exp()
        return Codes(
            index=nearest.index,
            logits=logits,
            sample=nearest.sample + probs - probs.detach(),
            vector=vectors + (nearest.vector - vectors).detach(),
            encoded=vectors,
        )

    def look_up(self, index: Int[Tensor, "*rest K"]) -> Codes:
        return certain(index, self.codebook[index], self.vocabulary)

    def decode(self, codes: Codes, context: Context | None = None) -> Float[Tensor, "*rest C H W"]:
        flat, lead = pack([codes.vector], "* k d")
        maps = self.expand(rearrange(flat, "b (h w) d -> b d h w", h=self.grid[0]))
        (frames,) = unpack(torch.sigmoid(widen(self.decoder(maps))), lead, "* c h w")
        return frames

    def losses(
        self,
        frames: Float[Tensor, "B T C H W"],
        codes: Codes,
        mask: Bool[Tensor, "B T"],
        context: Context | None = None,
    ) -> Losses:
        error = (self.decode(codes) - frames).square().sum(dim=(-3, -2, -1))
        return Losses({"reconstruction": error}, {"reconstruction": mask})
