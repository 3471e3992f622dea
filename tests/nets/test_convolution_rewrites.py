"""Faster forms of layers, against the plain ones: the same numbers and the same gradients."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from tokenworlds.nets.batch_normed import BatchNormed
from tokenworlds.nets.map_layout import PIECE, convolve, lay_out
from tokenworlds.nets.normed_silu import NormedSiLU
from tokenworlds.nets.residual import Doubling

ORDERS = [torch.contiguous_format, torch.channels_last]
Layer = Callable[[Tensor], Tensor]


def gradients(layer: Layer, maps: Tensor, parameters: list[nn.Parameter]) -> list[Tensor]:
    """What a layer makes of a map, then the gradients of a sum of it by map and parameters."""
    drawn = layer(maps)
    weights = torch.linspace(-1, 1, drawn.numel()).view(drawn.shape)
    return [drawn, *torch.autograd.grad((drawn * weights).sum(), [maps, *parameters])]


def random_maps(order: torch.memory_format) -> Tensor:
    maps = torch.randn(3, 8, 5, 7, generator=torch.Generator().manual_seed(0))
    return maps.contiguous(memory_format=order).requires_grad_()


def assert_same(layer: nn.Module, plain: Layer, maps: Tensor) -> None:
    parameters = list(layer.parameters())
    for new, old in zip(
        gradients(layer, maps, parameters), gradients(plain, maps, parameters), strict=True
    ):
        torch.testing.assert_close(new, old, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("order", ORDERS)
def test_a_doubling_is_a_convolution_of_a_map_with_each_site_four_times(
    order: torch.memory_format,
) -> None:
    layer = Doubling(8)

    def plain(maps: Tensor) -> Tensor:
        larger = functional.interpolate(maps, scale_factor=2.0, mode="nearest")
        return functional.conv2d(larger, layer.weight, layer.bias, padding=1)

    assert_same(layer, plain, random_maps(order))


@pytest.mark.parametrize("order", ORDERS)
def test_norm_and_silu_in_one_are_a_norm_and_a_silu(order: torch.memory_format) -> None:
    layer = NormedSiLU(4, 8, eps=1e-3)
    with torch.no_grad():
        layer.weight.uniform_(-1, 1)
        layer.bias.uniform_(-1, 1)

    def plain(maps: Tensor) -> Tensor:
        normed = functional.group_norm(maps, 4, layer.weight, layer.bias, eps=1e-3)
        return normed * torch.sigmoid(normed)

    assert_same(layer, plain, random_maps(order))
    with torch.no_grad():
        maps = random_maps(order)
        torch.testing.assert_close(layer(maps), plain(maps))


def test_a_part_of_a_map_is_normed_too() -> None:
    layer, maps = NormedSiLU(4, 8), random_maps(torch.contiguous_format)
    expected = functional.silu(functional.group_norm(maps[..., 1:4], 4, layer.weight, layer.bias))
    torch.testing.assert_close(layer(maps[..., 1:4]), expected)
    assert layer(maps[:0]).shape == (0, 8, 5, 7)


def test_norm_and_silu_keep_no_map_but_the_one_they_were_given() -> None:
    kept: list[int] = []

    def note(tensor: Tensor) -> Tensor:
        kept.append(tensor.data_ptr())
        return tensor

    maps = random_maps(torch.contiguous_format)
    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        NormedSiLU(4, 8)(maps)
    assert sum(pointer == maps.data_ptr() for pointer in kept) == 1
    assert len(kept) == 5, "the map, weight, bias, means and deviations"


@pytest.mark.parametrize("biased", [True, False])
def test_a_batch_norm_goes_into_its_convolution_when_nothing_learns(biased: bool) -> None:
    layer = BatchNormed(nn.Conv2d(8, 6, 4, 2, 1, bias=biased), nn.SiLU())
    maps = random_maps(torch.channels_last)
    for _ in range(3):
        layer(maps)
    layer.eval()
    with torch.no_grad():
        joined = layer(maps)
        apart = functional.silu(layer.norm(layer.convolution(maps)))
    assert not torch.equal(joined, apart), "a rewrite that is none"
    torch.testing.assert_close(joined, apart, rtol=1e-5, atol=1e-5)


def test_laying_out_changes_the_order_and_nothing_else() -> None:
    maps = torch.randn(2, 3, 4, 5)
    assert torch.equal(lay_out(maps), maps)
    with torch.no_grad():
        looked_at = lay_out(maps)
    assert torch.equal(looked_at, maps)
    assert looked_at.is_contiguous(memory_format=torch.channels_last)
    assert lay_out(looked_at).is_contiguous()


def test_maps_are_convolved_in_pieces_as_they_are_all_at_once() -> None:
    layers = nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), NormedSiLU(2, 4))
    sizes: list[int] = []
    layers.register_forward_hook(lambda module, given, drawn: sizes.append(len(drawn)))
    maps = torch.randn(PIECE + 3, 3, 5, 5)
    with torch.no_grad():
        found = convolve(layers.eval(), maps)
        torch.testing.assert_close(found, layers(maps), rtol=1e-5, atol=1e-5)
        convolve(layers.train(), maps)
    assert sizes == [PIECE, 3, PIECE + 3, PIECE + 3], "a norm that learns sees all of a batch"
