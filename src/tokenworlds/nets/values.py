"""The value that a network's outputs stand for."""

from dataclasses import dataclass
from typing import Literal

from jaxtyping import Float
from torch import Tensor

from tokenworlds.core.precision import widen
from tokenworlds.nets.distributions import TwoHot

ValueKind = Literal["two-hot", "scalar"]
"""Weights on 255 bins in symlog, or the number itself."""


@dataclass(frozen=True, slots=True)
class Scalar:
    """A number that minds squared errors."""

    mean: Float[Tensor, "*rest"]

    def loss(self, target: Float[Tensor, "*rest"]) -> Float[Tensor, "*rest"]:
        """The squared error."""
        return (self.mean - target).square()


Value = TwoHot | Scalar


def value_width(kind: ValueKind) -> int:
    """How many outputs a value is made of."""
    return 255 if kind == "two-hot" else 1


def value_of(outputs: Float[Tensor, "*rest D"], kind: ValueKind) -> Value:
    """What is expected, and how wrong that was."""
    wide = widen(outputs)
    return TwoHot(wide) if kind == "two-hot" else Scalar(wide.squeeze(-1))
