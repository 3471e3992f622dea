"""Distributions that heads return; each owns its loss, and samples from a generator handed in."""

import math
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Generator, Tensor
from torch.nn import functional

from tokenworlds.core.precision import widen


def symlog(x: Tensor) -> Tensor:
    """sign(x) ln(1 + |x|): compresses both tails."""
    return torch.sign(x) * torch.log1p(torch.abs(x))


def symexp(x: Tensor) -> Tensor:
    """The inverse of symlog."""
    return torch.sign(x) * torch.expm1(torch.abs(x))


def mix_uniform(logits: Float[Tensor, "*rest V"], share: float) -> Float[Tensor, "*rest V"]:
    """Log-probabilities of (1 - share) softmax(logits) + share / V."""
    log_probs = functional.log_softmax(widen(logits), dim=-1)
    if share == 0.0:
        return log_probs
    floor = math.log(share / logits.shape[-1])
    return torch.logaddexp(log_probs + math.log1p(-share), torch.full_like(log_probs, floor))


def sample_index(
    log_probs: Float[Tensor, "*rest V"], generator: Generator | None
) -> Int[Tensor, "*rest"]:
    """Draw an index from each row."""
    return draw_index(log_probs.exp(), generator)


def draw_index(
    probs: Float[Tensor, "*rest V"], generator: Generator | None
) -> Int[Tensor, "*rest"]:
    """Draw by the inverse of the distribution function, which takes one random number a row."""
    reached = probs.cumsum(dim=-1)
    total = reached[..., -1:]
    chance = torch.rand(total.shape, generator=generator, dtype=probs.dtype, device=probs.device)
    index = torch.searchsorted(reached, chance * total, right=True)
    # Rounding may make the product equal the total: the last index is then meant. So it is where
    # odds are no numbers, of which the losses tell.
    return index.clamp_(max=probs.shape[-1] - 1).squeeze(-1)


def mixed_probs(logits: Float[Tensor, "*rest V"], share: float) -> Float[Tensor, "*rest V"]:
    """(1 - share) softmax(logits) + share / V, of which no logarithms are needed."""
    probs = functional.softmax(widen(logits), dim=-1)
    return probs if share == 0.0 else probs * (1 - share) + share / logits.shape[-1]


def kl_categorical(
    left: Float[Tensor, "*rest V"], right: Float[Tensor, "*rest V"]
) -> Float[Tensor, "*rest"]:
    """KL(left || right) of log-probabilities, in nats."""
    return (left.exp() * (left - right)).sum(dim=-1)


@dataclass(frozen=True, slots=True)
class Categorical:
    """One of V choices, with a share of uniform choice mixed in."""

    log_probs: Float[Tensor, "*rest V"]

    @staticmethod
    def of(logits: Float[Tensor, "*rest V"], unimix: float = 0.0) -> "Categorical":
        """From unnormalised logits."""
        return Categorical(mix_uniform(logits, unimix))

    def log_prob(self, value: Int[Tensor, "*rest"]) -> Float[Tensor, "*rest"]:
        """Of an index."""
        return self.log_probs.gather(-1, value.unsqueeze(-1)).squeeze(-1)

    def loss(self, target: Int[Tensor, "*rest"]) -> Float[Tensor, "*rest"]:
        """Cross-entropy."""
        return -self.log_prob(target)

    @property
    def mean(self) -> Float[Tensor, "*rest V"]:
        """The probabilities."""
        return self.log_probs.exp()

    @property
    def mode(self) -> Int[Tensor, "*rest"]:
        """The likeliest index."""
        return self.log_probs.argmax(dim=-1)

    def sample(self, generator: Generator | None) -> Int[Tensor, "*rest"]:
        """Draw an index."""
        return sample_index(self.log_probs, generator)

    def entropy(self) -> Float[Tensor, "*rest"]:
        """In nats."""
        return -(self.log_probs.exp() * self.log_probs).sum(dim=-1)


@dataclass(frozen=True, slots=True)
class Bernoulli:
    """A yes or no."""

    logit: Float[Tensor, "*rest"]

    def loss(self, target: Bool[Tensor, "*rest"]) -> Float[Tensor, "*rest"]:
        """Binary cross-entropy."""
        return functional.binary_cross_entropy_with_logits(
            self.logit, target.to(self.logit.dtype), reduction="none"
        )

    @property
    def mean(self) -> Float[Tensor, "*rest"]:
        """The probability of yes."""
        return torch.sigmoid(self.logit)

    @property
    def mode(self) -> Bool[Tensor, "*rest"]:
        """Whether yes is likelier."""
        return self.logit > 0

    def sample(self, generator: Generator | None) -> Bool[Tensor, "*rest"]:
        """Draw yes or no."""
        return torch.bernoulli(self.mean, generator=generator).bool()

    def entropy(self) -> Float[Tensor, "*rest"]:
        """In nats."""
        return self.mean * functional.softplus(-self.logit) + (1 - self.mean) * (
            functional.softplus(self.logit)
        )


@dataclass(frozen=True, slots=True)
class TwoHot:
    """A real number, as weights on bins that are evenly spaced in symlog (DreamerV3)."""

    logits: Float[Tensor, "*rest V"]
    low: float = -20.0
    high: float = 20.0

    @property
    def bins(self) -> Float[Tensor, " V"]:
        """Places of the bins, in symlog."""
        count = self.logits.shape[-1]
        return torch.linspace(
            self.low, self.high, count, device=self.logits.device, dtype=self.logits.dtype
        )

    def loss(self, target: Float[Tensor, "*rest"]) -> Float[Tensor, "*rest"]:
        """Cross-entropy against the two bins next to the target, weighted by nearness."""
        log_probs = functional.log_softmax(self.logits, dim=-1)
        count = self.logits.shape[-1]
        place = (symlog(target).clamp(self.low, self.high) - self.low) / (self.high - self.low)
        place = place * (count - 1)
        # A target that is no number must give a loss that is none, not an index out of bounds.
        below = place.nan_to_num().floor().clamp(0, count - 2).long()
        share = place - below
        lower = log_probs.gather(-1, below.unsqueeze(-1)).squeeze(-1)
        upper = log_probs.gather(-1, below.unsqueeze(-1) + 1).squeeze(-1)
        return -((1 - share) * lower + share * upper)

    @property
    def mean(self) -> Float[Tensor, "*rest"]:
        """The expected place, brought back from symlog."""
        return symexp((functional.softmax(self.logits, dim=-1) * self.bins).sum(dim=-1))

    @property
    def mode(self) -> Float[Tensor, "*rest"]:
        """The value of the heaviest bin."""
        return symexp(self.bins[self.logits.argmax(dim=-1)])

    def sample(self, generator: Generator | None) -> Float[Tensor, "*rest"]:
        """The value of a bin drawn by weight."""
        log_probs = functional.log_softmax(self.logits, dim=-1)
        return symexp(self.bins[sample_index(log_probs, generator)])

    def entropy(self) -> Float[Tensor, "*rest"]:
        """Of the bins, in nats."""
        return Categorical.of(self.logits).entropy()
