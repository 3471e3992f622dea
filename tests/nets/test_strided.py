"""Strided convolutions: what a site sees, what it draws, and the sizes of maps."""

from typing import Any

import pytest
import torch
from torch import Tensor

from tokenworlds.nets.strided import Field, ResidualBlock, StridedDecoder, StridedEncoder

NARROW = {"filters": (4, 4, 4, 4)}


def config(**choices: Any) -> StridedEncoder.Config:
    return StridedEncoder.Config(**{**NARROW, **choices})


def seen_by(choices: StridedEncoder.Config, row: int, column: int) -> Tensor:
    """The pixels of a frame of 96x96 that a site's vector depends on."""
    torch.manual_seed(0)
    encoder = choices.build(channels=1, latent=4).eval()
    frame = torch.rand(1, 1, 96, 96, requires_grad=True)
    encoder(frame)[0, :, row, column].square().sum().backward()
    assert frame.grad is not None
    return frame.grad[0, 0] != 0


def bounds(pixels: Tensor) -> tuple[int, int, int, int]:
    rows, columns = pixels.nonzero().unbind(dim=-1)
    return int(rows.min()), int(rows.max()), int(columns.min()), int(columns.max())


def test_a_patch_site_sees_exactly_its_pixels() -> None:
    seen = seen_by(config(field="patch"), 2, 4)
    assert bounds(seen) == (32, 47, 64, 79)
    assert seen.sum() == 16 * 16


def test_a_wide_site_sees_46_pixels_before_the_residual_blocks_and_the_frame_after_them() -> None:
    assert bounds(seen_by(config(blocks=0), 2, 3)) == (17, 62, 33, 78)
    assert bounds(seen_by(config(blocks=2), 2, 3)) == (0, 94, 1, 95)


def test_a_patch_site_draws_exactly_its_pixels() -> None:
    torch.manual_seed(0)
    decoder = StridedDecoder(config(field="patch"), channels=1, latent=3)
    maps = torch.randn(1, 3, 6, 6)
    changed = maps.clone()
    changed[..., 1, 5] += 10
    drawn = (decoder(changed) != decoder(maps))[0, 0]
    assert bounds(drawn) == (16, 31, 80, 95)


@pytest.mark.parametrize("field", ["wide", "patch"])
@pytest.mark.parametrize(("height", "width"), [(16, 16), (64, 96), (32, 16)])
def test_frames_come_back_at_their_size(field: Field, height: int, width: int) -> None:
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


def test_a_residual_block_that_learnt_nothing_passes_its_map_on() -> None:
    block = ResidualBlock(4, 3, normed=False)
    for parameter in block.parameters():
        parameter.data.zero_()
    maps = torch.randn(2, 4, 6, 6)
    assert torch.equal(block(maps), maps)


def test_without_filters_there_is_nothing_to_build() -> None:
    with pytest.raises(ValueError, match="filters needs a width for each halving"):
        StridedEncoder.Config(filters=())
