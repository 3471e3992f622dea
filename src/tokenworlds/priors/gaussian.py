"""Gaussian latents of the next frame, independent given the history (Smaller World Models,
continuous ablations)."""

import math
from dataclasses import dataclass
from functools import partial

import torch
from einops import rearrange
from jaxtyping import Bool, Float
from torch import Generator, Tensor, nn

from tokenworlds.core.config import Component, ConfigOf
from tokenworlds.core.errors import UserError
from tokenworlds.core.precision import widen
from tokenworlds.core.sharing import draw
from tokenworlds.core.types import GaussianLatent, Losses, masked_mean


class GaussianPrior(nn.Module, Component):
    """One linear layer from the history to means and log-variances."""

    @dataclass(frozen=True, kw_only=True, slots=True)
    class Config(ConfigOf["GaussianPrior"]):
        """`shared`: all cells share one layer, which maps each cell's slice of the history."""

        shared: bool = True

    def __init__(self, config: Config, *, width: int, tokens: int, code_width: int) -> None:
        super().__init__()
        if config.shared and width % tokens:
            raise UserError(
                f"shared=True of the Gaussian prior cannot split a history of {width} into "
                f"{tokens} equal slices, one per cell; use shared=False"
            )
        self.slices, self.code_width = tokens if config.shared else 1, code_width
        self.moments = nn.Linear(width // self.slices, tokens // self.slices * 2 * code_width)

    def predict(
        self, feature: Float[Tensor, "*rest D"]
    ) -> tuple[Float[Tensor, "*rest K E"], Float[Tensor, "*rest K E"]]:
        """Mean and log-variance of each cell."""
        slices = rearrange(feature, "... (s d) -> ... s d", s=self.slices)
        pairs = rearrange(
            widen(self.moments(slices)),
            "... s (k two e) -> two ... (s k) e",
            two=2,
            e=self.code_width,
        )
        mean, log_variance = pairs
        return mean, log_variance

    def losses(
        self, feature: Float[Tensor, "B T D"], latent: GaussianLatent, mask: Bool[Tensor, "B T"]
    ) -> Losses:
        """`dynamics` moves the prediction towards the sampled latents, which stay fixed."""
        mean, log_variance = self.predict(feature)
        squared = (latent.vector.detach() - mean).square()
        nll = 0.5 * (squared * (-log_variance).exp() + log_variance + math.log(2 * math.pi))
        metrics = {
            "latent_error": masked_mean(squared.detach().mean(dim=(-1, -2)), mask),
            "prior_variance": masked_mean(log_variance.detach().exp().mean(dim=(-1, -2)), mask),
        }
        terms = {"dynamics": nll.sum(dim=(-1, -2))}
        return Losses(terms, {"dynamics": mask}, metrics, scales={"dynamics": 1.0})

    @torch.no_grad()
    def sample(
        self, feature: Float[Tensor, "*rest D"], generator: Generator | None
    ) -> Float[Tensor, "*rest K E"]:
        mean, log_variance = self.predict(feature)
        noise = draw(partial(Tensor.normal_, generator=generator), torch.empty_like(mean))
        return mean + noise * (0.5 * log_variance).exp()
