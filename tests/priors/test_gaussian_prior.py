"""The Gaussian prior: its loss, its samples, and learning."""

import pytest
import torch
from torch import Tensor
from torch.distributions import Normal

from tokenworlds.core.errors import UserError
from tokenworlds.core.types import GaussianLatent, Losses
from tokenworlds.priors.gaussian import GaussianPrior

MASK = torch.tensor([[True, True, False], [True, False, False]])


def make_prior(shared: bool = True) -> GaussianPrior:
    torch.manual_seed(0)
    return GaussianPrior.Config(shared=shared).build(width=12, tokens=4, code_width=2)


def latent_of(vector: Tensor) -> GaussianLatent:
    return GaussianLatent(vector, vector, torch.zeros_like(vector))


def random_batch() -> tuple[Tensor, Tensor]:
    return torch.randn(2, 3, 12), torch.randn(2, 3, 4, 2)


def losses(prior: GaussianPrior, feature: Tensor, vector: Tensor) -> Losses:
    return prior.losses(feature, latent_of(vector), MASK)


@pytest.mark.parametrize("shared", [True, False])
def test_the_loss_is_the_negative_log_likelihood_of_the_latents(shared: bool) -> None:
    prior = make_prior(shared)
    feature, vector = random_batch()
    mean, log_variance = prior.predict(feature)
    normal = Normal(mean, log_variance.exp().sqrt())
    found = losses(prior, feature, vector)
    assert found.terms.keys() == {"dynamics"}
    assert torch.equal(found.masks["dynamics"], MASK)
    torch.testing.assert_close(found.terms["dynamics"], -normal.log_prob(vector).sum((-1, -2)))


def test_padding_is_ignored_by_metrics() -> None:
    prior = make_prior()
    feature, vector = random_batch()
    other = torch.where(MASK[..., None, None], vector, 100.0)
    left, right = (losses(prior, feature, each) for each in (vector, other))
    assert left.metrics.keys() == right.metrics.keys()
    for name, value in left.metrics.items():
        torch.testing.assert_close(value, right.metrics[name])


def test_the_prediction_moves_and_the_latents_do_not() -> None:
    prior = make_prior()
    feature, vector = (each.requires_grad_() for each in random_batch())
    losses(prior, feature, vector).means()["dynamics"].backward()
    assert vector.grad is None
    assert feature.grad is not None
    assert feature.grad[MASK].any()
    assert all(p.grad is not None and p.grad.any() for p in prior.parameters())


@torch.no_grad()
def test_a_shared_layer_reads_only_the_slice_of_its_cell() -> None:
    prior, feature = make_prior(), torch.randn(12)
    changed = feature.clone()
    changed[3:6] += 1.0
    for before, after in zip(prior.predict(feature), prior.predict(changed), strict=True):
        assert torch.equal((before != after).any(-1), torch.tensor([False, True, False, False]))


@pytest.mark.parametrize("lead", [(), (3,), (2, 3), (0,)])
@pytest.mark.parametrize("shared", [True, False])
def test_samples_have_the_stated_shape_and_no_gradient(shared: bool, lead: tuple[int, ...]) -> None:
    sampled = make_prior(shared).sample(torch.randn(*lead, 12), None)
    assert sampled.shape == (*lead, 4, 2)
    assert not sampled.requires_grad


def test_samples_are_a_function_of_the_generator() -> None:
    prior, feature = make_prior(), torch.randn(5, 12)
    before = torch.get_rng_state()
    sampled = [prior.sample(feature, torch.Generator().manual_seed(seed)) for seed in (1, 1, 2)]
    assert torch.equal(sampled[0], sampled[1])
    assert not torch.equal(sampled[0], sampled[2])
    assert torch.equal(torch.get_rng_state(), before)


@torch.no_grad()
def test_samples_have_the_predicted_mean_and_variance() -> None:
    prior, feature = make_prior(), torch.randn(12)
    sampled = prior.sample(feature.expand(20_000, 12), torch.Generator().manual_seed(0))
    mean, log_variance = prior.predict(feature)
    torch.testing.assert_close(sampled.mean(0), mean, atol=0.04, rtol=0)
    torch.testing.assert_close(sampled.var(0), log_variance.exp(), atol=0, rtol=0.06)


def test_mean_and_spread_of_latents_are_learned() -> None:
    """Each latent is twice a number of the history, with noise of standard deviation 0.5."""
    prior, mask = make_prior(), torch.ones(64, 3, dtype=torch.bool)
    optimiser = torch.optim.Adam(prior.parameters(), lr=2e-2)
    for _ in range(300):
        feature = torch.randn(64, 3, 12)
        signal = 2.0 * feature.unflatten(-1, (4, 3))[..., :2]
        vector = signal + 0.5 * torch.randn_like(signal)
        loss = prior.losses(feature, latent_of(vector), mask).means()["dynamics"]
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    mean, log_variance = prior.predict(feature)
    torch.testing.assert_close(mean, signal, atol=0.3, rtol=0)
    torch.testing.assert_close(
        log_variance.exp().sqrt().mean(), torch.tensor(0.5), atol=0.05, rtol=0
    )


def test_a_history_that_cannot_be_sliced_is_an_error() -> None:
    with pytest.raises(UserError, match="history of 13 into 4"):
        GaussianPrior.Config().build(width=13, tokens=4, code_width=2)
