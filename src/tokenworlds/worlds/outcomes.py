"""What came of each step, against what was foreseen of it."""

from jaxtyping import Float
from torch import Tensor

from tokenworlds.core.protocols import Head
from tokenworlds.core.types import Losses, Segment, masked_mean


def outcome_losses(
    reward: Head, ending: Head, feature: Float[Tensor, "B T D"], segment: Segment
) -> Losses:
    """`reward` and `ending` of each step, read from the feature that tells them."""
    foreseen, over = reward(feature), ending(feature)
    missed = (foreseen.mean - segment.reward).detach().abs()
    wrong = (over.mode != segment.ending).float()
    terms = {"reward": foreseen.loss(segment.reward), "ending": over.loss(segment.ending)}
    metrics = {
        "reward_error": masked_mean(missed, segment.mask),
        "ending_error": masked_mean(wrong, segment.mask),
    }
    return Losses(terms, dict.fromkeys(terms, segment.mask), metrics)
