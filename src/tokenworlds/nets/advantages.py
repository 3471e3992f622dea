"""Generalised advantage estimation (Schulman et al., 2016), and its normalisation in PPO."""

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from tokenworlds.core.types import masked_mean


def generalised_advantage(
    reward: Float[Tensor, "T B"],
    terminated: Float[Tensor, "T B"],
    value: Float[Tensor, "T1 B"],
    discount: float,
    lambda_: float,
    cut: Bool[Tensor, "T B"] | None = None,
) -> Float[Tensor, "T B"]:
    """A_i = d_i + g_i lambda A_{i+1}; d_i = r_i + g_i V_{i+1} - V_i, g_i = discount (1 - end_i).

    Where `cut` is set, what followed is not known: A_i = 0, and all before rests on V_i.
    """
    assert len(value) == len(reward) + 1, (value.shape, reward.shape)
    ahead = discount * (1 - terminated)
    surprise = reward + ahead * value[1:] - value[:-1]
    kept = torch.ones_like(reward) if cut is None else (~cut).to(reward.dtype)
    running, advantages = torch.zeros_like(reward[0]), []
    for step in reversed(range(len(reward))):
        running = kept[step] * (surprise[step] + lambda_ * ahead[step] * running)
        advantages.append(running)
    return torch.stack(advantages[::-1])


def normalised(advantage: Float[Tensor, " B"], weight: Float[Tensor, " B"]) -> Float[Tensor, " B"]:
    """With mean 0 and standard deviation 1 over what counts; 0 if only one does."""
    centred = advantage - masked_mean(advantage, weight)
    # Less one, as is usual for a sample: one alone has no spread.
    freedom = (weight.sum() - 1).clamp_min(1.0)
    spread = ((weight * centred.square()).sum() / freedom).sqrt()
    return centred / (spread + 1e-8)
