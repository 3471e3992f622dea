"""Distributions returned by heads and decoders; each has its own loss."""

import math
from dataclasses import dataclass
from functools import partial
from typing import Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Generator, Tensor
from torch.nn import functional

from tokenworlds.core.constants import spaced
from tokenworlds.core.precision import widen
from tokenworlds.core.sharing import draw, rand
from tokenworlds.nets.fast import eager_on_device

Bins = Literal["symlog", "symexp"]
"""How two-hot bins are placed. `symlog`: evenly in symlog space, where targets are split and the
mean is taken. `symexp`: at the symexp of even spacing, with targets and mean in raw units, so that
the mean is exact for rare large outcomes too (DreamerV3, 2024)."""

ValueKind = Literal["two-hot", "scalar"]
"""A critic's output: two-hot logits over 255 bins, or the value itself."""

FLOAT_STEP = 23 * math.log(2)
"""The logit of a probability one float32 step below 1."""

NEAR = 0.5
"""Below this magnitude of a logit the continuous Bernoulli uses series: the closed forms and their
gradients lose all digits to cancellation there."""


def symlog(x: Tensor) -> Tensor:
    """sign(x) ln(1 + |x|)"""
    return torch.sign(x) * torch.log1p(torch.abs(x))


def symexp(x: Tensor) -> Tensor:
    return torch.sign(x) * torch.expm1(torch.abs(x))


def mix_uniform(logits: Float[Tensor, "*rest V"], share: float) -> Float[Tensor, "*rest V"]:
    """Log-probabilities of (1 - share) softmax(logits) + share / V."""
    log_probs = functional.log_softmax(widen(logits), dim=-1)
    if share == 0.0:
        return log_probs
    floor = math.log(share / logits.shape[-1])
    return torch.logaddexp(log_probs + math.log1p(-share), torch.full_like(log_probs, floor))


def mixed_probs(logits: Float[Tensor, "*rest V"], share: float) -> Float[Tensor, "*rest V"]:
    """(1 - share) softmax(logits) + share / V, without the logarithms of `mix_uniform`."""
    probs = functional.softmax(widen(logits), dim=-1)
    return probs if share == 0.0 else probs * (1 - share) + share / logits.shape[-1]


def sample_index(
    log_probs: Float[Tensor, "*rest V"], generator: Generator | None, temperature: float = 1.0
) -> Int[Tensor, "*rest"]:
    return sample_from_probs(log_probs.exp(), generator, temperature)


def sample_from_probs(
    probs: Float[Tensor, "*rest V"], generator: Generator | None, temperature: float = 1.0
) -> Int[Tensor, "*rest"]:
    """Sample by inverting the distribution function, which takes one random number per row.

    Below a temperature of 1, likely indices become more likely.
    """
    if temperature != 1.0:
        # The largest one becomes 1 first: the others alone underflow at small temperatures.
        probs = (probs / probs.amax(dim=-1, keepdim=True)) ** (1 / temperature)
        probs = probs / probs.sum(dim=-1, keepdim=True)
    reached = probs.cumsum(dim=-1)
    total = reached[..., -1:]
    chance = rand(total.shape, generator=generator, dtype=probs.dtype, device=probs.device)
    # A launch less on a device, where a total that is 1 but for rounding may count as 1.
    drawn = chance if eager_on_device(probs) else chance * total
    index = torch.searchsorted(reached, drawn, right=True)
    # Rounding may make the product equal the total, and NaN probabilities (which the losses report)
    # find no index: both give the last one.
    return index.clamp_(max=probs.shape[-1] - 1).squeeze(-1)


def kl_categorical(
    left: Float[Tensor, "*rest V"], right: Float[Tensor, "*rest V"]
) -> Float[Tensor, "*rest"]:
    """KL(left || right) of log-probabilities, in nats."""
    return (left.exp() * (left - right)).sum(dim=-1)


@dataclass(frozen=True, slots=True)
class CategoricalDistribution:
    """One of V classes."""

    log_probs: Float[Tensor, "*rest V"]

    @staticmethod
    def of(logits: Float[Tensor, "*rest V"], unimix: float = 0.0) -> "CategoricalDistribution":
        """From unnormalised logits, with a share of the uniform distribution mixed in."""
        return CategoricalDistribution(mix_uniform(logits, unimix))

    def log_prob(self, value: Int[Tensor, "*rest"]) -> Float[Tensor, "*rest"]:
        return self.log_probs.gather(-1, value.unsqueeze(-1)).squeeze(-1)

    def loss(self, target: Int[Tensor, "*rest"]) -> Float[Tensor, "*rest"]:
        return -self.log_prob(target)

    @property
    def mean(self) -> Float[Tensor, "*rest V"]:
        """The probabilities."""
        return self.log_probs.exp()

    @property
    def mode(self) -> Int[Tensor, "*rest"]:
        return self.log_probs.argmax(dim=-1)

    def sample(self, generator: Generator | None) -> Int[Tensor, "*rest"]:
        return sample_index(self.log_probs, generator)

    def entropy(self) -> Float[Tensor, "*rest"]:
        return -(self.log_probs.exp() * self.log_probs).sum(dim=-1)

    def at_temperature(self, temperature: float) -> "CategoricalDistribution":
        """Divide the logits by a positive temperature."""
        # The largest logit becomes 0 first: the others alone overflow at tiny temperatures.
        lead = self.log_probs - torch.amax(self.log_probs, dim=-1, keepdim=True)
        return CategoricalDistribution(functional.log_softmax(lead / temperature, dim=-1))


@dataclass(frozen=True, slots=True)
class Bernoulli:
    """True with probability sigmoid(logit)."""

    logit: Float[Tensor, "*rest"]

    def loss(self, target: Bool[Tensor, "*rest"]) -> Float[Tensor, "*rest"]:
        return functional.binary_cross_entropy_with_logits(
            self.logit, target.to(self.logit.dtype), reduction="none"
        )

    @property
    def mean(self) -> Float[Tensor, "*rest"]:
        """The probability of True."""
        return torch.sigmoid(self.logit)

    @property
    def mode(self) -> Bool[Tensor, "*rest"]:
        return self.logit > 0

    def sample(self, generator: Generator | None) -> Bool[Tensor, "*rest"]:
        return draw(partial(torch.bernoulli, generator=generator), self.mean).bool()

    def entropy(self) -> Float[Tensor, "*rest"]:
        return self.mean * functional.softplus(-self.logit) + (1 - self.mean) * (
            functional.softplus(self.logit)
        )


@dataclass(frozen=True, slots=True)
class TwoHot:
    """A real number as a categorical over bins; targets are split between their two neighbours.

    The bins reach from symexp(-limit) to symexp(limit); targets beyond count as the outermost bin.
    Symexp bins need an odd count, which puts a bin at exactly 0.
    """

    logits: Float[Tensor, "*rest V"]
    bins: Bins = "symlog"
    limit: float = 20.0

    def loss(self, target: Float[Tensor, "*rest"]) -> Float[Tensor, "*rest"]:
        """Cross-entropy against the two bins next to the target, weighted by nearness."""
        log_probs = functional.log_softmax(self.logits, dim=-1)
        below, share = self._split(target)
        lower = log_probs.gather(-1, below.unsqueeze(-1)).squeeze(-1)
        upper = log_probs.gather(-1, below.unsqueeze(-1) + 1).squeeze(-1)
        return -((1 - share) * lower + share * upper)

    def _split(
        self, target: Float[Tensor, "*rest"]
    ) -> tuple[Int[Tensor, "*rest"], Float[Tensor, "*rest"]]:
        """The bin below each target, and the weight of the one above it.

        A NaN target gets a valid index and a NaN weight, hence a NaN loss.
        """
        last = self.logits.shape[-1] - 1
        if self.bins == "symlog":
            place = (symlog(target).clamp(-self.limit, self.limit) + self.limit) / (2 * self.limit)
            place = place * last
            below = place.nan_to_num().floor().clamp(0, last - 1).long()
            return below, place - below
        values = self._values()
        target = target.clamp(values[0], values[-1])
        below = torch.searchsorted(values, target.contiguous(), right=True) - 1
        below = below.clamp(0, last - 1)
        lower, upper = values[below], values[below + 1]
        return below, (target - lower) / (upper - lower)

    def _places(self) -> Float[Tensor, " V"]:
        """Symlog bins, in symlog space."""
        return self._spaced(-self.limit, self.limit, self.logits.shape[-1])

    def _values(self) -> Float[Tensor, " V"]:
        """Symexp bins, in raw units; they are exactly antisymmetric."""
        negative = symexp(self._spaced(-self.limit, 0.0, self.logits.shape[-1] // 2 + 1))
        return torch.cat([negative, -negative[:-1].flip(0)])

    def _spaced(self, low: float, high: float, count: int) -> Float[Tensor, " n"]:
        return spaced(low, high, count, self.logits.dtype, self.logits.device)

    def _value_at(self, index: Int[Tensor, "*rest"]) -> Float[Tensor, "*rest"]:
        if self.bins == "symlog":
            return symexp(self._places()[index])
        return self._values()[index]

    @property
    def mean(self) -> Float[Tensor, "*rest"]:
        """The symexp of the mean in symlog space, or the exact mean with symexp bins.

        The latter adds opposite bins first, so that symmetric probabilities give exactly 0.
        """
        probs = functional.softmax(self.logits, dim=-1)
        if self.bins == "symlog":
            return symexp((probs * self._places()).sum(dim=-1))
        weighted, half = probs * self._values(), self.logits.shape[-1] // 2
        return (weighted[..., :half].flip(-1) + weighted[..., half + 1 :]).sum(dim=-1)

    @property
    def mode(self) -> Float[Tensor, "*rest"]:
        return self._value_at(self.logits.argmax(dim=-1))

    def sample(self, generator: Generator | None) -> Float[Tensor, "*rest"]:
        log_probs = functional.log_softmax(self.logits, dim=-1)
        return self._value_at(sample_index(log_probs, generator))

    def entropy(self) -> Float[Tensor, "*rest"]:
        """Of the bins, in nats."""
        return CategoricalDistribution.of(self.logits).entropy()


@dataclass(frozen=True, slots=True)
class Scalar:
    """A point estimate, trained by squared error."""

    mean: Float[Tensor, "*rest"]

    def loss(self, target: Float[Tensor, "*rest"]) -> Float[Tensor, "*rest"]:
        return (self.mean - target).square()


Value = TwoHot | Scalar


def value_width(kind: ValueKind) -> int:
    return 255 if kind == "two-hot" else 1


def value_of(outputs: Float[Tensor, "*rest D"], kind: ValueKind, bins: Bins = "symlog") -> Value:
    wide = widen(outputs)
    return TwoHot(wide, bins) if kind == "two-hot" else Scalar(wide.squeeze(-1))


@dataclass(frozen=True, slots=True)
class ContinuousBernoulli:
    """A density on [0, 1] (Loaiza-Ganem and Cunningham, 2019):
    p(x) = C(l) l^x (1 - l)^(1 - x) with l = sigmoid(logits) and C(l) = logits / tanh(logits/2).

    The density of pixels at exactly 0 or 1 grows without bound. A `limit` holds C at its value for
    logits of that size, so that such pixels stop learning once they are right.
    """

    logits: Float[Tensor, "*rest"]
    limit: float | None = None

    def log_prob(self, value: Float[Tensor, "*rest"]) -> Float[Tensor, "*rest"]:
        """Of values in [0, 1], in nats; may be positive."""
        odds = functional.binary_cross_entropy_with_logits(self.logits, value, reduction="none")
        held = self.logits if self.limit is None else self.logits.clamp(-self.limit, self.limit)
        return log_normaliser(held) - odds

    @property
    def mean(self) -> Float[Tensor, "*rest"]:
        """1/2 + coth(logits/2)/2 - 1/logits"""
        near, far = split_near(self.logits)
        squares = near.square()
        series = 1 / 12 - squares * (1 / 720 - squares * (1 / 30240 - squares / 1209600))
        centred = torch.where(
            is_near(self.logits), near * series, 0.5 / torch.tanh(far / 2) - 1 / far
        )
        return 0.5 + centred


def log_normaliser(logits: Float[Tensor, "*rest"]) -> Float[Tensor, "*rest"]:
    """log(logits / tanh(logits/2)), which is log 2 at 0."""
    near, far = split_near(logits)
    squares = near.square()
    series = 1 / 12 - squares * (7 / 1440 - squares * (31 / 90720 - squares * 127 / 4838400))
    return torch.where(
        is_near(logits), math.log(2) + squares * series, torch.log(far / torch.tanh(far / 2))
    )


def is_near(logits: Tensor) -> Tensor:
    return logits.abs() < NEAR


def split_near(logits: Tensor) -> tuple[Tensor, Tensor]:
    """The logits for the series and for the closed forms, replaced by 0 or 1 where unused.

    A `where` around the results alone would pass on NaN gradients.
    """
    near = is_near(logits)
    return logits.where(near, torch.zeros_like(logits)), logits.where(
        ~near, torch.ones_like(logits)
    )
