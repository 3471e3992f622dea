"""The probabilities that a prior gives to the tokens of a real frame."""

from typing import Any

from jaxtyping import Float
from torch import Tensor

from tokenworlds.core.inspection import ScoresTokens
from tokenworlds.core.types import Codes, GaussianLatent


def score_codes(
    prior: Any, feature: Float[Tensor, "B D"], codes: Codes | GaussianLatent
) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
    """Tokens, their log-probabilities, and the posterior if the prior's losses compare with it."""
    if not isinstance(codes, Codes):
        return None, None, None
    if not isinstance(prior, ScoresTokens):
        return codes.index, None, codes.logits
    objective = getattr(getattr(prior, "config", None), "objective", "kl")
    posterior = None if objective == "cross-entropy" else codes.logits
    return codes.index, prior.score(feature, codes.index), posterior
