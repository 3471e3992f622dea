"""Convolutions by way of frequencies, against plain ones."""

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from tokenworlds.nets import map_convolution
from tokenworlds.nets.map_convolution import MapConvolution, beside, pays

WIDE, NARROW = ((6, 6), 5), ((6, 6), 3)
ODD = ((7, 10), 3)


@pytest.fixture
def detour(monkeypatch: pytest.MonkeyPatch) -> None:
    """Frequencies for few channels too."""
    monkeypatch.setattr(map_convolution, "WORTHWHILE", 0.0)


def random_maps(grid: tuple[int, int], batch: int) -> Tensor:
    return torch.randn(batch, 5, *grid, requires_grad=True)


@pytest.mark.usefixtures("detour")
@pytest.mark.parametrize(("grid", "kernel"), [WIDE, NARROW, ODD])
def test_values_and_gradients_are_those_of_a_plain_convolution(
    grid: tuple[int, int], kernel: int
) -> None:
    torch.manual_seed(0)
    layer = MapConvolution(5, 7, kernel, bias=True)
    maps = [random_maps(grid, batch) for batch in (1, 3, 2)]
    convolve = layer.prepare(grid)
    found = [convolve(each) for each in maps]
    plain = [functional.conv2d(m, layer.weight, layer.bias, padding=kernel // 2) for m in maps]
    torch.testing.assert_close(found, plain, atol=1e-5, rtol=0)
    # Through a bend, so that the gradient of each use is another.
    wanted = [*layer.parameters(), *maps]
    ours, theirs = (torch.cat(each).sin().sum() for each in (found, plain))
    expected = torch.autograd.grad(theirs, wanted)
    torch.testing.assert_close(torch.autograd.grad(ours, wanted), expected, atol=2e-5, rtol=1e-5)


@pytest.mark.usefixtures("detour")
def test_maps_that_are_not_learnt_through_have_no_gradient() -> None:
    layer, maps = MapConvolution(2, 3, 5), torch.randn(2, 2, 6, 6)
    layer(maps).square().sum().backward()
    expected = functional.conv2d(maps, layer.weight, padding=2).square().sum()
    assert maps.grad is None
    (gradient,) = torch.autograd.grad(expected, layer.weight)
    assert layer.weight.grad is not None
    torch.testing.assert_close(layer.weight.grad, gradient, atol=1e-4, rtol=1e-5)


def test_the_detour_is_made_where_products_are_saved() -> None:
    assert pays(*WIDE, 128, 512, number=16)
    assert pays(*NARROW, 256, 256, number=256)
    assert not pays(*NARROW, 256, 256, number=1)
    assert not pays(*NARROW, 8, 8, number=256)
    assert not pays((36, 1), 5, 128, 512, number=256)
    assert not pays((1, 1), 5, 512, 512, number=256)
    assert not pays((6, 6), 1, 512, 512, number=256)


def test_maps_are_laid_beside_each_other() -> None:
    left, right = torch.randn(2, 3, 4, 5, 6), torch.randn(2, 3, 2, 5, 6)
    assert torch.equal(beside(left, right), torch.cat([left, right], dim=2))
