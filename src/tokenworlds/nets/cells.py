"""Features of a frame's tokens that do not depend on where on the grid something happens."""

from dataclasses import dataclass

import torch
from einops import pack, rearrange, reduce, unpack
from jaxtyping import Float, Int
from torch import Tensor, nn

from tokenworlds.core.config import Component, ConfigOf
from tokenworlds.core.types import Cells
from tokenworlds.nets.blocks import ConvolutionEncoder


class CellSummary(nn.Module, Component):
    """Embedded tokens, convolutions over the grid, maximum and mean of each channel.

    A layer on the one-hots of all cells learns in every place anew what two things beside each
    other are worth. Convolutions learn it once.
    """

    @dataclass(frozen=True, kw_only=True, slots=True)
    class Config(ConfigOf["CellSummary"]):
        """`embedding` is the width of an embedded token; the others are of the convolutions."""

        embedding: int = 16
        filters: tuple[int, ...] = (32, 32)
        strides: tuple[int, ...] = (2, 1)
        kernel: int = 3
        groups: int = 4

    def __init__(self, config: Config, *, cells: Cells) -> None:
        super().__init__()
        self.height = cells.grid[0]
        self.width = 2 * config.filters[-1]
        self.embedding = nn.Embedding(cells.vocabulary, config.embedding)
        self.encoder = ConvolutionEncoder(
            config.embedding, config.filters, config.strides, config.kernel, config.groups
        )

    def forward(self, index: Int[Tensor, "*rest K"]) -> Float[Tensor, "*rest D"]:
        flat, lead = pack([index], "* k")
        maps = rearrange(self.embedding(flat), "b (h w) c -> b c h w", h=self.height)
        maps = self.encoder(maps)
        pooled = torch.cat([reduce(maps, "b c h w -> b c", how) for how in ("max", "mean")], -1)
        found: list[Tensor] = unpack(pooled, lead, "* d")
        return found[0]
