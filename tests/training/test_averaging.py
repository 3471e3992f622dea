"""With averages, updates go on from the last weights, and all else uses their average."""

import pytest
import torch
from torch import nn

from tokenworlds.core.errors import UserError
from tokenworlds.nets.optimisers import Optimiser
from tokenworlds.runs.recipe import Learning
from tokenworlds.training.averaging import WeightAverage

ENOUGH = 1_000
"""Updates after which averages have their full length."""


def module_at(weight: float) -> nn.Linear:
    module = nn.Linear(1, 1, bias=False)
    nn.init.constant_(module.weight, weight)
    return module


def add(module: nn.Linear, amount: float) -> None:
    with torch.no_grad():
        module.weight += amount


def test_the_module_holds_the_average_of_its_weights() -> None:
    """The weights are 0, 1, 2; with decay 3/4 their averages are 0, 1/4, 11/16."""
    module = module_at(0.0)
    average = WeightAverage(module, 0.75)
    seen = []
    for _ in range(2):
        with average.updating(ENOUGH):
            add(module, 1.0)
        seen.append(module.weight.item())
    assert seen == pytest.approx([1 / 4, 11 / 16])
    assert average.state()["weight"].item() == 2.0


def test_early_averages_are_short() -> None:
    module = module_at(0.0)
    with WeightAverage(module, 0.99).updating(0):
        add(module, 1.0)
    assert module.weight.item() == pytest.approx(0.9)


def test_an_update_that_fails_leaves_the_averages() -> None:
    module = module_at(0.0)
    average = WeightAverage(module, 0.75)
    with average.updating(ENOUGH):
        add(module, 1.0)
    with pytest.raises(ArithmeticError), average.updating(ENOUGH):
        raise ArithmeticError
    assert module.weight.item() == pytest.approx(1 / 4)
    assert average.state()["weight"].item() == 1.0


def test_without_a_decay_the_module_keeps_its_last_weights() -> None:
    module = module_at(0.0)
    average = WeightAverage(module, 0.0)
    with average.updating(ENOUGH):
        add(module, 1.0)
    assert module.weight.item() == 1.0
    assert average.state() == {}


def test_a_fork_of_a_run_without_averages_starts_from_its_weights() -> None:
    module = module_at(0.0)
    average = WeightAverage(module, 0.75)
    nn.init.constant_(module.weight, 4.0)
    average.restore(None)
    with average.updating(ENOUGH):
        add(module, 1.0)
    assert module.weight.item() == pytest.approx(4.25)


@pytest.mark.parametrize("decay", [-0.1, 1.0])
def test_a_decay_that_never_averages_is_refused(decay: float) -> None:
    with pytest.raises(UserError, match="average takes a decay from 0"):
        Learning(batch=1, length=1, average=decay, optimiser=Optimiser.Config())
