"""Finite scalar quantisation (Mentzer et al., 2023): a codebook that is a grid of numbers.

Each cell of the encoder's map is a few numbers in [-1, 1], each rounded to the nearest of its
levels. Nothing but the convolutions is learned, and every code can be reached.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from tokenworlds.core.config import Component, ConfigOf
from tokenworlds.core.types import Codes, Context, FrameShape, Losses
from tokenworlds.nets.codebooks import (
    code_histogram,
    squared_distance,
    straight_through,
    usage_metrics,
)
from tokenworlds.nets.distributions import mix_uniform
from tokenworlds.nets.grid_maps import FixedCodebook, GridConfig, pixel_error


class FSQ(FixedCodebook, Component):
    """One code per cell: the nearest point of the product of all levels."""

    @dataclass(frozen=True, kw_only=True, slots=True)
    class Config(GridConfig, ConfigOf["FSQ"]):
        """The vocabulary is the product of `levels`. `sharpness` is beta of the posterior
        softmax(-beta distance^2), which the prior learns to predict; it is mixed with the uniform
        distribution by `unimix`."""

        levels: tuple[int, ...] = (4, 4, 4)
        sharpness: float = 32.0
        unimix: float = 0.01

        def __post_init__(self) -> None:
            if not self.levels or min(self.levels) < 2:
                raise ValueError(f"levels={self.levels} takes numbers of 2 or more")

    def __init__(self, config: Config, *, frame_shape: FrameShape) -> None:
        super().__init__(config, frame_shape=frame_shape, codes=product_grid(config.levels))
        self.config = config

    def encode(self, frames: Float[Tensor, "*rest C H W"], context: Context | None = None) -> Codes:
        """The nearest code of each cell, and the soft posterior from all distances."""
        vectors = torch.tanh(self.to_cells(frames))
        distance = squared_distance(vectors, self.codebook)
        logits = mix_uniform(-self.config.sharpness * distance, self.config.unimix)
        index = distance.argmin(dim=-1)
        return straight_through(index, logits, vectors, self.token_vectors(index))

    def losses(
        self,
        frames: Float[Tensor, "B T C H W"],
        codes: Codes,
        mask: Bool[Tensor, "B T"],
        context: Context | None = None,
    ) -> Losses:
        terms = {"reconstruction": pixel_error(self.decode(codes), frames)}
        metrics = usage_metrics(code_histogram(codes.index, mask, self.vocabulary))
        return Losses(terms, {"reconstruction": mask}, metrics)


def product_grid(levels: tuple[int, ...]) -> Float[Tensor, "V D"]:
    """All combinations of evenly spaced numbers in [-1, 1]; the last number changes fastest."""
    numbers = [torch.linspace(-1, 1, count) for count in levels]
    return torch.stack(torch.meshgrid(*numbers, indexing="ij"), dim=-1).flatten(0, -2)
