"""Choices that gradients pass by (Bengio et al., 2013)."""

from jaxtyping import Float, Int
from torch import Tensor

from tokenworlds.core.coded import one_hots
from tokenworlds.core.types import Codes


def straight_through(
    index: Int[Tensor, "*rest K"],
    logits: Float[Tensor, "*rest K V"],
    encoded: Float[Tensor, "*rest K D"],
    quantised: Float[Tensor, "*rest K D"],
) -> Codes:
    """Chosen codes: the sample has the posterior's gradient, the vector the encoder's."""
    probs = logits.exp()
    hard = one_hots(index, logits.shape[-1], probs.dtype)
    return Codes(
        index=index,
        logits=logits,
        sample=hard + (probs - probs.detach()),
        vector=encoded + (quantised - encoded).detach(),
        encoded=encoded,
    )


def certain(
    index: Int[Tensor, "*rest K"], vector: Float[Tensor, "*rest K D"], vocabulary: int
) -> Codes:
    """Codes that an encoder is sure of."""
    hard = one_hots(index, vocabulary)
    return Codes(index, hard.clamp_min(1e-8).log(), hard, vector, vector)
