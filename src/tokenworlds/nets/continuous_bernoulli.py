"""The continuous Bernoulli: a density on [0, 1] (Loaiza-Ganem and Cunningham, 2019)."""

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional

FLOAT_STEP = 23 * math.log(2)
"""The logit of a chance one step of single precision below 1."""

NEAR = 0.5
"""Logits below it use series: the closed forms, and more so their gradients, are lost in
differences of large numbers there."""


@dataclass(frozen=True, slots=True)
class ContinuousBernoulli:
    """p(x) = C(l) l^x (1 - l)^(1 - x) with l = sigmoid(logits), and C(l) = logits / tanh(logits/2).

    On pixels that are exactly 0 or 1 the density grows without bound; with a `limit` C is held at
    its value for logits of that size, which leaves such pixels alone once they are learnt.
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
        """1/2 + coth(logits/2)/2 - 1/logits."""
        near, far = split(self.logits)
        squares = near.square()
        series = 1 / 12 - squares * (1 / 720 - squares * (1 / 30240 - squares / 1209600))
        centred = torch.where(
            is_near(self.logits), near * series, 0.5 / torch.tanh(far / 2) - 1 / far
        )
        return 0.5 + centred


def log_normaliser(logits: Float[Tensor, "*rest"]) -> Float[Tensor, "*rest"]:
    """log(logits / tanh(logits/2)), which is log 2 at 0."""
    near, far = split(logits)
    squares = near.square()
    series = 1 / 12 - squares * (7 / 1440 - squares * (31 / 90720 - squares * 127 / 4838400))
    return torch.where(
        is_near(logits), math.log(2) + squares * series, torch.log(far / torch.tanh(far / 2))
    )


def is_near(logits: Tensor) -> Tensor:
    """Where the series holds."""
    return logits.abs() < NEAR


def split(logits: Tensor) -> tuple[Tensor, Tensor]:
    """The logits for series and for closed forms, each with harmless numbers where not needed.

    A `where` around the results alone would let through gradients that are not numbers.
    """
    near = is_near(logits)
    return logits.where(near, torch.zeros_like(logits)), logits.where(
        ~near, torch.ones_like(logits)
    )
