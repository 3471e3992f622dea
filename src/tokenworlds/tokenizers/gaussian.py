"""Gaussian latents instead of codes: the continuous ablation of Smaller World Models (Robine et
al., 2023; Kingma and Welling, 2014)."""

from dataclasses import dataclass, field

import torch
from einops import pack, rearrange, unpack
from jaxtyping import Bool, Float
from torch import Tensor, nn

from tokenworlds.core.config import Component, ConfigOf
from tokenworlds.core.sharing import draw
from tokenworlds.core.types import Context, FrameShape, GaussianLatent, Losses
from tokenworlds.nets.distributions import FLOAT_STEP, ContinuousBernoulli
from tokenworlds.nets.residual import halved
from tokenworlds.nets.strided import StridedDecoder, StridedEncoder


class GaussianTokenizer(nn.Module, Component):
    """`width` independent normals for each cell of the encoder's map, with prior N(0, 1)."""

    @dataclass(frozen=True, kw_only=True, slots=True)
    class Config(ConfigOf["GaussianTokenizer"]):
        """`samples`: encode to a sample from the normals instead of their mean. `limit` bounds the
        density of pixels that are exactly 0 or 1 (None: no bound)."""

        encoder: StridedEncoder.Config = field(default_factory=StridedEncoder.Config)
        width: int = 1
        samples: bool = True
        limit: float | None = FLOAT_STEP

    def __init__(self, config: Config, *, frame_shape: FrameShape) -> None:
        super().__init__()
        self.config = config
        self.grid = halved(frame_shape, len(config.encoder.filters))
        self.tokens, self.width = self.grid[0] * self.grid[1], config.width
        channels, outputs = frame_shape.channels, 2 * config.width
        # The KL term keeps the vectors bounded; a final batch norm would hinder it.
        self.encoder = config.encoder.build(channels=channels, latent=outputs, normed=False)
        self.decoder = StridedDecoder(config.encoder, channels=channels, latent=config.width)

    def encode(
        self, frames: Float[Tensor, "*rest C H W"], context: Context | None = None
    ) -> GaussianLatent:
        """The normals of each cell, and a sample from them."""
        mean, log_variance = self._moments(frames)
        if not self.config.samples:
            return GaussianLatent(mean, mean, log_variance)
        noise = draw(torch.randn_like, mean)
        return GaussianLatent(mean + (log_variance / 2).exp() * noise, mean, log_variance)

    def _moments(
        self, frames: Float[Tensor, "*rest C H W"]
    ) -> tuple[Float[Tensor, "*rest K D"], Float[Tensor, "*rest K D"]]:
        flat, lead = pack([frames], "* c h w")
        maps = rearrange(self.encoder(flat).float(), "b (n d) h w -> n b (h w) d", n=2)
        (mean,), (log_variance,) = (unpack(part, lead, "* k d") for part in maps)
        return mean, log_variance

    def encode_vectors(self, frames: Float[Tensor, "*rest C H W"]) -> Float[Tensor, "*rest K D"]:
        """The mean: equal frames give equal vectors."""
        return self._moments(frames)[0]

    def token_vectors(self, sampled: Float[Tensor, "*rest K D"]) -> Float[Tensor, "*rest K D"]:
        """The Gaussian prior samples vectors already."""
        return sampled

    def decode_vectors(self, vector: Float[Tensor, "*rest K D"]) -> Float[Tensor, "*rest C H W"]:
        """The mean of each pixel."""
        return self._pixels(vector).mean

    def decode(
        self, latent: GaussianLatent, context: Context | None = None
    ) -> Float[Tensor, "*rest C H W"]:
        return self.decode_vectors(latent.vector)

    def _pixels(self, vector: Float[Tensor, "*rest K D"]) -> ContinuousBernoulli:
        return ContinuousBernoulli(self.decoder.decode(vector, self.grid[0]), self.config.limit)

    def losses(
        self,
        frames: Float[Tensor, "B T C H W"],
        latent: GaussianLatent,
        mask: Bool[Tensor, "B T"],
        context: Context | None = None,
    ) -> Losses:
        """The negative log-likelihood of all pixels, and the KL divergence from the prior."""
        likelihood = self._pixels(latent.vector).log_prob(frames)
        terms = {
            "reconstruction": -likelihood.sum(dim=(-3, -2, -1)),
            "kl": divergence(latent).sum(dim=(-2, -1)),
        }
        scales = {"reconstruction": 1.0, "kl": 1.0}
        return Losses(terms, dict.fromkeys(terms, mask), scales=scales)


def divergence(latent: GaussianLatent) -> Float[Tensor, "*rest K D"]:
    """KL(N(mean, variance) || N(0, 1)), in nats."""
    variance = latent.log_variance.exp()
    return (latent.mean.square() + variance - 1 - latent.log_variance) / 2
