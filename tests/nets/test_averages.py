"""Moving averages."""

import torch
from torch import nn

from tokenworlds.nets.averages import ReturnRange, move_towards, slow_copy


def test_slow_copy_moves_by_its_share_and_is_not_trained() -> None:
    fast = nn.Linear(2, 2)
    slow = slow_copy(fast)
    before = slow.weight.clone()
    with torch.no_grad():
        fast.weight.add_(1.0)
    move_towards(slow, fast, decay=0.9)
    torch.testing.assert_close(slow.weight, before + 0.1)
    assert not any(parameter.requires_grad for parameter in slow.parameters())


def test_return_range_follows_the_percentiles() -> None:
    spread = ReturnRange(decay=0.0)
    spread.update(torch.linspace(0, 100, 1001))
    assert spread.scale().item() == 90.0


def test_small_returns_are_not_blown_up() -> None:
    spread = ReturnRange(decay=0.0)
    spread.update(torch.linspace(0, 0.01, 11))
    assert spread.scale().item() == 1.0
