"""Normal variables at each site instead of codes: the continuous ablation of Smaller World Models
(Robine et al., 2023; Kingma and Welling, 2014)."""

from dataclasses import dataclass, field

import torch
from einops import pack, rearrange, unpack
from jaxtyping import Bool, Float
from torch import Generator, Tensor, nn

from tokenworlds.core.config import Component, ConfigOf
from tokenworlds.core.types import Context, FrameShape, Latent, Losses
from tokenworlds.nets.continuous_bernoulli import FLOAT_STEP, ContinuousBernoulli
from tokenworlds.nets.residual import halved
from tokenworlds.nets.strided import StridedDecoder, StridedEncoder


class Gaussian(nn.Module, Component):
    """`width` independent normals for each site of the encoder's map; their prior is N(0, 1)."""

    @dataclass(frozen=True, kw_only=True, slots=True)
    class Config(ConfigOf["Gaussian"]):
        """Choices. `draws`: in learning a vector is drawn from the normals, and not their mean;
        `limit` bounds the density of pixels that are exactly 0 or 1 (None: exact)."""

        encoder: StridedEncoder.Config = field(default_factory=StridedEncoder.Config)
        width: int = 1
        draws: bool = True
        limit: float | None = FLOAT_STEP

    def __init__(self, config: Config, *, frame_shape: FrameShape) -> None:
        super().__init__()
        self.config = config
        self.grid = halved(frame_shape, len(config.encoder.filters))
        self.tokens, self.width = self.grid[0] * self.grid[1], config.width
        channels, outputs = frame_shape.channels, 2 * config.width
        # Here the prior keeps vectors bounded, and a norm over the batch would hinder it.
        self.encoder = config.encoder.build(channels=channels, latent=outputs, normed=False)
        self.decoder = StridedDecoder(config.encoder, channels=channels, latent=config.width)

    def encode(
        self,
        frames: Float[Tensor, "*rest C H W"],
        context: Context | None = None,
        generator: Generator | None = None,
    ) -> Latent:
        """The normals of each site, and a draw from them; without a generator, the global one's."""
        mean, log_variance = self._moments(frames)
        if not self.config.draws:
            return Latent(mean, mean, log_variance)
        noise = torch.empty_like(mean).normal_(generator=generator)
        return Latent(mean + (log_variance / 2).exp() * noise, mean, log_variance)

    def _moments(
        self, frames: Float[Tensor, "*rest C H W"]
    ) -> tuple[Float[Tensor, "*rest K D"], Float[Tensor, "*rest K D"]]:
        flat, lead = pack([frames], "* c h w")
        maps = rearrange(self.encoder(flat).float(), "b (n d) h w -> n b (h w) d", n=2)
        (mean,), (log_variance,) = (unpack(part, lead, "* k d") for part in maps)
        return mean, log_variance

    def look(self, frames: Float[Tensor, "*rest C H W"]) -> Float[Tensor, "*rest K D"]:
        """The mean, and nothing is drawn: to look again is to see the same."""
        return self._moments(frames)[0]

    def vectors(self, drawn: Float[Tensor, "*rest K D"]) -> Float[Tensor, "*rest K D"]:
        """What a prior draws are vectors already."""
        return drawn

    def decode(
        self, latent: Latent, context: Context | None = None
    ) -> Float[Tensor, "*rest C H W"]:
        """Frames in [0, 1]: the mean of each pixel."""
        return self.draw(latent.vector)

    def draw(self, vector: Float[Tensor, "*rest K D"]) -> Float[Tensor, "*rest C H W"]:
        """The same from vectors alone."""
        return self._pixels(vector).mean

    def _pixels(self, vector: Float[Tensor, "*rest K D"]) -> ContinuousBernoulli:
        return ContinuousBernoulli(self.decoder.draw(vector, self.grid[0]), self.config.limit)

    def losses(
        self,
        frames: Float[Tensor, "B T C H W"],
        latent: Latent,
        mask: Bool[Tensor, "B T"],
        context: Context | None = None,
    ) -> Losses:
        """Minus the log-likelihood of all pixels, and the sites' divergence from the prior."""
        likelihood = self._pixels(latent.vector).log_prob(frames)
        terms = {
            "reconstruction": -likelihood.sum(dim=(-3, -2, -1)),
            "kl": divergence(latent).sum(dim=(-2, -1)),
        }
        return Losses(terms, dict.fromkeys(terms, mask))


def divergence(latent: Latent) -> Float[Tensor, "*rest K D"]:
    """KL(N(mean, variance) || N(0, 1)), in nats."""
    variance = latent.log_variance.exp()
    return (latent.mean.square() + variance - 1 - latent.log_variance) / 2
