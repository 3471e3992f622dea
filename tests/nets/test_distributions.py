"""Heads' distributions against numbers worked out by hand or by another way."""

import math

import pytest
import torch

from tokenworlds.nets.distributions import (
    Bernoulli,
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
    """Bins at -2, -1, 0, 1, 2 in symlog, with weight on a bin and the next."""
    weights = torch.full((bins,), 1e-12)
    weights[place] = 1 - share
    weights[place + 1] += share
    return TwoHot(weights.log(), limit=2.0)


def test_two_hot_mean_is_taken_in_symlog() -> None:
    assert two_hot_at(3, 0.0).mean.item() == pytest.approx(math.e - 1, rel=1e-5)
    assert two_hot_at(2, 0.5).mean.item() == pytest.approx(math.exp(0.5) - 1, rel=1e-5)


def test_two_hot_loss_weighs_the_neighbours_by_nearness() -> None:
    logits = torch.tensor([0.0, 1.0, 2.0, 3.0, 4.0])
    log_probs = logits - logits.logsumexp(0)
    target = torch.tensor(math.exp(0.25) - 1)  # symlog: 0.25, between the bins at 0 and 1
    expected = -(0.75 * log_probs[2] + 0.25 * log_probs[3])
    loss = TwoHot(logits, limit=2.0).loss(target)
    assert loss.item() == pytest.approx(expected.item(), rel=1e-5)


@pytest.mark.parametrize(("target", "bin_index"), [(1e9, 4), (-1e9, 0), (math.exp(2) - 1, 4)])
def test_two_hot_clamps_to_the_outer_bins(target: float, bin_index: int) -> None:
    logits = torch.tensor([0.3, -1.0, 2.0, 0.5, 1.0])
    expected = -(logits - logits.logsumexp(0))[bin_index]
    loss = TwoHot(logits, limit=2.0).loss(torch.tensor(target))
    assert loss.item() == pytest.approx(expected.item(), rel=1e-5)


def test_two_hot_fit_recovers_any_reward() -> None:
    targets = torch.tensor([-300.0, -1.0, 0.0, 0.37, 2.0, 1234.5])
    logits = torch.zeros(6, 255, requires_grad=True)
    optimizer = torch.optim.Adam([logits], lr=0.5)
    for _ in range(300):
        optimizer.zero_grad()
        TwoHot(logits).loss(targets).sum().backward()
        optimizer.step()
    torch.testing.assert_close(TwoHot(logits.detach()).mean, targets, rtol=0.01, atol=0.01)


def test_unimix_is_a_mixture_of_probabilities() -> None:
    logits = torch.tensor([5.0, 0.0, -5.0])
    expected = 0.9 * torch.softmax(logits, -1) + 0.1 / 3
    torch.testing.assert_close(mix_uniform(logits, 0.1).exp(), expected)
    torch.testing.assert_close(mix_uniform(logits, 0.0).exp(), torch.softmax(logits, -1))


def test_samples_follow_the_probabilities() -> None:
    probs = torch.tensor([0.5, 0.3, 0.15, 0.05])
    generator = torch.Generator().manual_seed(0)
    drawn = sample_index(probs.log().expand(40_000, 4), generator)
    shares = torch.bincount(drawn, minlength=4) / 40_000
    torch.testing.assert_close(shares, probs, atol=0.01, rtol=0)


def test_draws_follow_the_probabilities_and_what_is_mixed_in() -> None:
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


def test_samples_are_a_function_of_the_generator() -> None:
    log_probs = torch.zeros(64, 8).log_softmax(-1)
    first, second, other = (
        sample_index(log_probs, torch.Generator().manual_seed(seed)) for seed in (1, 1, 2)
    )
    assert torch.equal(first, second)
    assert not torch.equal(first, other)


def test_an_index_is_drawn_where_running_chances_pass_a_random_number() -> None:
    probs = torch.rand(50, 7, generator=torch.Generator().manual_seed(0))
    probs[:, [0, 3, 6]] = 0.0
    probs = probs / probs.sum(-1, keepdim=True)
    drawn = sample_index(probs.log(), torch.Generator().manual_seed(1))
    chances = torch.rand(50, 1, generator=torch.Generator().manual_seed(1))
    for row, chance, index in zip(probs.tolist(), chances.tolist(), drawn.tolist(), strict=True):
        assert row[index] > 0
        assert sum(row[:index]) <= chance[0] + 1e-6
        assert chance[0] <= sum(row[: index + 1]) + 1e-6


@pytest.mark.parametrize("total", [0.99999994, 1.0, 1.0000001, 1.0000002])
def test_the_largest_random_number_draws_no_impossible_index(
    total: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    largest = 1 - 2**-24
    monkeypatch.setattr(torch, "rand", lambda shape, **facts: torch.full(shape, largest))
    assert sample_index(torch.tensor([total, 0.0]).log(), None) == 0


def test_what_is_no_number_draws_an_index_all_the_same() -> None:
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


def test_two_hot_of_no_number_is_no_number() -> None:
    loss = TwoHot(torch.zeros(2, 255)).loss(torch.tensor([float("nan"), 1.0]))
    assert loss.isnan().tolist() == [True, False]
