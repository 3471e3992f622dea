"""Returns of imagined steps."""

import torch
from jaxtyping import Float
from torch import Tensor


def lambda_return(
    reward: Float[Tensor, "T B"],
    terminated: Float[Tensor, "T B"],
    next_value: Float[Tensor, "T B"],
    discount: float,
    lambda_: float,
) -> Float[Tensor, "T B"]:
    """R_i = r_i + discount (1 - end_i) [(1 - lambda) V_{i+1} + lambda R_{i+1}], R_T = V_T.

    `next_value[i]` is the value of the state that step i led to; only an ending stops it.
    """
    running = next_value[-1]
    returns = []
    for step in reversed(range(reward.shape[0])):
        ahead = (1 - lambda_) * next_value[step] + lambda_ * running
        running = reward[step] + discount * (1 - terminated[step]) * ahead
        returns.append(running)
    return torch.stack(returns[::-1])


def survival(terminated: Float[Tensor, "T B"]) -> Float[Tensor, "T B"]:
    """The weight of each step: the chance that no earlier step ended the episode."""
    alive = torch.cumprod(1 - terminated, dim=0)
    return torch.cat([torch.ones_like(alive[:1]), alive[:-1]])
