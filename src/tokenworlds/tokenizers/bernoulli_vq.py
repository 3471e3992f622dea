"""VQ codes with a continuous Bernoulli likelihood of pixels (Smaller World Models: Robine et al.,
2023)."""

from dataclasses import dataclass, field
from functools import partial

from einops import pack, rearrange, unpack
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional

from tokenworlds.core.config import Component, ConfigOf
from tokenworlds.core.types import Codes, Context, FrameShape, Losses
from tokenworlds.nets.codebooks import (
    AveragedCodebook,
    certain,
    code_histogram,
    straight_through,
    usage_metrics,
)
from tokenworlds.nets.distributions import FLOAT_STEP, ContinuousBernoulli
from tokenworlds.nets.residual import halved
from tokenworlds.nets.strided import StridedDecoder, StridedEncoder

SCALES = {"reconstruction": 1.0, "commitment": 0.25}


class BernoulliVQ(nn.Module, Component):
    """One code per cell of the encoder's map."""

    @dataclass(frozen=True, kw_only=True, slots=True)
    class Config(ConfigOf["BernoulliVQ"]):
        """The decoder mirrors `encoder`; `limit` bounds the density of pixels that are exactly 0 or
        1 (None: no bound)."""

        encoder: StridedEncoder.Config = field(default_factory=StridedEncoder.Config)
        codebook: AveragedCodebook.Config = field(default_factory=AveragedCodebook.Config)
        limit: float | None = FLOAT_STEP

    def __init__(self, config: Config, *, frame_shape: FrameShape) -> None:
        super().__init__()
        self.config = config
        self.grid = halved(frame_shape, len(config.encoder.filters))
        self.tokens, self.vocabulary = self.grid[0] * self.grid[1], config.codebook.codes
        self.width = config.codebook.width
        channels = frame_shape.channels
        self.encoder = config.encoder.build(channels=channels, latent=self.width)
        self.codebook = config.codebook.build()
        self.decoder = StridedDecoder(config.encoder, channels=channels, latent=self.width)

    def encode(self, frames: Float[Tensor, "*rest C H W"], context: Context | None = None) -> Codes:
        """The nearest code of each cell; the posterior is softmax(-distance^2)."""
        flat, lead = pack([frames], "* c h w")
        maps = rearrange(self.encoder(flat).float(), "b d h w -> b (h w) d")
        (vectors,) = unpack(maps, lead, "* k d")
        distance = self.codebook.distance(vectors)
        index = distance.argmin(dim=-1)
        logits = functional.log_softmax(-distance, dim=-1)
        return straight_through(index, logits, vectors, self.codebook.look_up(index))

    def encode_vectors(self, frames: Float[Tensor, "*rest C H W"]) -> Float[Tensor, "*rest K D"]:
        return self.encode(frames).vector

    def token_vectors(self, sampled: Int[Tensor, "*rest K"]) -> Float[Tensor, "*rest K D"]:
        return self.codebook.look_up(sampled)

    def decode_vectors(self, vector: Float[Tensor, "*rest K D"]) -> Float[Tensor, "*rest C H W"]:
        """The mean of each pixel."""
        return self._pixels(vector).mean

    def look_up(self, index: Int[Tensor, "*rest K"]) -> Codes:
        return certain(index, self.codebook.look_up(index), self.vocabulary)

    def decode(self, codes: Codes, context: Context | None = None) -> Float[Tensor, "*rest C H W"]:
        return self.decode_vectors(codes.vector)

    def _pixels(self, vector: Float[Tensor, "*rest K D"]) -> ContinuousBernoulli:
        return ContinuousBernoulli(self.decoder.decode(vector, self.grid[0]), self.config.limit)

    def losses(
        self,
        frames: Float[Tensor, "B T C H W"],
        codes: Codes,
        mask: Bool[Tensor, "B T"],
        context: Context | None = None,
    ) -> Losses:
        """The negative log-likelihood of all pixels, and a mean over cells and widths."""
        likelihood = self._pixels(codes.vector).log_prob(frames)
        distance = codes.encoded - self.codebook.look_up(codes.index)
        terms = {
            "reconstruction": -likelihood.sum(dim=(-3, -2, -1)),
            "commitment": distance.square().mean(dim=(-2, -1)),
        }
        metrics = usage_metrics(code_histogram(codes.index, mask, self.vocabulary))
        after = (partial(self.codebook.learn, codes, mask),)
        return Losses(terms, dict.fromkeys(terms, mask), metrics, after, SCALES)
