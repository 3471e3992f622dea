"""Distributions of heads against values computed by hand or by another method."""

import math

import pytest
import torch
from torch import Tensor

from tokenworlds.nets.distributions import (
    Bernoulli,
    Bins,
    CategoricalDistribution,
    TwoHot,
    kl_categorical,
    mix_uniform,
    mixed_probs,
    sample_from_probs,
    sample_index,
    symexp,
    symlog,
)


@pytest.mark.parametrize(
    ("x", "expected"), [(0.0, 0.0), (math.e - 1, 1.0), (1 - math.e, -1.0), (math.exp(3) - 1, 3.0)]
)
def test_symlog_table(x: float, expected: float) -> None:
    assert symlog(torch.tensor(x)).item() == pytest.approx(expected, abs=1e-6)
    assert symexp(torch.tensor(expected)).item() == pytest.approx(x, abs=1e-5)


def two_hot_at(place: int, share: float, bins: int = 5) -> TwoHot:
    """Bins at -2, -1, 0, 1, 2 in symlog space, with weight on a bin and the next."""
    weights = torch.full((bins,), 1e-12)
    weights[place] = 1 - share
    weights[place + 1] += share
    return TwoHot(weights.log(), limit=2.0)


def test_the_mean_of_symlog_bins_is_taken_in_symlog_space() -> None:
    assert two_hot_at(3, 0.0).mean.item() == pytest.approx(math.e - 1, rel=1e-5)
    assert two_hot_at(2, 0.5).mean.item() == pytest.approx(math.exp(0.5) - 1, rel=1e-5)


def test_the_two_hot_loss_weights_the_neighbours_by_nearness() -> None:
    logits = torch.tensor([0.0, 1.0, 2.0, 3.0, 4.0])
    log_probs = logits - logits.logsumexp(0)
    target = torch.tensor(math.exp(0.25) - 1)  # symlog: 0.25, between the bins at 0 and 1
    expected = -(0.75 * log_probs[2] + 0.25 * log_probs[3])
    loss = TwoHot(logits, limit=2.0).loss(target)
    assert loss.item() == pytest.approx(expected.item(), rel=1e-5)


@pytest.mark.parametrize(("target", "bin_index"), [(1e9, 4), (-1e9, 0), (math.exp(2) - 1, 4)])
def test_targets_beyond_symlog_bins_count_as_the_outermost_bin(
    target: float, bin_index: int
) -> None:
    logits = torch.tensor([0.3, -1.0, 2.0, 0.5, 1.0])
    expected = -(logits - logits.logsumexp(0))[bin_index]
    loss = TwoHot(logits, limit=2.0).loss(torch.tensor(target))
    assert loss.item() == pytest.approx(expected.item(), rel=1e-5)


@pytest.mark.parametrize("bins", ["symlog", "symexp"])
def test_fitted_two_hot_logits_recover_any_reward(bins: Bins) -> None:
    targets = torch.tensor([-300.0, -1.0, 0.0, 0.37, 2.0, 1234.5])
    logits = torch.zeros(6, 255, requires_grad=True)
    optimizer = torch.optim.Adam([logits], lr=0.5)
    for _ in range(300):
        optimizer.zero_grad()
        TwoHot(logits, bins).loss(targets).sum().backward()
        optimizer.step()
    torch.testing.assert_close(TwoHot(logits.detach(), bins).mean, targets, rtol=0.01, atol=0.01)


def weights_of(target: Tensor, bins: Bins, count: int = 255) -> Tensor:
    """The two-hot weights of targets: minus the loss's gradient by the log-probabilities."""
    logits = torch.zeros(*target.shape, count, dtype=target.dtype, requires_grad=True)
    (gradient,) = torch.autograd.grad(TwoHot(logits, bins).loss(target).sum(), logits)
    return 1 / count - gradient


@pytest.mark.parametrize(("bins", "mean"), [("symlog", 0.59), ("symexp", 10.0)])
def test_only_symexp_bins_give_the_mean_of_a_rare_large_outcome(bins: Bins, mean: float) -> None:
    """0 with probability 0.9 and 100 with probability 0.1."""
    outcomes = torch.tensor([0.0, 100.0], dtype=torch.float64)
    weights = torch.tensor([0.9, 0.1], dtype=torch.float64) @ weights_of(outcomes, bins)
    found = TwoHot(weights.clamp_min(1e-30).log(), bins).mean
    assert found.item() == pytest.approx(mean, abs=0.005 if bins == "symlog" else 1e-9)


def test_symexp_bins_are_antisymmetric_around_an_exact_zero() -> None:
    values = TwoHot(torch.zeros(255), "symexp")._values()
    assert len(values) == 255
    assert values[127] == 0.0
    assert torch.equal(values, -values.flip(0))
    assert (values.diff() > 0).all()
    assert values[128].item() == pytest.approx(0.1706, abs=1e-4)
    assert values[-1].item() == pytest.approx(4.85e8, rel=1e-3)


@pytest.mark.parametrize("bins", ["symlog", "symexp"])
@pytest.mark.parametrize("count", [3, 41, 255])
def test_uniform_logits_have_the_loss_of_a_uniform_guess(bins: Bins, count: int) -> None:
    law = TwoHot(torch.zeros(4, count), bins)
    target = torch.tensor([0.0, 1.0, -7.3, 1e12])
    torch.testing.assert_close(law.loss(target), torch.full((4,), math.log(count)))
    assert law.entropy().tolist() == pytest.approx([math.log(count)] * 4)


def test_uniform_symexp_logits_have_mean_zero_exactly_and_loss_ln_255() -> None:
    law = TwoHot(torch.full((3, 255), 0.7), "symexp")
    assert law.mean.tolist() == [0.0] * 3
    assert law.loss(torch.zeros(3)).tolist() == pytest.approx([5.541] * 3, abs=5e-4)


def test_symexp_weights_are_linear_in_raw_distance_and_give_back_their_target() -> None:
    values = TwoHot(torch.zeros(255, dtype=torch.float64), "symexp")._values()
    targets = torch.tensor([-1e6, -3.0, -0.01, 0.0, 0.05, 1.0, 100.0], dtype=torch.float64)
    weights = weights_of(targets, "symexp")
    assert ((weights > 1e-12).sum(-1) <= 2).all()
    torch.testing.assert_close(weights @ values, targets, rtol=1e-12, atol=1e-6)
    upper = weights[4, 128].item()
    assert upper == pytest.approx(0.05 / values[128].item())
    mean = TwoHot(weights.clamp_min(1e-40).log(), "symexp").mean
    torch.testing.assert_close(mean, targets, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(("target", "index"), [(1e12, 254), (-1e12, 0), (float("inf"), 254)])
def test_targets_beyond_symexp_bins_count_as_the_outermost_bin(target: float, index: int) -> None:
    logits = torch.randn(255, generator=torch.Generator().manual_seed(0))
    expected = -logits.log_softmax(-1)[index]
    torch.testing.assert_close(TwoHot(logits, "symexp").loss(torch.tensor(target)), expected)


@pytest.mark.parametrize("bins", ["symlog", "symexp"])
def test_the_mode_and_the_samples_of_a_two_hot_are_values_of_bins(bins: Bins) -> None:
    logits = torch.full((2, 255), -1e9)
    logits[0, 127], logits[1, 254] = 0.0, 0.0
    law = TwoHot(logits, bins)
    expected = torch.tensor([0.0, math.expm1(20.0)])
    torch.testing.assert_close(law.mode, expected)
    assert torch.equal(law.sample(torch.Generator().manual_seed(0)), law.mode)


def test_unimix_is_a_mixture_of_probabilities() -> None:
    logits = torch.tensor([5.0, 0.0, -5.0])
    expected = 0.9 * torch.softmax(logits, -1) + 0.1 / 3
    torch.testing.assert_close(mix_uniform(logits, 0.1).exp(), expected)
    torch.testing.assert_close(mix_uniform(logits, 0.0).exp(), torch.softmax(logits, -1))


def test_samples_follow_the_probabilities() -> None:
    probs = torch.tensor([0.5, 0.3, 0.15, 0.05])
    generator = torch.Generator().manual_seed(0)
    sampled = sample_index(probs.log().expand(40_000, 4), generator)
    shares = torch.bincount(sampled, minlength=4) / 40_000
    torch.testing.assert_close(shares, probs, atol=0.01, rtol=0)


def test_samples_from_probabilities_follow_them_and_mixing_adds_a_uniform_share() -> None:
    probs = torch.tensor([0.0, 0.5, 0.2, 0.3, 0.0])
    generator = torch.Generator().manual_seed(0)
    share = (
        torch.bincount(sample_from_probs(probs.expand(40_000, 5), generator), minlength=5) / 40_000
    )
    torch.testing.assert_close(share, probs, atol=0.01, rtol=0)
    assert not share[probs == 0].any()
    mixed = mixed_probs(probs.log(), 0.5)
    torch.testing.assert_close(mixed, 0.5 * probs + 0.1)
    torch.testing.assert_close(mixed, mix_uniform(probs.log(), 0.5).exp())


@pytest.mark.parametrize("temperature", [0.5, 2.0, 1e-3])
def test_a_temperature_raises_probabilities_to_its_inverse(temperature: float) -> None:
    probs = torch.tensor([0.1, 0.3, 0.6])
    count = 20_000
    generator = torch.Generator().manual_seed(0)
    index = sample_from_probs(probs.expand(count, 3), generator, temperature)
    power = probs.double() ** (1 / temperature)
    expected = (power / power.sum()).numpy()
    found = torch.bincount(index, minlength=3) / count
    assert found.numpy() == pytest.approx(expected, abs=0.015)


def test_samples_are_a_function_of_the_generator() -> None:
    log_probs = torch.zeros(64, 8).log_softmax(-1)
    first, second, other = (
        sample_index(log_probs, torch.Generator().manual_seed(seed)) for seed in (1, 1, 2)
    )
    assert torch.equal(first, second)
    assert not torch.equal(first, other)


def test_an_index_is_sampled_where_the_running_sum_passes_a_random_number() -> None:
    probs = torch.rand(50, 7, generator=torch.Generator().manual_seed(0))
    probs[:, [0, 3, 6]] = 0.0
    probs = probs / probs.sum(-1, keepdim=True)
    sampled = sample_index(probs.log(), torch.Generator().manual_seed(1))
    chances = torch.rand(50, 1, generator=torch.Generator().manual_seed(1))
    for row, chance, index in zip(probs.tolist(), chances.tolist(), sampled.tolist(), strict=True):
        assert row[index] > 0
        assert sum(row[:index]) <= chance[0] + 1e-6
        assert chance[0] <= sum(row[: index + 1]) + 1e-6


@pytest.mark.parametrize("total", [0.99999994, 1.0, 1.0000001, 1.0000002])
def test_the_largest_random_number_samples_no_impossible_index(
    total: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    largest = 1 - 2**-24
    monkeypatch.setattr(torch, "rand", lambda shape, **options: torch.full(shape, largest))
    assert sample_index(torch.tensor([total, 0.0]).log(), None) == 0


def test_nan_probabilities_give_a_valid_index() -> None:
    assert sample_index(torch.full((5, 3), torch.nan), None).max() < 3


def test_kl_of_two_coins() -> None:
    left, right = torch.tensor([0.5, 0.5]).log(), torch.tensor([0.9, 0.1]).log()
    expected = 0.5 * math.log(0.5 / 0.9) + 0.5 * math.log(0.5 / 0.1)
    assert kl_categorical(left, right).item() == pytest.approx(expected, rel=1e-5)
    assert kl_categorical(left, left).item() == pytest.approx(0.0, abs=1e-7)


def test_categorical_entropy_and_mode() -> None:
    uniform = CategoricalDistribution.of(torch.zeros(4))
    assert uniform.entropy().item() == pytest.approx(math.log(4))
    assert CategoricalDistribution.of(torch.tensor([0.0, 3.0, 1.0])).mode.item() == 1


@pytest.mark.parametrize("probability", [0.01, 0.3, 0.5, 0.99])
def test_bernoulli_against_its_definition(probability: float) -> None:
    coin = Bernoulli(torch.tensor(math.log(probability / (1 - probability))))
    assert coin.mean.item() == pytest.approx(probability, rel=1e-4)
    assert coin.loss(torch.tensor(True)).item() == pytest.approx(-math.log(probability), rel=1e-4)
    entropy = -probability * math.log(probability) - (1 - probability) * math.log(1 - probability)
    assert coin.entropy().item() == pytest.approx(entropy, rel=1e-4)
    assert coin.mode.item() == (probability > 0.5)


@pytest.mark.parametrize("bins", ["symlog", "symexp"])
def test_a_nan_target_gives_a_nan_loss(bins: Bins) -> None:
    loss = TwoHot(torch.zeros(2, 255), bins).loss(torch.tensor([float("nan"), 1.0]))
    assert loss.isnan().tolist() == [True, False]
