"""Continuous latents of the next frame, independent Gaussians given the history (Smaller World
Models, continuous ablations)."""

import math
from dataclasses import dataclass

import torch
from einops import rearrange
from jaxtyping import Bool, Float
from torch import Generator, Tensor, nn

from tokenworlds.core.config import Component, ConfigOf
from tokenworlds.core.errors import UserError
from tokenworlds.core.precision import widen
from tokenworlds.core.types import Latent, Losses, masked_mean


class Gaussian(nn.Module, Component):
    """One linear map to mean and log-variance, from each site's share of the history or from the
    whole of it."""

    @dataclass(frozen=True, kw_only=True, slots=True)
    class Config(ConfigOf["Gaussian"]):
        """With `shared` all sites have one map, each from its own share of the history."""

        shared: bool = True

    def __init__(self, config: Config, *, width: int, tokens: int, code_width: int) -> None:
        super().__init__()
        if config.shared and width % tokens:
            raise UserError(
                f"shared=True of the Gaussian prior cuts a history of {width} into {tokens} "
                "shares, one a site, and they do not come out even; shared=False takes any width"
            )
        self.shares, self.code_width = tokens if config.shared else 1, code_width
        self.moments = nn.Linear(width // self.shares, tokens // self.shares * 2 * code_width)

    def predict(
        self, feature: Float[Tensor, "*rest D"]
    ) -> tuple[Float[Tensor, "*rest K E"], Float[Tensor, "*rest K E"]]:
        """Mean and log-variance at each site."""
        shares = rearrange(feature, "... (s d) -> ... s d", s=self.shares)
        pairs = rearrange(
            widen(self.moments(shares)),
            "... s (k two e) -> two ... (s k) e",
            two=2,
            e=self.code_width,
        )
        mean, log_variance = pairs
        return mean, log_variance

    def losses(
        self, feature: Float[Tensor, "B T D"], latent: Latent, mask: Bool[Tensor, "B T"]
    ) -> Losses:
        """`dynamics` moves the prediction to the latents that were drawn, and not them to it."""
        mean, log_variance = self.predict(feature)
        squared = (latent.vector.detach() - mean).square()
        surprise = 0.5 * (squared * (-log_variance).exp() + log_variance + math.log(2 * math.pi))
        metrics = {
            "latent_error": masked_mean(squared.detach().mean(dim=(-1, -2)), mask),
            "prior_variance": masked_mean(log_variance.detach().exp().mean(dim=(-1, -2)), mask),
        }
        return Losses({"dynamics": surprise.sum(dim=(-1, -2))}, {"dynamics": mask}, metrics)

    @torch.no_grad()
    def sample(
        self, feature: Float[Tensor, "*rest D"], generator: Generator | None
    ) -> Float[Tensor, "*rest K E"]:
        """Draw every number by itself."""
        mean, log_variance = self.predict(feature)
        noise = torch.empty_like(mean).normal_(generator=generator)
        return mean + noise * (0.5 * log_variance).exp()
