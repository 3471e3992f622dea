"""The policy that a network's outputs stand for."""

import torch
from einops import rearrange
from jaxtyping import Float
from torch import Tensor

from tokenworlds.core.precision import widen
from tokenworlds.core.types import ActionSpace
from tokenworlds.nets.distributions import Categorical
from tokenworlds.nets.temperature import Policy
from tokenworlds.nets.truncated_normal import TruncatedNormal


def policy_width(action_space: ActionSpace) -> int:
    """How many outputs a policy is made of."""
    return action_space.size if action_space.discrete else 2 * action_space.size


def policy_of(
    outputs: Float[Tensor, "*rest D"], action_space: ActionSpace, unimix: float = 0.0
) -> Policy:
    """Logits of the choices, or place and spread of each component of a vector."""
    if action_space.discrete:
        return Categorical.of(outputs, unimix)
    location, scale = rearrange(widen(outputs), "... (two a) -> two ... a", two=2)
    return TruncatedNormal(torch.tanh(location), 0.1 + 0.9 * torch.sigmoid(scale + 2.0))
