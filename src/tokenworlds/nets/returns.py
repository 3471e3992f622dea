"""The arithmetic of actor-critics: returns, advantages, PPO's clipped terms, moving averages."""

import copy
from typing import TypeVar

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from tokenworlds.core.constants import spaced
from tokenworlds.core.sharing import gathered, total
from tokenworlds.core.types import Segment, masked_mean

ModuleT = TypeVar("ModuleT", bound=nn.Module)


def lambda_return(
    reward: Float[Tensor, "T B"],
    terminated: Float[Tensor, "T B"],
    next_value: Float[Tensor, "T B"],
    discount: float,
    lambda_: float,
) -> Float[Tensor, "T B"]:
    """R_i = r_i + discount (1 - end_i) [(1 - lambda) V_{i+1} + lambda R_{i+1}], R_T = V_T.

    `next_value[i]` is the value of the state that step i led to.
    """
    running = next_value[-1]
    returns = []
    for step in reversed(range(reward.shape[0])):
        ahead = (1 - lambda_) * next_value[step] + lambda_ * running
        running = reward[step] + discount * (1 - terminated[step]) * ahead
        returns.append(running)
    return torch.stack(returns[::-1])


@torch.no_grad()
def replayed_return(
    segment: Segment, bootstrap: Float[Tensor, "B T"], discount: float, lambda_: float
) -> tuple[Float[Tensor, "B t"], Bool[Tensor, "B t"]]:
    """The lambda-return of every real step but the last, and whether it is known.

    `bootstrap` is the return of each state as it was imagined. The state after a truncated step is
    not stored: such a step does not count, and earlier ones bootstrap from its state.
    """
    terminated, truncated = segment.terminated[:, :-1], segment.truncated[:, :-1]
    follows = segment.mask[:, 1:] & ~segment.first[:, 1:] & ~truncated
    known = segment.mask[:, :-1] & (terminated | follows)
    go_on = discount * (1 - terminated.to(bootstrap.dtype))
    returns, running = [], bootstrap[:, -1]
    for time in reversed(range(known.shape[1])):
        ahead = torch.lerp(bootstrap[:, time + 1], running, lambda_)
        found = segment.reward[:, time] + go_on[:, time] * ahead
        running = torch.where(known[:, time], found, bootstrap[:, time])
        returns.append(running)
    return torch.stack(returns[::-1], dim=1), known


def survival(terminated: Float[Tensor, "T B"]) -> Float[Tensor, "T B"]:
    """The probability that no earlier step ended the episode: the weight of each step."""
    alive = torch.cumprod(1 - terminated, dim=0)
    return torch.cat([torch.ones_like(alive[:1]), alive[:-1]])


def generalised_advantage(
    reward: Float[Tensor, "T B"],
    terminated: Float[Tensor, "T B"],
    value: Float[Tensor, "T1 B"],
    discount: float,
    lambda_: float,
    cut: Bool[Tensor, "T B"] | None = None,
) -> Float[Tensor, "T B"]:
    """A_i = d_i + g_i lambda A_{i+1}; d_i = r_i + g_i V_{i+1} - V_i, g_i = discount (1 - end_i)
    (Schulman et al., 2016).

    Where `cut` is set, the next state is unknown: A_i = 0, and earlier steps bootstrap from V_i.
    """
    assert len(value) == len(reward) + 1, (value.shape, reward.shape)
    ahead = discount * (1 - terminated)
    error = reward + ahead * value[1:] - value[:-1]
    kept = torch.ones_like(reward) if cut is None else (~cut).to(reward.dtype)
    running, advantages = torch.zeros_like(reward[0]), []
    for step in reversed(range(len(reward))):
        running = kept[step] * (error[step] + lambda_ * ahead[step] * running)
        advantages.append(running)
    return torch.stack(advantages[::-1])


def normalised(advantage: Float[Tensor, " B"], weight: Float[Tensor, " B"]) -> Float[Tensor, " B"]:
    """Weighted mean 0 and standard deviation 1; 0 for a single step."""
    centred = advantage - masked_mean(advantage, weight)
    # The unbiased estimate, whose denominator is 0 for a single step.
    freedom = (total(weight.sum()) - 1).clamp_min(1.0)
    spread = (total((weight * centred.square()).sum()) / freedom).sqrt()
    return centred / (spread + 1e-8)


def clipped_gain(
    ratio: Float[Tensor, "*rest"], advantage: Float[Tensor, "*rest"], clip: float
) -> Float[Tensor, "*rest"]:
    """min(ratio A, clip(ratio, 1 - clip, 1 + clip) A) (Schulman et al., 2017)."""
    return torch.minimum(ratio * advantage, ratio.clamp(1 - clip, 1 + clip) * advantage)


def clipped_error(
    value: Float[Tensor, "*rest"],
    old: Float[Tensor, "*rest"],
    target: Float[Tensor, "*rest"],
    clip: float | None,
) -> Float[Tensor, "*rest"]:
    """The larger squared error of the value and of the value clipped to `old` +- `clip`."""
    error = (value - target).square()
    if clip is None:
        return error
    near = old + (value - old).clamp(-clip, clip)
    return torch.maximum(error, (near - target).square())


def slow_copy(network: ModuleT) -> ModuleT:
    """A frozen copy, for `move_towards`."""
    return copy.deepcopy(network).requires_grad_(False)


@torch.no_grad()
def move_towards(slow: nn.Module, fast: nn.Module, decay: float) -> None:
    """slow <- decay slow + (1 - decay) fast, for every parameter."""
    torch._foreach_lerp_(list(slow.parameters()), list(fast.parameters()), 1 - decay)


class ReturnRange(nn.Module):
    """Moving average of the distance between the 5th and 95th percentile of returns (DreamerV3)."""

    spread: Tensor

    def __init__(self, decay: float, floor: float = 1.0) -> None:
        super().__init__()
        self.decay, self.floor = decay, floor
        self.register_buffer("spread", torch.zeros(()))

    @torch.no_grad()
    def updated(self, returns: Tensor) -> Tensor:
        """The average with these returns; the module does not change."""
        levels = spaced(0.05, 0.95, 2, torch.float32, returns.device)
        low, high = torch.quantile(gathered(returns.flatten().float()), levels)
        return torch.lerp(self.spread, high - low, 1 - self.decay)

    def update(self, returns: Tensor) -> None:
        self.spread.copy_(self.updated(returns))

    def scale(self) -> Tensor:
        """The divisor of advantages: at least the floor, so that noise is not amplified."""
        return self.spread.clamp_min(self.floor)
