"""Rewritten layers against their plain forms: the same numbers and the same gradients."""

from collections.abc import Callable
from functools import partial

import pytest
import torch
from torch import Tensor, nn

from tokenworlds.nets.fast.convolution import (
    CHUNK,
    BatchNormed,
    NormedSiLU,
    convolve,
    lay_out,
    plain_batch_normed,
    plain_convolve,
    plain_normed_silu,
)
from tokenworlds.nets.fast.doubling import Doubling, plain_doubling

LAYOUTS = [torch.contiguous_format, torch.channels_last]
Layer = Callable[[Tensor], Tensor]


def gradients(layer: Layer, maps: Tensor, parameters: list[nn.Parameter]) -> list[Tensor]:
    """A layer's output, then the gradients of a weighted sum of it by map and parameters."""
    output = layer(maps)
    weights = torch.linspace(-1, 1, output.numel()).view(output.shape)
    return [output, *torch.autograd.grad((output * weights).sum(), [maps, *parameters])]


def random_maps(layout: torch.memory_format) -> Tensor:
    maps = torch.randn(3, 8, 5, 7, generator=torch.Generator().manual_seed(0))
    return maps.contiguous(memory_format=layout).requires_grad_()


def assert_same(layer: nn.Module, plain: Layer, maps: Tensor) -> None:
    parameters = list(layer.parameters())
    for new, old in zip(
        gradients(layer, maps, parameters), gradients(plain, maps, parameters), strict=True
    ):
        torch.testing.assert_close(new, old, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("kernel", [3, 5, 7])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_doubling_is_a_convolution_of_the_upsampled_map(
    layout: torch.memory_format, kernel: int
) -> None:
    layer = Doubling(8, 6, kernel)
    assert_same(layer, partial(plain_doubling, layer), random_maps(layout))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_normed_silu_is_a_norm_and_a_silu(layout: torch.memory_format) -> None:
    layer = NormedSiLU(4, 8, eps=1e-3)
    with torch.no_grad():
        layer.weight.uniform_(-1, 1)
        layer.bias.uniform_(-1, 1)

    assert_same(layer, partial(plain_normed_silu, layer), random_maps(layout))
    with torch.no_grad():
        maps = random_maps(layout)
        torch.testing.assert_close(layer(maps), plain_normed_silu(layer, maps))


def test_normed_silu_takes_a_slice_of_a_map() -> None:
    layer, maps = NormedSiLU(4, 8), random_maps(torch.contiguous_format)
    torch.testing.assert_close(layer(maps[..., 1:4]), plain_normed_silu(layer, maps[..., 1:4]))
    assert layer(maps[:0]).shape == (0, 8, 5, 7)


def test_normed_silu_saves_no_map_but_its_input() -> None:
    saved: list[int] = []

    def note(tensor: Tensor) -> Tensor:
        saved.append(tensor.data_ptr())
        return tensor

    maps = random_maps(torch.contiguous_format)
    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        NormedSiLU(4, 8)(maps)
    assert sum(pointer == maps.data_ptr() for pointer in saved) == 1
    assert len(saved) == 5, "the map, weight, bias, means and deviations"


@pytest.mark.parametrize("biased", [True, False])
def test_a_batch_norm_is_folded_into_its_convolution_at_inference(biased: bool) -> None:
    layer = BatchNormed(nn.Conv2d(8, 6, 4, 2, 1, bias=biased), nn.SiLU())
    maps = random_maps(torch.channels_last)
    for _ in range(3):
        layer(maps)
    layer.eval()
    with torch.no_grad():
        folded, plain = layer(maps), plain_batch_normed(layer, maps)
    assert not torch.equal(folded, plain), "nothing was folded"
    torch.testing.assert_close(folded, plain, rtol=1e-5, atol=1e-5)


def test_laying_out_changes_the_memory_format_only() -> None:
    maps = torch.randn(2, 3, 4, 5)
    assert torch.equal(lay_out(maps), maps)
    with torch.no_grad():
        inferred = lay_out(maps)
    assert torch.equal(inferred, maps)
    assert inferred.is_contiguous(memory_format=torch.channels_last)
    assert lay_out(inferred).is_contiguous()


def test_chunks_of_maps_are_convolved_as_the_whole_batch_is() -> None:
    layers = nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), NormedSiLU(2, 4))
    sizes: list[int] = []
    layers.register_forward_hook(lambda module, given, output: sizes.append(len(output)))
    maps = torch.randn(CHUNK + 3, 3, 5, 5)
    with torch.no_grad():
        found = convolve(layers.eval(), maps)
        torch.testing.assert_close(found, plain_convolve(layers, maps), rtol=1e-5, atol=1e-5)
        convolve(layers.train(), maps)
    assert sizes == [CHUNK, 3, CHUNK + 3, CHUNK + 3], "in training a norm sees the whole batch"
