"""Layers for few channels against their plain forms: the same numbers and the same gradients.

In double precision: torch's own gradient of a norm's weight loses digits where a mean is large.
"""

from collections.abc import Callable
from functools import partial

import pytest
import torch
from torch import Tensor, nn

from tokenworlds.nets.fast.convolution import NormedSiLU, plain_normed_silu
from tokenworlds.nets.fast.narrow import (
    LARGE,
    NarrowConvolution,
    NormChannels,
    columns_at_once,
    lay_out_narrow,
    pays,
    plain_narrow_convolution,
    tiles_narrow,
)
from tokenworlds.nets.residual import FrameDecoder, FrameEncoder

CONFIG = FrameEncoder.Config(width=8, latent=8, multipliers=(1, 2), halvings=(True, True))


def large_maps(channels: int) -> Tensor:
    source = torch.Generator().manual_seed(0)
    maps = torch.randn(2, channels, 32, 32, generator=source, dtype=torch.float64)
    return maps.contiguous(memory_format=torch.channels_last).requires_grad_()


def gradients(layer: Callable[[Tensor], Tensor], maps: Tensor, module: nn.Module) -> list[Tensor]:
    """A layer's output, then the gradients of a weighted sum of it by map and parameters."""
    output = layer(maps)
    weights = torch.linspace(-1, 1, output.numel(), dtype=output.dtype).view(output.shape)
    return [output, *torch.autograd.grad((output * weights).sum(), [maps, *module.parameters()])]


@pytest.mark.parametrize(("inputs", "outputs"), [(8, 8), (3, 8), (8, 3), (16, 1)])
def test_columns_at_once_are_the_columns_of_a_convolution(inputs: int, outputs: int) -> None:
    layer, maps = NarrowConvolution(inputs, outputs).double(), large_maps(inputs)
    assert pays(maps, outputs)

    plain = gradients(partial(plain_narrow_convolution, layer), maps, layer)
    for new, old in zip(gradients(layer, maps, layer), plain, strict=True):
        torch.testing.assert_close(new, old)
    with torch.no_grad():
        torch.testing.assert_close(layer(maps), plain[0])


def test_columns_fill_a_register_and_divide_the_width() -> None:
    assert [columns_at_once(outputs, 32) for outputs in (1, 3, 8, 9, 16)] == [16, 4, 2, 1, 1]
    assert [columns_at_once(3, width) for width in (31, 34, 36)] == [1, 2, 4]


@pytest.mark.parametrize("channels", [8, 16, 32])
def test_a_norm_of_channels_is_a_group_norm_with_a_group_for_each(channels: int) -> None:
    layer, maps = NormedSiLU(channels, channels, eps=1e-3).double(), large_maps(channels)
    with torch.no_grad():
        layer.weight.uniform_(-1, 1)
        layer.bias.uniform_(-1, 1)
        maps += 3.0
    assert tiles_narrow(maps, channels)

    def fast(maps: Tensor) -> Tensor:
        made: Tensor = NormChannels.apply(maps, layer.weight, layer.bias, layer.eps)  # type: ignore[no-untyped-call]
        return made

    plain = gradients(partial(plain_normed_silu, layer), maps, layer)
    for new, old in zip(gradients(fast, maps, layer), plain, strict=True):
        torch.testing.assert_close(new, old)


def test_groups_of_several_channels_are_not_taken_apart() -> None:
    assert not tiles_narrow(large_maps(8), 4)


def test_narrow_maps_are_laid_out_by_their_size() -> None:
    large, small = torch.randn(2, 8, 32, 32), torch.randn(2, 8, 16, 16)
    last = torch.channels_last
    assert large.shape[2] * large.shape[3] == LARGE
    assert lay_out_narrow(large).is_contiguous(memory_format=last)
    assert lay_out_narrow(small.contiguous(memory_format=last)).is_contiguous()
    assert lay_out_narrow(small, 4 * 256).is_contiguous(memory_format=last)
    for wide in (torch.randn(2, 17, 32, 32), torch.randn(2, 33, 16, 16)):
        assert lay_out_narrow(wide) is wide


def test_stacks_of_few_channels_equal_stacks_of_plain_layers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    decoder = FrameDecoder(CONFIG, inputs=8, channels=3)
    both, frames = nn.Sequential(CONFIG.build(channels=3), decoder).double(), large_maps(3)
    found = gradients(both, frames, both)
    with torch.no_grad():
        inferred = both(frames)
    for name in ("NARROW", "LANES"):
        monkeypatch.setattr(f"tokenworlds.nets.fast.narrow.{name}", 0)
    plain = gradients(both, frames, both)
    torch.testing.assert_close(inferred, plain[0])
    for new, old in zip(found, plain, strict=True):
        torch.testing.assert_close(new, old)
