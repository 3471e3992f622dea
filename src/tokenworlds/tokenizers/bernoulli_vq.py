"""Codes under a likelihood of pixels (Smaller World Models: Robine et al., 2023)."""

from dataclasses import dataclass, field
from functools import partial

from einops import pack, rearrange, unpack
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional

from tokenworlds.core.config import Component, ConfigOf
from tokenworlds.core.types import Codes, Context, FrameShape, Losses
from tokenworlds.nets.averaged_codebook import AveragedCodebook
from tokenworlds.nets.code_statistics import code_histogram, usage_metrics
from tokenworlds.nets.continuous_bernoulli import FLOAT_STEP, ContinuousBernoulli
from tokenworlds.nets.residual import halved
from tokenworlds.nets.straight_through import certain, straight_through
from tokenworlds.nets.strided import StridedDecoder, StridedEncoder


class BernoulliVQ(nn.Module, Component):
    """A code for each site of the encoder's map; pixels are continuous Bernoulli variables."""

    @dataclass(frozen=True, kw_only=True, slots=True)
    class Config(ConfigOf["BernoulliVQ"]):
        """Choices. `encoder` is mirrored by the decoder; `limit` bounds the density of pixels that
        are exactly 0 or 1 (None: exact)."""

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
        """The nearest code of each site; the posterior is softmax(-distance^2)."""
        flat, lead = pack([frames], "* c h w")
        maps = rearrange(self.encoder(flat).float(), "b d h w -> b (h w) d")
        (vectors,) = unpack(maps, lead, "* k d")
        distance = self.codebook.distance(vectors)
        index = distance.argmin(dim=-1)
        logits = functional.log_softmax(-distance, dim=-1)
        return straight_through(index, logits, vectors, self.codebook.look_up(index))

    def look(self, frames: Float[Tensor, "*rest C H W"]) -> Float[Tensor, "*rest K D"]:
        """The vectors of the codes alone."""
        return self.encode(frames).vector

    def vectors(self, drawn: Int[Tensor, "*rest K"]) -> Float[Tensor, "*rest K D"]:
        """Those of the codes that a prior draws."""
        return self.codebook.look_up(drawn)

    def look_up(self, index: Int[Tensor, "*rest K"]) -> Codes:
        """Certain codes."""
        return certain(index, self.codebook.look_up(index), self.vocabulary)

    def decode(self, codes: Codes, context: Context | None = None) -> Float[Tensor, "*rest C H W"]:
        """Frames in [0, 1]: the mean of each pixel."""
        return self.draw(codes.vector)

    def draw(self, vector: Float[Tensor, "*rest K D"]) -> Float[Tensor, "*rest C H W"]:
        """The same from vectors alone."""
        return self._pixels(vector).mean

    def _pixels(self, vector: Float[Tensor, "*rest K D"]) -> ContinuousBernoulli:
        return ContinuousBernoulli(self.decoder.draw(vector, self.grid[0]), self.config.limit)

    def losses(
        self,
        frames: Float[Tensor, "B T C H W"],
        codes: Codes,
        mask: Bool[Tensor, "B T"],
        context: Context | None = None,
    ) -> Losses:
        """Minus the log-likelihood of all pixels, and a mean over sites and widths."""
        likelihood = self._pixels(codes.vector).log_prob(frames)
        distance = codes.encoded - self.codebook.look_up(codes.index)
        terms = {
            "reconstruction": -likelihood.sum(dim=(-3, -2, -1)),
            "commitment": distance.square().mean(dim=(-2, -1)),
        }
        histogram = code_histogram(codes.index, mask, self.vocabulary)
        after = (partial(self._follow, codes, mask),)
        return Losses(terms, dict.fromkeys(terms, mask), usage_metrics(histogram), after)

    def _follow(self, codes: Codes, mask: Bool[Tensor, "B T"]) -> None:
        """Move the codebook to what was assigned to it."""
        self.codebook.update(codes.encoded.detach()[mask], codes.index[mask])
