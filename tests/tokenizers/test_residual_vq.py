"""Residual quantisation: each depth quantises what the depths before it have left over."""

from typing import Any

import pytest
import torch
from einops import rearrange, reduce
from torch import Tensor

from tokenworlds.core.types import FrameShape
from tokenworlds.nets.codebooks import Codebook
from tokenworlds.tokenizers.residual_vq import ResidualVQ

CONVOLUTIONS: dict[str, Any] = {"filters": (8, 16), "strides": (2, 2), "kernel": 3, "groups": 4}
DEPTH = 4


@pytest.fixture
def tokenizer() -> ResidualVQ:
    """With codebooks that have followed the encoder for a while."""
    torch.manual_seed(0)
    codebook = Codebook.Config(codes=16, width=8, decay=0.5, revive_below=0.1)
    config = ResidualVQ.Config(depth=DEPTH, codebook=codebook, **CONVOLUTIONS)
    built = ResidualVQ(config, frame_shape=FrameShape(16, 16)).eval()
    mask = torch.ones(4, 2, dtype=torch.bool)
    for _ in range(20):
        for follow in built.losses(frames(4, 2), built.encode(frames(4, 2)), mask).after:
            follow()
    return built


def frames(*lead: int) -> Tensor:
    return torch.rand(*lead, 3, 16, 16, generator=torch.Generator().manual_seed(1))


def by_depth(values: Tensor) -> Tensor:
    return rearrange(values, "... (k depth) d -> depth ... k d", depth=DEPTH)


def test_a_residual_is_what_the_depths_before_it_have_left(tokenizer: ResidualVQ) -> None:
    codes = tokenizer.encode(frames(3))
    encoded, vectors = by_depth(codes.encoded), by_depth(codes.vector)
    for depth in range(1, DEPTH):
        torch.testing.assert_close(encoded[depth], encoded[0] - vectors[:depth].sum(0))


def test_the_residual_decreases_with_depth(tokenizer: ResidualVQ) -> None:
    encoded = by_depth(tokenizer.encode(frames(4, 2)).encoded)
    errors = [each.square().mean().item() for each in encoded]
    assert errors == sorted(errors, reverse=True)
    assert errors[-1] < 0.5 * errors[0]


def test_each_code_is_the_nearest_of_its_own_codebook(tokenizer: ResidualVQ) -> None:
    codes = tokenizer.encode(frames(3))
    index = rearrange(codes.index, "b (k depth) -> depth b k", depth=DEPTH)
    for depth, residual in enumerate(by_depth(codes.encoded)):
        codebook = tokenizer.codebooks[depth]
        assert isinstance(codebook, Codebook)
        distance = torch.cdist(residual, codebook.vectors)
        torch.testing.assert_close(
            distance.gather(-1, index[depth].unsqueeze(-1)).squeeze(-1), distance.amin(-1)
        )


def test_looked_up_codes_have_the_vectors_that_encoding_gave(tokenizer: ResidualVQ) -> None:
    codes = tokenizer.encode(frames(3))
    torch.testing.assert_close(tokenizer.look_up(codes.index).vector, codes.vector)


def test_the_gradient_of_a_cell_reaches_the_encoder_once(tokenizer: ResidualVQ) -> None:
    codes = tokenizer.encode(frames(2))
    cells = reduce(codes.vector, "b (k depth) d -> b k d", "sum", depth=DEPTH)
    whole = tokenizer.to_cells(frames(2))
    weight = torch.randn(cells.shape, generator=torch.Generator().manual_seed(2))
    parameters = list(tokenizer.encoder.parameters())
    through = torch.autograd.grad((cells * weight).sum(), parameters)
    direct = torch.autograd.grad((whole * weight).sum(), parameters)
    for left, right in zip(through, direct, strict=True):
        torch.testing.assert_close(left, right, atol=1e-4, rtol=1e-4)
