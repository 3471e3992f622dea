"""Policies: the action distributions that a network's outputs stand for, and their temperature."""

import math
from dataclasses import dataclass

import torch
from einops import rearrange
from jaxtyping import Float
from torch import Generator, Tensor

from tokenworlds.core.precision import widen
from tokenworlds.core.sharing import rand
from tokenworlds.core.types import ActionSpace
from tokenworlds.nets.distributions import CategoricalDistribution

ROOT_TWO = math.sqrt(2.0)
LOG_ROOT_TWO_PI = 0.5 * math.log(2.0 * math.pi)
SCALES = (1e-3, 10.0)
"""At these scales a normal truncated at -1 and 1 is nearly a point and nearly uniform."""


@dataclass(frozen=True, slots=True)
class TruncatedNormal:
    """Independent normals truncated to [-1, 1], exactly normalised.

    Log-probability and entropy are sums over the components.
    """

    location: Float[Tensor, "*rest A"]
    scale: Float[Tensor, "*rest A"]

    def log_prob(self, value: Float[Tensor, "*rest A"]) -> Float[Tensor, "*rest"]:
        """The log-density of a vector inside the bounds."""
        standard = (value - self.location) / self.scale
        density = -0.5 * standard.square() - LOG_ROOT_TWO_PI - self.scale.log()
        return (density - self._mass().log()).sum(dim=-1)

    def _bounds(self) -> tuple[Tensor, Tensor]:
        return (-1 - self.location) / self.scale, (1 - self.location) / self.scale

    def _mass(self) -> Tensor:
        lower, upper = self._bounds()
        return (_cumulative(upper) - _cumulative(lower)).clamp_min(1e-8)

    @property
    def mean(self) -> Float[Tensor, "*rest A"]:
        lower, upper = self._bounds()
        return self.location + self.scale * (_density(lower) - _density(upper)) / self._mass()

    @property
    def mode(self) -> Float[Tensor, "*rest A"]:
        return self.location.clamp(-1, 1)

    def sample(self, generator: Generator | None) -> Float[Tensor, "*rest A"]:
        """Sample by inverting the distribution function."""
        lower, _ = self._bounds()
        share = rand(self.location.shape, generator=generator, device=self.location.device).to(
            self.location.dtype
        )
        place = _cumulative(lower) + share * self._mass()
        standard = ROOT_TWO * torch.erfinv((2 * place - 1).clamp(-1 + 1e-7, 1 - 1e-7))
        return (self.location + self.scale * standard).clamp(-1, 1)

    def entropy(self) -> Float[Tensor, "*rest"]:
        """The differential entropy, in nats."""
        lower, upper = self._bounds()
        mass = self._mass()
        tilt = (lower * _density(lower) - upper * _density(upper)) / (2 * mass)
        each = LOG_ROOT_TWO_PI + 0.5 + self.scale.log() + mass.log() + tilt
        return each.sum(dim=-1)

    def at_temperature(self, temperature: float) -> "TruncatedNormal":
        """Multiply the scale by a positive temperature."""
        return TruncatedNormal(self.location, (self.scale * temperature).clamp(*SCALES))


def _cumulative(x: Tensor) -> Tensor:
    return 0.5 * (1 + torch.erf(x / ROOT_TWO))


def _density(x: Tensor) -> Tensor:
    return torch.exp(-0.5 * x.square() - LOG_ROOT_TWO_PI)


Policy = CategoricalDistribution | TruncatedNormal


def policy_width(action_space: ActionSpace) -> int:
    return action_space.size if action_space.discrete else 2 * action_space.size


def policy_of(
    outputs: Float[Tensor, "*rest D"], action_space: ActionSpace, unimix: float = 0.0
) -> Policy:
    """The policy with these logits, or with these locations and scales before their activations."""
    if action_space.discrete:
        return CategoricalDistribution.of(outputs, unimix)
    location, scale = rearrange(widen(outputs), "... (two a) -> two ... a", two=2)
    return TruncatedNormal(torch.tanh(location), 0.1 + 0.9 * torch.sigmoid(scale + 2.0))


def choose(policy: Policy, temperature: float, generator: Generator | None) -> Tensor:
    """Sample an action for each row; temperature 0 takes the mode and no random number."""
    if temperature == 0.0:
        return policy.mode
    return at_temperature(policy, temperature).sample(generator)


def at_temperature(policy: Policy, temperature: float) -> Policy:
    """The policy, sharper below temperature 1 and flatter above it."""
    if temperature == 1.0:
        return policy
    if not temperature > 0.0:
        raise ValueError(f"temperature={temperature} of a policy must be greater than 0")
    return policy.at_temperature(temperature)
