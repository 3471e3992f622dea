"""How boldly an action is drawn from a policy: 0 takes the likeliest, 1 what the policy says."""

import torch
from torch import Generator, Tensor
from torch.nn import functional

from tokenworlds.nets.distributions import Categorical
from tokenworlds.nets.truncated_normal import TruncatedNormal

Policy = Categorical | TruncatedNormal
SCALES = (1e-3, 10.0)
"""Where a normal cut off at -1 and 1 is all but a point, and all but uniform."""


def choose(policy: Policy, temperature: float, generator: Generator | None) -> Tensor:
    """An action of each row; at temperature 0 nothing is drawn."""
    if temperature == 0.0:
        return policy.mode
    return at_temperature(policy, temperature).sample(generator)


def at_temperature(policy: Policy, temperature: float) -> Policy:
    """Logits divided by the temperature, or the scale multiplied by it."""
    if temperature == 1.0:
        return policy
    if not temperature > 0.0:
        raise ValueError(f"a policy has no temperature {temperature}: it takes more than 0")
    if isinstance(policy, TruncatedNormal):
        return TruncatedNormal(policy.location, (policy.scale * temperature).clamp(*SCALES))
    # The largest is taken off first: divided by next to nothing, the others alone overflow.
    lead = policy.log_probs - torch.amax(policy.log_probs, dim=-1, keepdim=True)
    return Categorical(functional.log_softmax(lead / temperature, dim=-1))
