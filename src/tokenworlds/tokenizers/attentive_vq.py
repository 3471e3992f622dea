"""Vector quantisation of a small map with attention (IRIS: Micheli et al., 2023, section 2.1)."""

from dataclasses import dataclass
from functools import cached_property, partial
from typing import Literal

import torch
from einops import pack, rearrange, unpack
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional

from tokenworlds.core.config import Component, ConfigOf
from tokenworlds.core.errors import UserError
from tokenworlds.core.precision import widen
from tokenworlds.core.types import Codes, Context, FrameShape, Losses
from tokenworlds.nets.code_statistics import code_histogram, usage_metrics
from tokenworlds.nets.codebook import place_apart, squared_distance
from tokenworlds.nets.perceptual import Perceptual, load_perceptual
from tokenworlds.nets.residual import halved
from tokenworlds.nets.spatial_attention import AttentiveDecoder, AttentiveEncoder
from tokenworlds.nets.straight_through import certain, straight_through

USAGE_DECAY = 0.9
LEFT_OUT = (
    "the perceptual loss of IRIS is left out, for no weights of LPIPS are given "
    "(world.tokenizer.perceptual_weights)"
)


class AttentiveVQ(nn.Module, Component):
    """A code for each site of the encoder's map; the codebook learns by gradient."""

    usage: Tensor

    @dataclass(frozen=True, kw_only=True, slots=True)
    class Config(ConfigOf["AttentiveVQ"]):
        """Choices. A map is halved between levels; those of a height in `attention` attend. With
        `perceptual_weights`, a file that `nets.perceptual` describes, there is one loss more.
        Codes used less than `revive_below` of an even share are placed anew on the data."""

        width: int = 64
        levels: int = 5
        blocks: int = 2
        attention: tuple[int, ...] = (16, 8)
        codes: int = 512
        code_width: int = 512
        error: Literal["absolute", "squared"] = "absolute"
        revive_below: float = 0.0
        perceptual_weights: str = ""

        def __post_init__(self) -> None:
            if self.levels < 1:
                raise ValueError(f"levels takes 1 or more, not {self.levels}")

    def __init__(self, config: Config, *, frame_shape: FrameShape) -> None:
        super().__init__()
        self.config = config
        self.grid = halved(frame_shape, config.levels - 1)
        self.tokens, self.vocabulary = self.grid[0] * self.grid[1], config.codes
        if config.perceptual_weights and frame_shape.channels != 3:
            raise UserError(f"perceptual_weights need 3 channels, not {frame_shape.channels}")
        self.remark = "" if config.perceptual_weights else LEFT_OUT
        channels, codes = frame_shape.channels, config.code_width
        heights = [frame_shape.height >> number for number in range(config.levels)]
        attends = [height in config.attention for height in heights]
        sizes = {"width": config.width, "blocks": config.blocks}
        self.encoder = AttentiveEncoder(channels, codes, attends=attends, **sizes)
        self.project = nn.Conv2d(codes, codes, 1)
        self.codebook = nn.Embedding(config.codes, codes)
        nn.init.uniform_(self.codebook.weight, -1 / config.codes, 1 / config.codes)
        self.register_buffer("usage", torch.zeros(config.codes))
        self.expand = nn.Conv2d(codes, codes, 1)
        self.decoder = AttentiveDecoder(channels, codes, attends=attends, **sizes)

    def encode(self, frames: Float[Tensor, "*rest C H W"], context: Context | None = None) -> Codes:
        """The nearest code of each site; the posterior is softmax(-distance^2)."""
        flat, lead = pack([2 * frames - 1], "* c h w")
        maps = self.project(self.encoder(flat))
        (vectors,) = unpack(rearrange(widen(maps), "b d h w -> b (h w) d"), lead, "* k d")
        # Codes move by their own loss only.
        distance = squared_distance(vectors, self.codebook.weight.detach())
        index = distance.argmin(dim=-1)
        logits = functional.log_softmax(-distance, dim=-1)
        return straight_through(index, logits, vectors, self.codebook(index))

    def look_up(self, index: Int[Tensor, "*rest K"]) -> Codes:
        """Certain codes."""
        return certain(index, self.codebook(index), self.vocabulary)

    def decode(self, codes: Codes, context: Context | None = None) -> Float[Tensor, "*rest C H W"]:
        """Frames in [0, 1]."""
        return ((self._draw(codes.vector) + 1) / 2).clamp(0, 1)

    def _draw(self, vector: Float[Tensor, "*rest K D"]) -> Float[Tensor, "*rest C H W"]:
        """Frames that are meant to be in [-1, 1]."""
        flat, lead = pack([vector], "* k d")
        maps = rearrange(flat, "b (h w) d -> b d h w", h=self.grid[0])
        frames: list[Tensor] = unpack(widen(self.decoder(self.expand(maps))), lead, "* c h w")
        return frames[0]

    def losses(
        self,
        frames: Float[Tensor, "B T C H W"],
        codes: Codes,
        mask: Bool[Tensor, "B T"],
        context: Context | None = None,
    ) -> Losses:
        """Means over the sites' vectors, and over pixels in [-1, 1]."""
        target, drawn = 2 * frames - 1, self._draw(codes.vector)
        error = target - drawn
        error = error.abs() if self.config.error == "absolute" else error.square()
        quantised = self.codebook(codes.index)
        terms = {
            "codebook": (codes.encoded.detach() - quantised).square().mean(dim=(-2, -1)),
            "commitment": (codes.encoded - quantised.detach()).square().mean(dim=(-2, -1)),
            "reconstruction": error.mean(dim=(-3, -2, -1)),
        }
        if self.config.perceptual_weights:
            terms["perceptual"] = self._unlikeness(target, drawn)
        histogram = code_histogram(codes.index, mask, self.vocabulary)
        revive = partial(self._revive, codes.encoded.detach(), mask, histogram)
        after = (revive,) if self.config.revive_below else ()
        return Losses(terms, dict.fromkeys(terms, mask), usage_metrics(histogram), after)

    def _revive(
        self,
        encoded: Float[Tensor, "B T K D"],
        mask: Bool[Tensor, "B T"],
        histogram: Float[Tensor, " V"],
    ) -> None:
        """Keep the running use of each code, in even shares, and place those anew that have none.

        One that was placed has an even share to begin with.
        """
        if not mask.any():
            return
        self.usage.lerp_(histogram / histogram.mean(), 1 - USAGE_DECAY)
        unused = self.usage < self.config.revive_below
        place_apart(self.codebook.weight, unused, rearrange(encoded[mask], "n k d -> (n k) d"))
        self.usage[unused] = 1.0

    def _unlikeness(
        self, left: Float[Tensor, "B T C H W"], right: Float[Tensor, "B T C H W"]
    ) -> Float[Tensor, "B T"]:
        one, lead = pack([left], "* c h w")
        other, _ = pack([right], "* c h w")
        distances: list[Tensor] = unpack(self._perceptual.to(left.device)(one, other), lead, "*")
        return distances[0]

    @cached_property
    def _perceptual(self) -> Perceptual:
        """Read when first learnt from, and no part of this module: playing needs no file, `train`
        does not wake its dropout, and it is neither counted nor saved."""
        return load_perceptual(self.config.perceptual_weights)
