"""Strided convolutions: receptive fields and map sizes."""

from typing import Any

import pytest
import torch
from torch import Tensor

from tokenworlds.nets.strided import Field, ResidualBlock, StridedDecoder, StridedEncoder

NARROW = {"filters": (4, 4, 4, 4)}


def config(**choices: Any) -> StridedEncoder.Config:
    return StridedEncoder.Config(**{**NARROW, **choices})


def receptive_field(choices: StridedEncoder.Config, row: int, column: int) -> Tensor:
    """The pixels of a 96x96 frame that the vector of a cell depends on."""
    torch.manual_seed(0)
    encoder = choices.build(channels=1, latent=4).eval()
    frame = torch.rand(1, 1, 96, 96, requires_grad=True)
    encoder(frame)[0, :, row, column].square().sum().backward()
    assert frame.grad is not None
    return frame.grad[0, 0] != 0


def bounds(pixels: Tensor) -> tuple[int, int, int, int]:
    rows, columns = pixels.nonzero().unbind(dim=-1)
    return int(rows.min()), int(rows.max()), int(columns.min()), int(columns.max())


def test_a_patch_cell_sees_exactly_its_pixels() -> None:
    pixels = receptive_field(config(field="patch"), 2, 4)
    assert bounds(pixels) == (32, 47, 64, 79)
    assert pixels.sum() == 16 * 16


def test_a_wide_cell_sees_46_pixels_before_the_residual_blocks_and_the_frame_after() -> None:
    assert bounds(receptive_field(config(blocks=0), 2, 3)) == (17, 62, 33, 78)
    assert bounds(receptive_field(config(blocks=2), 2, 3)) == (0, 94, 1, 95)


def test_a_patch_cell_decodes_exactly_its_pixels() -> None:
    torch.manual_seed(0)
    decoder = StridedDecoder(config(field="patch"), channels=1, latent=3)
    maps = torch.randn(1, 3, 6, 6)
    changed = maps.clone()
    changed[..., 1, 5] += 10
    decoded = (decoder(changed) != decoder(maps))[0, 0]
    assert bounds(decoded) == (16, 31, 80, 95)


@pytest.mark.parametrize("field", ["wide", "patch"])
@pytest.mark.parametrize(("height", "width"), [(16, 16), (64, 96), (32, 16)])
def test_decoded_frames_have_their_original_size(field: Field, height: int, width: int) -> None:
    choices = config(field=field)
    frames = torch.rand(2, 3, height, width)
    maps = choices.build(channels=3, latent=5)(frames)
    assert maps.shape == (2, 5, height // 16, width // 16)
    assert StridedDecoder(choices, channels=3, latent=5)(maps).shape == frames.shape


def test_the_last_norm_centres_each_channel() -> None:
    frames = torch.rand(8, 1, 32, 32)
    maps = config().build(channels=1, latent=5)(frames)
    torch.testing.assert_close(maps.mean(dim=(0, 2, 3)), torch.zeros(5), atol=1e-5, rtol=0)
    free = config().build(channels=1, latent=5, normed=False)
    with torch.no_grad():
        free.layers[-1].bias.fill_(7.0)  # type: ignore[operator]
    assert free(frames).mean() > 3


def test_a_residual_block_of_zeros_is_the_identity() -> None:
    block = ResidualBlock(4, 3, normed=False)
    for parameter in block.parameters():
        parameter.data.zero_()
    maps = torch.randn(2, 4, 6, 6)
    assert torch.equal(block(maps), maps)


def test_an_encoder_needs_filters() -> None:
    with pytest.raises(ValueError, match="filters needs a width for each halving"):
        StridedEncoder.Config(filters=())
