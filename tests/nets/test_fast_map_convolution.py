"""Convolutions in the frequency domain against plain ones."""

import pytest
import torch
from torch import Tensor

from tokenworlds.nets.fast import map_convolution
from tokenworlds.nets.fast.map_convolution import (
    MapConvolution,
    concat_channels,
    pays,
    plain_map_convolution,
)

WIDE, NARROW = ((6, 6), 5), ((6, 6), 3)
ODD = ((7, 10), 3)


@pytest.fixture
def always_fast(monkeypatch: pytest.MonkeyPatch) -> None:
    """Use the frequency domain for few channels too."""
    monkeypatch.setattr(map_convolution, "MIN_SAVING", 0.0)


def random_maps(grid: tuple[int, int], batch: int) -> Tensor:
    return torch.randn(batch, 5, *grid, requires_grad=True)


@pytest.mark.usefixtures("always_fast")
@pytest.mark.parametrize(("grid", "kernel"), [WIDE, NARROW, ODD])
def test_values_and_gradients_are_those_of_a_plain_convolution(
    grid: tuple[int, int], kernel: int
) -> None:
    torch.manual_seed(0)
    layer = MapConvolution(5, 7, kernel, bias=True)
    maps = [random_maps(grid, batch) for batch in (1, 3, 2)]
    convolve = layer.prepare(grid)
    found = [convolve(each) for each in maps]
    plain = [plain_map_convolution(layer, each) for each in maps]
    torch.testing.assert_close(found, plain, atol=1e-5, rtol=0)
    # A nonlinear loss, so that the gradient of each use differs.
    leaves = [*layer.parameters(), *maps]
    ours, theirs = (torch.cat(each).sin().sum() for each in (found, plain))
    expected = torch.autograd.grad(theirs, leaves)
    torch.testing.assert_close(torch.autograd.grad(ours, leaves), expected, atol=2e-5, rtol=1e-5)


@pytest.mark.usefixtures("always_fast")
def test_maps_that_need_no_gradient_get_none() -> None:
    layer, maps = MapConvolution(2, 3, 5), torch.randn(2, 2, 6, 6)
    layer(maps).square().sum().backward()
    expected = plain_map_convolution(layer, maps).square().sum()
    assert maps.grad is None
    (gradient,) = torch.autograd.grad(expected, layer.weight)
    assert layer.weight.grad is not None
    torch.testing.assert_close(layer.weight.grad, gradient, atol=1e-4, rtol=1e-5)


def test_the_frequency_domain_is_chosen_where_it_saves_products() -> None:
    assert pays(*WIDE, 128, 512, number=16)
    assert pays(*NARROW, 256, 256, number=256)
    assert not pays(*NARROW, 256, 256, number=1)
    assert not pays(*NARROW, 8, 8, number=256)
    assert not pays((36, 1), 5, 128, 512, number=256)
    assert not pays((1, 1), 5, 512, 512, number=256)
    assert not pays((6, 6), 1, 512, 512, number=256)


def test_channels_are_concatenated() -> None:
    left, right = torch.randn(2, 3, 4, 5, 6), torch.randn(2, 3, 2, 5, 6)
    assert torch.equal(concat_channels(left, right), torch.cat([left, right], dim=2))
