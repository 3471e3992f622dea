"""The categorical bottleneck: a frame as several one-hot variables (DreamerV2; STORM)."""

from dataclasses import dataclass
from math import prod
from typing import Literal

import torch
from einops import pack, rearrange, unpack
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from tokenworlds.core.config import Component, ConfigOf
from tokenworlds.core.precision import widen
from tokenworlds.core.types import Codes, Context, FrameShape, Losses, one_hots
from tokenworlds.nets.blocks import (
    ConvolutionDecoder,
    ConvolutionEncoder,
    Style,
    finish_map,
    grid_of,
)
from tokenworlds.nets.codebooks import code_histogram, usage_metrics
from tokenworlds.nets.distributions import mix_uniform, sample_index
from tokenworlds.nets.moving_pixels import weigh_moving


class Categorical(nn.Module, Component):
    """A linear layer turns the flattened map into the logits of several categoricals."""

    grid: tuple[int, int] | None = None

    @dataclass(frozen=True, kw_only=True, slots=True)
    class Config(ConfigOf["Categorical"]):
        """`output="linear"` leaves pixels unbounded in the loss (STORM); decoded frames are clamped
        to [0, 1] either way. `groups=0` means batch norm (DRAMA). Pixels that move have together
        `moving_share` of the weight of all pixels; with null, all weigh the same."""

        filters: tuple[int, ...] = (32, 64, 128, 256, 256)
        strides: tuple[int, ...] = (1, 2, 2, 2, 2)
        kernel: int = 5
        groups: int = 32
        style: Style = "silu"
        output: Literal["sigmoid", "linear"] = "sigmoid"
        categoricals: int = 32
        classes: int = 32
        unimix: float = 0.01
        moving_share: float | None = None

    def __init__(self, config: Config, *, frame_shape: FrameShape) -> None:
        super().__init__()
        self.config = config
        layers = (config.filters, config.strides, config.kernel, config.groups, config.style)
        self.map_shape = (config.filters[-1], *grid_of(frame_shape, config.strides))
        self.tokens, self.vocabulary = config.categoricals, config.classes
        outputs, biased = self.tokens * self.vocabulary, config.style == "silu"
        self.encoder = ConvolutionEncoder(frame_shape.channels, *layers)
        self.posterior = nn.Linear(prod(self.map_shape), outputs)
        self.expand = nn.Linear(outputs, prod(self.map_shape), bias=biased)
        self.norm = finish_map(config.filters[-1], config.groups, config.style)
        self.decoder = ConvolutionDecoder(frame_shape.channels, *layers)

    def encode(self, frames: Float[Tensor, "*rest C H W"], context: Context | None = None) -> Codes:
        """Codes are sampled from the posterior in training mode, else they are its mode."""
        flat, lead = pack([frames], "* c h w")
        maps = rearrange(self.encoder(flat), "b d h w -> b (d h w)")
        raw = rearrange(self.posterior(maps), "b (k v) -> b k v", k=self.tokens)
        (logits,) = unpack(mix_uniform(raw, self.config.unimix), lead, "* k v")
        index = sample_index(logits.detach(), None) if self.training else logits.argmax(dim=-1)
        hard = one_hots(index, self.vocabulary, logits.dtype)
        probs = logits.exp()
        sample = hard + probs - probs.detach()
        return Codes(index=index, logits=logits, sample=sample, vector=sample, encoded=sample)

    def look_up(self, index: Int[Tensor, "*rest K"]) -> Codes:
        hard = one_hots(index, self.vocabulary)
        return Codes(index, hard.clamp_min(1e-8).log(), hard, hard, hard)

    def decode(self, codes: Codes, context: Context | None = None) -> Float[Tensor, "*rest C H W"]:
        return self._decode(codes.vector).clamp(0, 1)

    def _decode(self, vector: Float[Tensor, "*rest K D"]) -> Float[Tensor, "*rest C H W"]:
        flat, lead = pack([rearrange(vector, "... k v -> ... (k v)")], "* d")
        _, height, width = self.map_shape
        maps = rearrange(self.expand(flat), "b (d h w) -> b d h w", h=height, w=width)
        pixels = widen(self.decoder(self.norm(maps)))
        if self.config.output == "sigmoid":
            pixels = torch.sigmoid(pixels)
        frames: list[Tensor] = unpack(pixels, lead, "* c h w")
        return frames[0]

    def losses(
        self,
        frames: Float[Tensor, "B T C H W"],
        codes: Codes,
        mask: Bool[Tensor, "B T"],
        context: Context | None = None,
    ) -> Losses:
        """Squared error, summed over pixels."""
        squares = (self._decode(codes.vector) - frames).square()
        error = weigh_moving(squares, frames, self.config.moving_share).sum(dim=(-3, -2, -1))
        metrics = usage_metrics(code_histogram(codes.index, mask, self.vocabulary))
        scales = {"reconstruction": 1.0}
        return Losses({"reconstruction": error}, {"reconstruction": mask}, metrics, scales=scales)
