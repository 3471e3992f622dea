"""Moving averages: of a network's weights, and of the spread of returns."""

import copy
from typing import TypeVar

import torch
from torch import Tensor, nn

ModuleT = TypeVar("ModuleT", bound=nn.Module)


def slow_copy(network: ModuleT) -> ModuleT:
    """A frozen copy, to be moved towards the original."""
    return copy.deepcopy(network).requires_grad_(False)


@torch.no_grad()
def move_towards(slow: nn.Module, fast: nn.Module, decay: float) -> None:
    """slow <- decay slow + (1 - decay) fast, for every parameter."""
    torch._foreach_lerp_(list(slow.parameters()), list(fast.parameters()), 1 - decay)


class ReturnRange(nn.Module):
    """The running distance between the 5th and 95th percentile of returns (DreamerV3)."""

    spread: Tensor

    def __init__(self, decay: float) -> None:
        super().__init__()
        self.decay = decay
        self.register_buffer("spread", torch.zeros(()))

    @torch.no_grad()
    def update(self, returns: Tensor) -> None:
        """Take in a batch of returns."""
        levels = torch.tensor([0.05, 0.95], device=returns.device)
        low, high = torch.quantile(returns.flatten().float(), levels)
        self.spread.lerp_(high - low, 1 - self.decay)

    def scale(self) -> Tensor:
        """What to divide by; never below one, so that small returns are not blown up."""
        return self.spread.clamp_min(1.0)
