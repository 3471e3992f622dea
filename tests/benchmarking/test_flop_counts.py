"""Operations are those that a pencil counts."""

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from tokenworlds.benchmarking.calibration import Calibration
from tokenworlds.benchmarking.flops import Flops, count_flops


def test_a_linear_layer_is_a_product_forward_and_two_backward() -> None:
    layer, x = nn.Linear(8, 4), torch.randn(6, 8, requires_grad=True)
    product = 2.0 * 6 * 8 * 4
    assert count_flops(lambda: layer(x)) == Flops(product, 0.0)
    assert count_flops(lambda: layer(x).sum().backward()) == Flops(3 * product, 0.0)
    assert count_flops(lambda: layer(x.detach()).sum().backward()) == Flops(2 * product, 0.0)


def test_a_convolution_is_of_its_own_kind() -> None:
    layer, x = nn.Conv2d(3, 5, 3, stride=2), torch.randn(2, 3, 9, 9, requires_grad=True)
    once = 2.0 * 2 * 16 * 5 * 3 * 9
    assert count_flops(lambda: layer(x)) == Flops(0.0, once)
    assert count_flops(lambda: layer(x).sum().backward()) == Flops(0.0, 3 * once)


def attend(x: Tensor) -> Tensor:
    return functional.scaled_dot_product_attention(x, x, x)


def test_attention_is_two_products_forward_and_five_backward() -> None:
    x = torch.randn(2, 3, 7, 8, requires_grad=True)
    product = 2.0 * 2 * 3 * 7 * 7 * 8
    with torch.no_grad():
        assert count_flops(lambda: attend(x)) == Flops(2 * product, 0.0)
    assert count_flops(lambda: attend(x).sum().backward()) == Flops(7 * product, 0.0)


def test_products_that_are_added_in_place_count() -> None:
    left, right, total = torch.randn(3, 4, 5), torch.randn(3, 5, 6), torch.zeros(3, 4, 6)
    assert count_flops(lambda: total.baddbmm_(left, right)) == Flops(2.0 * 3 * 4 * 5 * 6, 0.0)


def test_what_goes_by_elements_is_not_counted() -> None:
    x = torch.randn(100)
    assert count_flops(lambda: (x * x + x).exp().sum()) == Flops(0.0, 0.0)


def test_a_layer_without_gradients_on_an_input_with_some_can_be_counted() -> None:
    layer, x = nn.Linear(8, 4), torch.randn(6, 8, requires_grad=True) * 2

    def act() -> None:
        with torch.no_grad():
            layer(x[:, :8])

    assert count_flops(act) == Flops(2.0 * 6 * 8 * 4, 0.0)


def test_at_the_pace_of_the_calibration_kinds_take_their_own_time() -> None:
    reach = Calibration(seconds=1.0, spread=0.0, matmul=100.0, convolution=10.0)
    flops = Flops(50.0, 20.0)
    assert flops.seconds(reach) == pytest.approx(2.5)
    assert flops.scaled(4.0) == Flops(200.0, 80.0)
    assert flops.scaled(4.0).total == 280.0
