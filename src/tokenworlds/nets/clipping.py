"""What PPO minds: changes of a policy and of values, up to a bound (Schulman et al., 2017)."""

import torch
from jaxtyping import Float
from torch import Tensor


def clipped_gain(
    ratio: Float[Tensor, "*rest"], advantage: Float[Tensor, "*rest"], clip: float
) -> Float[Tensor, "*rest"]:
    """The lesser of ratio A and clip(ratio, 1 - clip, 1 + clip) A: no gain beyond the bound."""
    return torch.minimum(ratio * advantage, ratio.clamp(1 - clip, 1 + clip) * advantage)


def clipped_error(
    value: Float[Tensor, "*rest"],
    old: Float[Tensor, "*rest"],
    target: Float[Tensor, "*rest"],
    clip: float | None,
) -> Float[Tensor, "*rest"]:
    """The squared error, of the value or of one within the bound of the old: whichever is more."""
    error = (value - target).square()
    if clip is None:
        return error
    near = old + (value - old).clamp(-clip, clip)
    return torch.maximum(error, (near - target).square())
