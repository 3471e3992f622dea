"""Vector quantisation on a grid (STEP-VQ, section 2.1; van den Oord et al., 2017)."""

from dataclasses import dataclass, field
from functools import partial

import torch
from einops import pack, rearrange, unpack
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from tokenworlds.core.config import Component, ConfigOf
from tokenworlds.core.precision import widen
from tokenworlds.core.types import Codes, Context, FrameShape, Losses, one_hots
from tokenworlds.nets.blocks import ConvolutionDecoder, ConvolutionEncoder, finish_map, grid_of
from tokenworlds.nets.codebooks import Codebook, certain, code_histogram, usage_metrics
from tokenworlds.nets.distributions import mix_uniform
from tokenworlds.nets.fast.convolution import lay_out
from tokenworlds.nets.moving_pixels import weigh_moving

SCALES = {"reconstruction": 1.0, "commitment": 0.25}
SMALLEST_ERROR = 1e-4
"""Of encodings that lie on their codes: keeps the gradient of the posterior finite."""


class VQ(nn.Module, Component):
    """One code per cell of the encoder's map: the nearest vector of a codebook."""

    @dataclass(frozen=True, kw_only=True, slots=True)
    class Config(ConfigOf["VQ"]):
        """`temperature` is beta of the soft posterior softmax(-beta distance^2 / error), where the
        error is the codebook's mean squared distance of an encoding to its code: a code that lies
        farther than the nearest one by this much is exp(-beta) times as likely, at any scale of the
        encodings. Pixels that move have together `moving_share` of the weight of all pixels in the
        reconstruction error; with null, all weigh the same."""

        filters: tuple[int, ...] = (32, 64, 128, 256)
        strides: tuple[int, ...] = (1, 2, 2, 2)
        kernel: int = 5
        groups: int = 32
        codebook: Codebook.Config = field(default_factory=Codebook.Config)
        temperature: float = 4.0
        unimix: float = 0.01
        moving_share: float | None = None

    def __init__(self, config: Config, *, frame_shape: FrameShape) -> None:
        super().__init__()
        self.config = config
        stack = (frame_shape.channels, config.filters, config.strides, config.kernel, config.groups)
        width, codes = config.filters[-1], config.codebook.width
        self.encoder = ConvolutionEncoder(*stack)
        self.project = nn.Conv2d(width, codes, 1)
        self.codebook = config.codebook.build()
        self.expand = nn.Conv2d(codes, width, 1, bias=False)
        self.norm = finish_map(width, config.groups)
        self.decoder = ConvolutionDecoder(*stack)
        self.grid = grid_of(frame_shape, config.strides)
        self.tokens = self.grid[0] * self.grid[1]
        self.vocabulary, self.width = config.codebook.codes, codes

    def encode(self, frames: Float[Tensor, "*rest C H W"], context: Context | None = None) -> Codes:
        """The nearest code of each cell, and the soft posterior from all distances."""
        flat, lead = pack([frames], "* c h w")
        maps = self.project(self.encoder(flat))
        (vectors,) = unpack(rearrange(widen(maps), "b d h w -> b (h w) d"), lead, "* k d")
        distance = self.codebook.distance(vectors)
        beta = self.config.temperature / self.codebook.error.clamp_min(SMALLEST_ERROR)
        logits = mix_uniform(-beta * distance, self.config.unimix)
        index = distance.argmin(dim=-1)
        hard = one_hots(index, self.vocabulary, logits.dtype)
        probs = logits.exp()
        quantised = self.codebook.look_up(index)
        return Codes(
            index=index,
            logits=logits,
            sample=hard + probs - probs.detach(),
            vector=vectors + (quantised - vectors).detach(),
            encoded=vectors,
        )

    def encode_vectors(self, frames: Float[Tensor, "*rest C H W"]) -> Float[Tensor, "*rest K D"]:
        return self.encode(frames).vector

    def token_vectors(self, sampled: Int[Tensor, "*rest K"]) -> Float[Tensor, "*rest K D"]:
        return self.codebook.look_up(sampled)

    def look_up(self, index: Int[Tensor, "*rest K"]) -> Codes:
        return certain(index, self.codebook.look_up(index), self.vocabulary)

    def decode(self, codes: Codes, context: Context | None = None) -> Float[Tensor, "*rest C H W"]:
        return self.decode_vectors(codes.vector)

    def decode_vectors(self, vector: Float[Tensor, "*rest K D"]) -> Float[Tensor, "*rest C H W"]:
        flat, lead = pack([vector], "* k d")
        maps = lay_out(rearrange(flat, "b (h w) d -> b d h w", h=self.grid[0]))
        maps = self.norm(self.expand(maps))
        frames: list[Tensor] = unpack(torch.sigmoid(widen(self.decoder(maps))), lead, "* c h w")
        return frames[0]

    def losses(
        self,
        frames: Float[Tensor, "B T C H W"],
        codes: Codes,
        mask: Bool[Tensor, "B T"],
        context: Context | None = None,
    ) -> Losses:
        """Squared errors, summed over pixels, and over cells and widths."""
        squares = (self.decode(codes) - frames).square()
        error = weigh_moving(squares, frames, self.config.moving_share).sum(dim=(-3, -2, -1))
        quantised = self.codebook.look_up(codes.index)
        commitment = (codes.encoded - quantised).square().sum(dim=(-2, -1))
        return Losses(
            {"reconstruction": error, "commitment": commitment},
            {"reconstruction": mask, "commitment": mask},
            usage_metrics(code_histogram(codes.index, mask, self.vocabulary)),
            (partial(self.codebook.learn, codes, mask),),
            SCALES,
        )
