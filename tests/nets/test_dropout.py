"""Dropout against what it is meant to be."""

import pytest
import torch

from tokenworlds.nets.dropout import PIECE, Dropout


def dropped(share: float, count: int, seed: int = 0) -> torch.Tensor:
    torch.manual_seed(seed)
    result: torch.Tensor = Dropout(share)(torch.ones(count))
    return result


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_a_share_is_zero_and_the_rest_larger_by_as_much(share: float) -> None:
    x = dropped(share, 3 * PIECE + 5)
    assert x.unique().tolist() == pytest.approx([0.0, 1 / (1 - share)])
    assert (x == 0).float().mean().item() == pytest.approx(share, abs=0.003)


def test_neighbours_are_dropped_independently() -> None:
    gone = (dropped(0.3, 2 * PIECE) == 0).double()
    for lag in (1, 2, PIECE // 2, PIECE):
        assert (gone[lag:] * gone[:-lag]).mean().item() == pytest.approx(0.09, abs=0.003)


def test_what_is_dropped_is_a_function_of_the_global_seed() -> None:
    assert torch.equal(dropped(0.5, 99, 1), dropped(0.5, 99, 1))
    assert not torch.equal(dropped(0.5, 99, 1), dropped(0.5, 99, 2))
    torch.manual_seed(0)
    layer, x = Dropout(0.5), torch.ones(99)
    assert not torch.equal(layer(x), layer(x))


def test_gradients_pass_where_numbers_do() -> None:
    x = torch.ones(999, requires_grad=True)
    y = Dropout(0.25)(x)
    assert torch.equal(torch.autograd.grad(y.sum(), x)[0], y.detach())


def test_playing_drops_nothing() -> None:
    x = torch.ones(99)
    assert torch.equal(Dropout(0.5).eval()(x), x)
    assert torch.equal(Dropout(0.0)(x), x)
