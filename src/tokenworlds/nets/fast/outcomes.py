"""Outcomes of imagined steps, which on a device are predicted for the whole dream at once."""

from collections.abc import Callable

from jaxtyping import Float
from torch import Tensor

from tokenworlds.core.types import Outcome, PendingOutcome
from tokenworlds.nets.fast import eager_on_device


def predict_outcome(feature: Float[Tensor, "B D"], predict: Callable[[Tensor], Outcome]) -> Outcome:
    """Now, or on a device when it is read; the plain form is `predict(feature)`."""
    if eager_on_device(feature):
        return PendingOutcome(feature, predict)
    return predict(feature)
