"""Policies at a temperature: sharper below 1, flatter above."""

import pytest
import torch

from tokenworlds.nets.distributions import CategoricalDistribution
from tokenworlds.nets.policies import TruncatedNormal, at_temperature, choose

LOGITS = torch.tensor([[0.0, 1.0, 2.0], [5.0, -5.0, 0.0]])


def discrete(unimix: float = 0.0) -> CategoricalDistribution:
    return CategoricalDistribution.of(LOGITS, unimix)


def continuous(location: float = 0.3, scale: float = 0.5) -> TruncatedNormal:
    return TruncatedNormal(torch.full((20_000, 1), location), torch.full((20_000, 1), scale))


@pytest.mark.parametrize("temperature", [0.1, 0.5, 2.0])
def test_logits_are_divided_by_the_temperature(temperature: float) -> None:
    policy = at_temperature(discrete(), temperature)
    torch.testing.assert_close(policy.mean, torch.softmax(LOGITS / temperature, dim=-1))


def test_the_uniform_share_is_part_of_the_tempered_policy() -> None:
    probabilities = discrete(0.1).mean.square()
    policy = at_temperature(discrete(0.1), 0.5)
    torch.testing.assert_close(policy.mean, probabilities / probabilities.sum(-1, keepdim=True))


def test_temperature_one_samples_the_policy_bit_for_bit() -> None:
    for policy in (discrete(), continuous()):
        sampled = [
            choose(policy, 1.0, torch.Generator().manual_seed(3)),
            policy.sample(torch.Generator().manual_seed(3)),
        ]
        assert torch.equal(*sampled)


def test_temperature_zero_takes_the_mode_and_no_random_number() -> None:
    generator = torch.Generator().manual_seed(0)
    before = generator.get_state()
    assert choose(discrete(), 0.0, generator).tolist() == [2, 0]
    assert choose(continuous(), 0.0, generator).unique().tolist() == [pytest.approx(0.3)]
    assert torch.equal(generator.get_state(), before)


@pytest.mark.parametrize("temperature", [1e-30, 1e-6, 1e-3])
def test_tiny_temperatures_approach_the_mode(temperature: float) -> None:
    generator = torch.Generator().manual_seed(0)
    assert choose(discrete(), temperature, generator).tolist() == [2, 0]
    sampled = choose(continuous(), temperature, generator)
    assert (sampled - 0.3).abs().max() < 0.01


def test_the_scale_is_multiplied_by_the_temperature() -> None:
    sampled = choose(continuous(0.0, 0.4), 0.25, torch.Generator().manual_seed(1))
    assert float(sampled.std()) == pytest.approx(0.1, rel=0.03)


@pytest.mark.parametrize("temperature", [100.0, 1e30])
def test_huge_temperatures_approach_the_uniform_distribution(temperature: float) -> None:
    generator = torch.Generator().manual_seed(2)
    assert at_temperature(discrete(), 1e30).mean.flatten().tolist() == pytest.approx([1 / 3] * 6)
    sampled = choose(continuous(), temperature, generator)
    assert float(sampled.mean()) == pytest.approx(0.0, abs=0.02)
    assert float(sampled.std()) == pytest.approx(3**-0.5, rel=0.02)


@pytest.mark.parametrize("temperature", [-1.0, float("nan")])
def test_a_temperature_that_is_not_positive_is_an_error(temperature: float) -> None:
    with pytest.raises(ValueError, match="must be greater than 0"):
        choose(discrete(), temperature, None)
