"""Finite scalar quantisation: the codes are a grid, and the nearest one is found by rounding."""

from typing import Any

import pytest
import torch
from torch import Tensor

from tokenworlds.core.types import FrameShape
from tokenworlds.tokenizers.fsq import FSQ, product_grid

CONVOLUTIONS: dict[str, Any] = {"filters": (8, 16), "strides": (2, 2), "kernel": 3, "groups": 4}
LEVELS = (5, 4, 2)


@pytest.fixture
def tokenizer() -> FSQ:
    torch.manual_seed(0)
    return FSQ(FSQ.Config(levels=LEVELS, **CONVOLUTIONS), frame_shape=FrameShape(16, 16)).eval()


def frames(*lead: int) -> Tensor:
    return torch.rand(*lead, 3, 16, 16, generator=torch.Generator().manual_seed(1))


def test_the_codebook_is_the_product_of_evenly_spaced_levels() -> None:
    expected = [[-1, -1], [-1, 1], [0, -1], [0, 1], [1, -1], [1, 1]]
    assert product_grid((3, 2)).tolist() == expected


def test_the_code_of_a_cell_is_each_number_rounded_to_its_nearest_level(tokenizer: FSQ) -> None:
    codes = tokenizer.encode(frames(7))
    steps = torch.tensor(LEVELS) - 1
    digits = ((codes.encoded + 1) / 2 * steps).round()
    places = torch.tensor([4 * 2, 2, 1])
    assert torch.equal((digits * places).sum(-1).long(), codes.index)
    torch.testing.assert_close(codes.vector, 2 * digits / steps - 1)


def test_every_code_survives_a_round_trip_through_its_vector(tokenizer: FSQ) -> None:
    index = torch.arange(tokenizer.vocabulary)
    vectors = tokenizer.token_vectors(index)
    distance = torch.cdist(vectors, tokenizer.codebook)
    assert torch.equal(distance.argmin(-1), index)
    assert distance.sort(-1).values[:, 1].min() > 0.4  # no two codes are equal


def test_the_gradient_of_the_decoder_input_passes_the_rounding_unchanged(tokenizer: FSQ) -> None:
    codes = tokenizer.encode(frames(2))
    weight = torch.randn(codes.vector.shape, generator=torch.Generator().manual_seed(2))
    (through,) = torch.autograd.grad((codes.vector * weight).sum(), codes.encoded)
    torch.testing.assert_close(through, weight)


def test_a_level_of_one_is_refused() -> None:
    with pytest.raises(ValueError, match="takes numbers of 2 or more"):
        FSQ.Config(levels=(4, 1))
