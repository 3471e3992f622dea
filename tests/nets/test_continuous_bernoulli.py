"""The continuous Bernoulli against torch, against quadrature, and at extreme logits."""

import math

import pytest
import torch
from torch import Tensor

from tokenworlds.nets.distributions import FLOAT_STEP, ContinuousBernoulli, log_normaliser

LOGITS = [-100.0, -20.0, -3.0, -0.51, -0.49, -1e-3, 0.0, 1e-6, 0.3, 0.5, 2.0, 15.0, 60.0]


def gauss_legendre(pieces: int = 400) -> tuple[Tensor, Tensor]:
    """Points and weights on [0, 1]: the three-point rule on each of many intervals."""
    offset = torch.tensor([-math.sqrt(0.6), 0.0, math.sqrt(0.6)], dtype=torch.float64)
    share = torch.tensor([5.0, 8.0, 5.0], dtype=torch.float64) / 18 / pieces
    middle = (torch.arange(pieces, dtype=torch.float64) + 0.5) / pieces
    return (middle[:, None] + offset / 2 / pieces).flatten(), share.repeat(pieces)


@pytest.mark.parametrize("logit", LOGITS)
def test_it_is_a_density_with_the_stated_mean(logit: float) -> None:
    points, weights = gauss_legendre()
    law = ContinuousBernoulli(torch.full_like(points, logit))
    density = law.log_prob(points).exp() * weights
    one = torch.ones((), dtype=torch.float64)
    torch.testing.assert_close(density.sum(), one, atol=1e-7, rtol=0)
    torch.testing.assert_close((density * points).sum(), law.mean[0], atol=1e-7, rtol=0)


def test_it_agrees_with_torch() -> None:
    logits, values = torch.linspace(-15, 15, 301)[:, None], torch.linspace(0, 1, 11)
    logits, values = torch.broadcast_tensors(logits, values)
    theirs = torch.distributions.ContinuousBernoulli(logits=logits.double())
    ours = ContinuousBernoulli(logits)
    log_prob = theirs.log_prob(values.double()).float()
    torch.testing.assert_close(ours.log_prob(values), log_prob, atol=2e-5, rtol=1e-5)
    torch.testing.assert_close(ours.mean, theirs.mean.float(), atol=1e-5, rtol=0)


def test_a_limited_normaliser_agrees_with_torch_at_extreme_logits() -> None:
    logits, values = torch.tensor([-90.0, -17.0, 17.0, 90.0]), torch.tensor([0.0, 0.3, 1.0, 0.0])
    theirs = torch.distributions.ContinuousBernoulli(logits=logits).log_prob(values)
    ours = ContinuousBernoulli(logits, FLOAT_STEP)
    torch.testing.assert_close(ours.log_prob(values), theirs, atol=1e-5, rtol=1e-5)
    best = ContinuousBernoulli(torch.tensor([1e4]), FLOAT_STEP).log_prob(torch.ones(1))
    torch.testing.assert_close(best, torch.tensor([math.log(23 * math.log(2))]))


def test_the_normaliser_near_one_half() -> None:
    """log 2 + (4/3) d^2 + (104/45) d^4, where d is the probability minus one half."""
    apart = torch.tensor([0.0, 1e-4, 1e-3, 0.01, 0.05], dtype=torch.float64)
    expected = math.log(2) + 4 / 3 * apart**2 + 104 / 45 * apart**4
    torch.testing.assert_close(
        log_normaliser(torch.logit(0.5 + apart)), expected, atol=1e-7, rtol=0
    )


def test_the_gradient_is_value_minus_mean_at_any_logit() -> None:
    logits = torch.tensor([*LOGITS, 1e4, -1e4, 1e30, -1e30], requires_grad=True)
    values = torch.linspace(0, 1, len(logits))
    law = ContinuousBernoulli(logits)
    (gradient,) = torch.autograd.grad(law.log_prob(values).sum(), logits)
    torch.testing.assert_close(gradient, values - law.mean, atol=1e-6, rtol=1e-5)
    assert 0 <= law.mean.min() <= law.mean.max() <= 1


def test_a_limited_normaliser_still_corrects_wrong_pixels() -> None:
    logits = torch.tensor([40.0, -40.0], requires_grad=True)
    law = ContinuousBernoulli(logits, FLOAT_STEP)
    (wrong,) = torch.autograd.grad(law.log_prob(torch.tensor([0.0, 1.0])).sum(), logits)
    torch.testing.assert_close(wrong, torch.tensor([-1.0, 1.0]))
    (right,) = torch.autograd.grad(law.log_prob(torch.tensor([1.0, 0.0])).sum(), logits)
    torch.testing.assert_close(right, torch.zeros(2))
