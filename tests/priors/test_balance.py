"""Balanced losses: divergences, free bits and default weights."""

from collections.abc import Mapping
from typing import Literal

import pytest
import torch
from torch import Tensor

from tokenworlds.core.types import Codes, masked_mean
from tokenworlds.nets.distributions import kl_categorical
from tokenworlds.priors.factorised import BalanceConfig, Objective, Span, balance_losses

MASK = torch.tensor([[True, True, False], [True, False, False]])


def log_probs(seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(2, 3, 4, 5, generator=generator).log_softmax(-1)


def codes(logits: Tensor) -> Codes:
    sample = logits.exp()
    return Codes(logits.argmax(-1), logits, sample, sample, sample)


def terms(
    prior: Tensor,
    posterior: Tensor,
    objective: Objective = "kl",
    free_bits: float = 0.0,
    over: Span = "frame",
    weight: Tensor | None = None,
) -> Mapping[str, Tensor]:
    config = BalanceConfig(objective=objective, free_bits=free_bits, free_bits_over=over)
    return balance_losses(config, prior, codes(posterior), MASK, {}, weight).terms


def divergence(left: Tensor, right: Tensor) -> Tensor:
    return kl_categorical(left, right).sum(-1)


@pytest.mark.parametrize("objective", ["kl", "reverse-kl"])
def test_terms_are_divergences_of_whole_frames(objective: Objective) -> None:
    posterior, prior = log_probs(0), log_probs(1)
    found = terms(prior, posterior, objective)
    pair = (posterior, prior) if objective == "kl" else (prior, posterior)
    for name in ("dynamics", "representation"):
        torch.testing.assert_close(found[name], divergence(*pair))


def test_cross_entropy_is_the_negative_log_likelihood_of_the_codes() -> None:
    posterior, prior = log_probs(0), log_probs(1)
    found = terms(prior, posterior, "cross-entropy", 9.0)
    assert found.keys() == {"dynamics"}
    nll = torch.nn.functional.nll_loss(prior.movedim(-1, 1), posterior.argmax(-1), reduction="none")
    torch.testing.assert_close(found["dynamics"], nll.sum(-1))


def test_tokens_count_by_their_weight() -> None:
    posterior, prior = log_probs(0), log_probs(1)
    weight = torch.rand(2, 3, 4)
    found = terms(prior, posterior, weight=weight)
    expected = (kl_categorical(posterior, prior) * weight).sum(-1)
    torch.testing.assert_close(found["dynamics"], expected)


def test_free_bits_per_frame_stop_the_gradient_of_frames_below() -> None:
    posterior, prior = log_probs(0), log_probs(1).requires_grad_()
    raw = divergence(posterior, prior.detach())
    threshold = raw.median().item() + 1e-4
    term = terms(prior, posterior, "kl", threshold)["dynamics"]
    torch.testing.assert_close(term, raw.clamp_min(threshold))
    (gradient,) = torch.autograd.grad(term.sum(), prior)
    assert torch.equal(gradient.abs().sum((-1, -2)) > 0, raw > threshold)


@pytest.mark.parametrize("side", ["above", "below"])
def test_free_bits_over_the_batch_stop_all_or_none(
    side: Literal["above", "below"],
) -> None:
    posterior, prior = log_probs(0), log_probs(1).requires_grad_()
    raw = divergence(posterior, prior.detach())
    mean = masked_mean(raw, MASK).item()
    threshold = mean - 0.1 if side == "above" else mean + 0.1
    term = terms(prior, posterior, "kl", threshold, "batch")["dynamics"]
    result = masked_mean(term, MASK)
    assert result.item() == pytest.approx(max(mean, threshold), rel=1e-6)
    (gradient,) = torch.autograd.grad(result, prior)
    if side == "below":
        assert not gradient.any()
        return
    (plain,) = torch.autograd.grad(masked_mean(divergence(posterior, prior), MASK), prior)
    torch.testing.assert_close(gradient, plain)


def test_free_bits_over_the_batch_ignore_masked_steps() -> None:
    posterior, prior = log_probs(0), log_probs(1)
    visible = torch.where(MASK[..., None, None], prior, posterior)
    threshold = masked_mean(divergence(posterior, prior), MASK).item() - 0.1
    found = [terms(each, posterior, "kl", threshold, "batch") for each in (prior, visible)]
    torch.testing.assert_close(*(masked_mean(each["dynamics"], MASK) for each in found))


@pytest.mark.parametrize("objective", ["kl", "cross-entropy"])
def test_each_term_has_its_default_weight(objective: Objective) -> None:
    config = BalanceConfig(objective=objective, dynamics_scale=0.5, representation_scale=0.2)
    found = balance_losses(config, log_probs(1), codes(log_probs(0)), MASK, {})
    expected = {"dynamics": 0.5, "representation": 0.2}
    assert found.weights({}) == {name: expected[name] for name in found.terms}
