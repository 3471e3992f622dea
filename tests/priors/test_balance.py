"""Two-way divergence and free bits."""

from typing import Literal

import pytest
import torch
from torch import Tensor

from tokenworlds.core.types import Codes, masked_mean
from tokenworlds.nets.distributions import kl_categorical
from tokenworlds.priors.balance import Balance, Objective

MASK = torch.tensor([[True, True, False], [True, False, False]])


def log_probs(seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(2, 3, 4, 5, generator=generator).log_softmax(-1)


def codes(logits: Tensor) -> Codes:
    sample = logits.exp()
    return Codes(logits.argmax(-1), logits, sample, sample, sample)


def divergence(left: Tensor, right: Tensor) -> Tensor:
    return kl_categorical(left, right).sum(-1)


@pytest.mark.parametrize("objective", ["kl", "reverse-kl"])
def test_terms_are_divergences_of_whole_frames(objective: Objective) -> None:
    posterior, prior = log_probs(0), log_probs(1)
    terms = Balance(objective, 0.0, "frame").terms(prior, codes(posterior), MASK)
    pair = (posterior, prior) if objective == "kl" else (prior, posterior)
    for name in ("dynamics", "representation"):
        torch.testing.assert_close(terms[name], divergence(*pair))


def test_cross_entropy_is_the_surprise_at_the_codes() -> None:
    posterior, prior = log_probs(0), log_probs(1)
    terms = Balance("cross-entropy", 9.0, "frame").terms(prior, codes(posterior), MASK)
    assert terms.keys() == {"dynamics"}
    surprise = torch.nn.functional.nll_loss(
        prior.movedim(-1, 1), posterior.argmax(-1), reduction="none"
    )
    torch.testing.assert_close(terms["dynamics"], surprise.sum(-1))


def test_sites_count_by_their_weight() -> None:
    posterior, prior = log_probs(0), log_probs(1)
    weight = torch.rand(2, 3, 4)
    terms = Balance("kl", 0.0, "frame").terms(prior, codes(posterior), MASK, weight)
    expected = (kl_categorical(posterior, prior) * weight).sum(-1)
    torch.testing.assert_close(terms["dynamics"], expected)


def test_free_bits_of_a_frame_stop_the_frames_below() -> None:
    posterior, prior = log_probs(0), log_probs(1).requires_grad_()
    raw = divergence(posterior, prior.detach())
    threshold = raw.median().item() + 1e-4
    term = Balance("kl", threshold, "frame").terms(prior, codes(posterior), MASK)["dynamics"]
    torch.testing.assert_close(term, raw.clamp_min(threshold))
    (gradient,) = torch.autograd.grad(term.sum(), prior)
    assert torch.equal(gradient.abs().sum((-1, -2)) > 0, raw > threshold)


@pytest.mark.parametrize("side", ["above", "below"])
def test_free_bits_of_a_batch_stop_all_or_none(side: Literal["above", "below"]) -> None:
    posterior, prior = log_probs(0), log_probs(1).requires_grad_()
    raw = divergence(posterior, prior.detach())
    mean = masked_mean(raw, MASK).item()
    threshold = mean - 0.1 if side == "above" else mean + 0.1
    term = Balance("kl", threshold, "batch").terms(prior, codes(posterior), MASK)["dynamics"]
    result = masked_mean(term, MASK)
    assert result.item() == pytest.approx(max(mean, threshold), rel=1e-6)
    (gradient,) = torch.autograd.grad(result, prior)
    if side == "below":
        assert not gradient.any()
        return
    (plain,) = torch.autograd.grad(masked_mean(divergence(posterior, prior), MASK), prior)
    torch.testing.assert_close(gradient, plain)


def test_free_bits_of_a_batch_look_only_at_steps_that_count() -> None:
    posterior, prior = log_probs(0), log_probs(1)
    seen = torch.where(MASK[..., None, None], prior, posterior)
    balance = Balance("kl", masked_mean(divergence(posterior, prior), MASK).item() - 0.1, "batch")
    terms = [balance.terms(each, codes(posterior), MASK)["dynamics"] for each in (prior, seen)]
    torch.testing.assert_close(*(masked_mean(term, MASK) for term in terms))
