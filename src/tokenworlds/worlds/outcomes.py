"""What came of each step, against what was foreseen of it."""

from jaxtyping import Float
from torch import Tensor

from tokenworlds.core.protocols import Head
from tokenworlds.core.types import Losses, Segment, masked_mean


def outcome_losses(
    reward: Head, termination: Head, feature: Float[Tensor, "B T D"], segment: Segment
) -> Losses:
    """`reward` and `ending` of each step, read from the feature that tells them."""
    foreseen, over = reward(feature), termination(feature)
    missed = (foreseen.mean - segment.reward).detach().abs()
    wrong = (over.mode != segment.terminated).float()
    terms = {"reward": foreseen.loss(segment.reward), "termination": over.loss(segment.terminated)}
    metrics = {
        "reward_error": masked_mean(missed, segment.mask),
        "termination_error": masked_mean(wrong, segment.mask),
    }
    return Losses(terms, dict.fromkeys(terms, segment.mask), metrics)
