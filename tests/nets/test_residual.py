"""Residual stacks: published sizes, shapes, and invalid sizes."""

import pytest
import torch
from torch import nn

from tokenworlds.core.errors import UserError
from tokenworlds.core.types import FrameShape
from tokenworlds.nets.residual import FrameDecoder, FrameEncoder, Residual, groups_of, halved


def count(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


@pytest.mark.parametrize(("latent", "size"), [(8, 446_632), (4, 442_020), (16, 455_856)])
def test_encoders_have_the_published_size(latent: int, size: int) -> None:
    assert count(FrameEncoder.Config(width=32, latent=latent).build(channels=3)) == size


def test_the_layers_of_an_encoder_have_the_published_sizes() -> None:
    encoder = FrameEncoder.Config().build(channels=7)
    residual = [74_112, 16_448, 74_112, 230_144, 65_664, 295_680, 65_664, 919_040]
    assert [count(layer) for layer in encoder.layers] == [4_096, *residual, 512, 147_520]


def test_the_layers_of_a_decoder_have_the_published_sizes() -> None:
    decoder = FrameDecoder(FrameEncoder.Config(), inputs=76, channels=3)
    sizes = [476_288, 147_584, 295_680, 147_584, 119_360, 74_112, 36_928, 74_112, 128, 1_731]
    assert [count(layer) for layer in decoder.layers] == [175_360, *sizes]


def test_a_decoder_undoes_the_halvings() -> None:
    config = FrameEncoder.Config(width=4, latent=5)
    maps = config.build(channels=3)(torch.rand(2, 3, 32, 16))
    assert maps.shape == (2, 5, 4, 2)
    assert FrameDecoder(config, inputs=5, channels=3)(maps).shape == (2, 3, 32, 16)


def test_a_residual_block_adds_to_its_input() -> None:
    block = Residual(8, 8)
    last = block.layers[-1]
    assert isinstance(last, nn.Conv2d)
    assert last.bias is not None
    nn.init.zeros_(last.weight)
    nn.init.zeros_(last.bias)
    maps = torch.randn(2, 8, 4, 4)
    assert torch.equal(block(maps), maps)


def test_narrow_maps_have_fewer_groups() -> None:
    assert groups_of(8) == 8
    assert groups_of(128) == 32
    with pytest.raises(UserError, match="48 channels"):
        groups_of(48)


def test_frames_that_cannot_be_halved_are_an_error() -> None:
    assert halved(FrameShape(64, 32), 3) == (8, 4)
    with pytest.raises(UserError, match="64x36 cannot be halved 3 times"):
        halved(FrameShape(64, 36), 3)


def test_levels_need_a_multiplier_and_a_halving_each() -> None:
    with pytest.raises(ValueError, match="each level needs"):
        FrameEncoder.Config(multipliers=(1, 2), halvings=(True,))
