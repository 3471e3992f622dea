"""The grid of VQ tokens: the soft posterior and its temperature."""

import math

import pytest
import torch
from torch import Tensor

from tokenworlds.core.types import FrameShape
from tokenworlds.nets.codebooks import Codebook
from tokenworlds.tokenizers.vq import VQ


def build(**choices: float) -> VQ:
    torch.manual_seed(0)
    config = VQ.Config(
        filters=(8, 8),
        strides=(2, 2),
        kernel=3,
        groups=4,
        codebook=Codebook.Config(codes=6, width=4, decay=0.5),
        **choices,
    )
    return config.build(frame_shape=FrameShape(8, 8))


def frames(number: int = 16) -> Tensor:
    return torch.rand(1, number, 3, 8, 8, generator=torch.Generator().manual_seed(1))


def fit_codebook(tokenizer: VQ, updates: int = 20) -> None:
    seen = frames()
    for _ in range(updates):
        mask = torch.ones(seen.shape[:2], dtype=torch.bool)
        for follow in tokenizer.losses(seen, tokenizer.encode(seen), mask).after:
            follow()


@torch.no_grad()
def posterior_entropy(tokenizer: VQ) -> float:
    logits = tokenizer.encode(frames()).logits
    return float(torch.distributions.Categorical(logits=logits).entropy().mean())


def test_the_posterior_does_not_depend_on_the_scale_of_the_encodings() -> None:
    small, large = build(), build()
    for parameter in large.project.parameters():
        parameter.data *= 100.0
    fit_codebook(small)
    large.codebook.load_state_dict(small.codebook.state_dict())
    large.codebook.vectors *= 100.0
    large.codebook.sums *= 100.0
    large.codebook.error *= 100.0**2
    torch.testing.assert_close(large.encode(frames()).logits, small.encode(frames()).logits)


def test_the_codebook_measures_the_scale_itself() -> None:
    small, large = build(), build()
    for parameter in large.project.parameters():
        parameter.data *= 100.0
    for tokenizer in (small, large):
        torch.manual_seed(2)
        fit_codebook(tokenizer)
    assert posterior_entropy(large) == pytest.approx(posterior_entropy(small), rel=0.05)


def test_a_code_farther_by_the_mean_error_is_exp_beta_times_less_likely() -> None:
    tokenizer = build(temperature=2.0, unimix=0.0)
    fit_codebook(tokenizer)
    with torch.no_grad():
        codes = tokenizer.encode(frames())
    distance = tokenizer.codebook.distance(codes.encoded)
    error = tokenizer.codebook.error
    farther = (distance[..., 1] - distance[..., 0]) / error
    ratio = codes.logits[..., 0] - codes.logits[..., 1]
    torch.testing.assert_close(ratio, 2.0 * farther)
    assert math.isclose(float(error), float(distance.amin(-1).mean()), rel_tol=0.02)


def test_encodings_that_lie_on_their_codes_have_finite_gradients() -> None:
    tokenizer = build()
    tokenizer.codebook.error.zero_()
    tokenizer.encode(frames()).logits.square().mean().backward()
    weight = tokenizer.project.weight.grad
    assert weight is not None
    assert torch.isfinite(weight).all()
