"""A bounded continuous action: the normal distribution cut off at -1 and 1, exactly normalised."""

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Generator, Tensor

ROOT_TWO = math.sqrt(2.0)
LOG_ROOT_TWO_PI = 0.5 * math.log(2.0 * math.pi)


@dataclass(frozen=True, slots=True)
class TruncatedNormal:
    """Independent components on [-1, 1]; log-probability and entropy are summed over them."""

    location: Float[Tensor, "*rest A"]
    scale: Float[Tensor, "*rest A"]

    def log_prob(self, value: Float[Tensor, "*rest A"]) -> Float[Tensor, "*rest"]:
        """Density of a vector inside the bounds."""
        standard = (value - self.location) / self.scale
        density = -0.5 * standard.square() - LOG_ROOT_TWO_PI - self.scale.log()
        return (density - self._mass().log()).sum(dim=-1)

    def loss(self, target: Float[Tensor, "*rest A"]) -> Float[Tensor, "*rest"]:
        """Negative log-likelihood."""
        return -self.log_prob(target)

    def _bounds(self) -> tuple[Tensor, Tensor]:
        return (-1 - self.location) / self.scale, (1 - self.location) / self.scale

    def _mass(self) -> Tensor:
        lower, upper = self._bounds()
        return (_cumulative(upper) - _cumulative(lower)).clamp_min(1e-8)

    @property
    def mean(self) -> Float[Tensor, "*rest A"]:
        """Of the truncated distribution."""
        lower, upper = self._bounds()
        return self.location + self.scale * (_density(lower) - _density(upper)) / self._mass()

    @property
    def mode(self) -> Float[Tensor, "*rest A"]:
        """The location, if it lies inside the bounds."""
        return self.location.clamp(-1, 1)

    def sample(self, generator: Generator | None) -> Float[Tensor, "*rest A"]:
        """By the inverse of the cumulative distribution."""
        lower, _ = self._bounds()
        share = torch.rand(
            self.location.shape, generator=generator, device=self.location.device
        ).to(self.location.dtype)
        place = _cumulative(lower) + share * self._mass()
        standard = ROOT_TWO * torch.erfinv((2 * place - 1).clamp(-1 + 1e-7, 1 - 1e-7))
        return (self.location + self.scale * standard).clamp(-1, 1)

    def entropy(self) -> Float[Tensor, "*rest"]:
        """Differential entropy of the truncated distribution."""
        lower, upper = self._bounds()
        mass = self._mass()
        tilt = (lower * _density(lower) - upper * _density(upper)) / (2 * mass)
        each = LOG_ROOT_TWO_PI + 0.5 + self.scale.log() + mass.log() + tilt
        return each.sum(dim=-1)


def _cumulative(x: Tensor) -> Tensor:
    return 0.5 * (1 + torch.erf(x / ROOT_TWO))


def _density(x: Tensor) -> Tensor:
    return torch.exp(-0.5 * x.square() - LOG_ROOT_TWO_PI)
