"""Lookup-free quantisation: codes are signs, and the entropies are those of independent bits."""

import math
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from tokenworlds.core.types import FrameShape
from tokenworlds.tokenizers.lfq import LFQ, entropy, mean_probs, sign_codes

CONVOLUTIONS: dict[str, Any] = {"filters": (8, 16), "strides": (2, 2), "kernel": 3, "groups": 4}
BITS = 5


@pytest.fixture
def tokenizer() -> LFQ:
    torch.manual_seed(0)
    config = LFQ.Config(bits=BITS, unimix=0.0, sharpness=1.0, **CONVOLUTIONS)
    return LFQ(config, frame_shape=FrameShape(16, 16)).eval()


def frames(*lead: int) -> Tensor:
    return torch.rand(*lead, 3, 16, 16, generator=torch.Generator().manual_seed(1))


def losses(tokenizer: LFQ, encoded: Tensor, mask: Tensor) -> dict[str, Tensor]:
    """The loss terms of frames that were encoded to these vectors."""
    looked_up = tokenizer.look_up((tokenizer.codebook @ encoded.mT).argmax(-2))
    codes = replace(looked_up, encoded=encoded)
    return dict(tokenizer.losses(frames(*mask.shape), codes, mask).terms)


def test_an_index_is_the_binary_number_of_the_signs(tokenizer: LFQ) -> None:
    codes = tokenizer.encode(frames(3))
    weights = torch.tensor([16, 8, 4, 2, 1])
    assert torch.equal(((codes.encoded > 0) * weights).sum(-1), codes.index)
    torch.testing.assert_close(codes.vector, codes.encoded.sign())


def test_every_code_survives_a_round_trip_through_its_vector() -> None:
    vectors = sign_codes(BITS)
    assert vectors.abs().eq(1).all()
    assert torch.equal((vectors @ vectors.t()).argmax(-1), torch.arange(2**BITS))


def test_the_gradient_of_the_decoder_input_passes_the_signs_unchanged(tokenizer: LFQ) -> None:
    codes = tokenizer.encode(frames(2))
    weight = torch.randn(codes.vector.shape, generator=torch.Generator().manual_seed(2))
    (through,) = torch.autograd.grad((codes.vector * weight).sum(), codes.encoded)
    torch.testing.assert_close(through, weight)


def test_certainty_is_the_entropy_of_independent_bits(tokenizer: LFQ) -> None:
    """The posterior over codes is the product of a sigmoid for each bit."""
    encoded = torch.randn(2, 3, 16, BITS, generator=torch.Generator().manual_seed(3))
    found = losses(tokenizer, encoded, torch.ones(2, 3, dtype=torch.bool))["certainty"]
    bits = torch.distributions.Bernoulli(logits=4 * encoded).entropy()
    torch.testing.assert_close(found, bits.sum(dim=(-2, -1)), atol=1e-4, rtol=1e-4)


def test_usage_is_best_when_all_codes_are_equally_frequent(tokenizer: LFQ) -> None:
    mask = torch.ones(2, 1, dtype=torch.bool)
    even = 10 * sign_codes(BITS).reshape(2, 1, 16, BITS)
    same = even[:1].expand(2, -1, -1, -1)[..., :1, :].expand(2, 1, 16, BITS)
    most = -16 * BITS * math.log(2)
    torch.testing.assert_close(losses(tokenizer, even, mask)["usage"], torch.full((2, 1), most))
    torch.testing.assert_close(
        losses(tokenizer, same, mask)["usage"], torch.zeros(2, 1), atol=1e-4, rtol=0
    )


def test_usage_counts_the_cells_of_real_steps_alone() -> None:
    probs = torch.softmax(torch.randn(2, 3, 4, 8, generator=torch.Generator().manual_seed(4)), -1)
    mask = torch.tensor([[True, False, True], [False, False, True]])
    torch.testing.assert_close(mean_probs(probs, mask), probs[mask].mean(dim=(0, 1)))


def test_the_entropy_of_an_even_choice_is_the_logarithm_of_its_size() -> None:
    assert entropy(torch.full((8,), 1 / 8)).item() == pytest.approx(math.log(8))
