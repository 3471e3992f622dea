"""Losses of reward and termination heads."""

from jaxtyping import Float
from torch import Tensor

from tokenworlds.core.protocols import Head
from tokenworlds.core.types import Losses, Segment, masked_mean


def outcome_losses(
    reward: Head, termination: Head, feature: Float[Tensor, "B T D"], segment: Segment
) -> Losses:
    """`reward` and `termination` of each step, predicted from the feature at its index."""
    rewards, terminations = reward(feature), termination(feature)
    error = (rewards.mean - segment.reward).detach().abs()
    wrong = (terminations.mode != segment.terminated).float()
    terms = {
        "reward": rewards.loss(segment.reward),
        "termination": terminations.loss(segment.terminated),
    }
    metrics = {
        "reward_error": masked_mean(error, segment.mask),
        "termination_error": masked_mean(wrong, segment.mask),
    }
    return Losses(terms, dict.fromkeys(terms, segment.mask), metrics)
