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


def test_a_share_of_uniform_choice_is_part_of_what_the_policy_says() -> None:
    probabilities = discrete(0.1).mean.square()
    policy = at_temperature(discrete(0.1), 0.5)
    torch.testing.assert_close(policy.mean, probabilities / probabilities.sum(-1, keepdim=True))


def test_temperature_one_draws_as_the_policy_says_bit_for_bit() -> None:
    for policy in (discrete(), continuous()):
        drawn = [
            choose(policy, 1.0, torch.Generator().manual_seed(3)),
            policy.sample(torch.Generator().manual_seed(3)),
        ]
        assert torch.equal(*drawn)


def test_temperature_zero_takes_the_likeliest_and_draws_nothing() -> None:
    generator = torch.Generator().manual_seed(0)
    before = generator.get_state()
    assert choose(discrete(), 0.0, generator).tolist() == [2, 0]
    assert choose(continuous(), 0.0, generator).unique().tolist() == [pytest.approx(0.3)]
    assert torch.equal(generator.get_state(), before)


@pytest.mark.parametrize("temperature", [1e-30, 1e-6, 1e-3])
def test_next_to_zero_is_next_to_the_likeliest(temperature: float) -> None:
    generator = torch.Generator().manual_seed(0)
    assert choose(discrete(), temperature, generator).tolist() == [2, 0]
    drawn = choose(continuous(), temperature, generator)
    assert (drawn - 0.3).abs().max() < 0.01


def test_the_scale_is_multiplied_by_the_temperature() -> None:
    drawn = choose(continuous(0.0, 0.4), 0.25, torch.Generator().manual_seed(1))
    assert float(drawn.std()) == pytest.approx(0.1, rel=0.03)


@pytest.mark.parametrize("temperature", [100.0, 1e30])
def test_without_bounds_all_is_equally_likely(temperature: float) -> None:
    generator = torch.Generator().manual_seed(2)
    assert at_temperature(discrete(), 1e30).mean.flatten().tolist() == pytest.approx([1 / 3] * 6)
    drawn = choose(continuous(), temperature, generator)
    assert float(drawn.mean()) == pytest.approx(0.0, abs=0.02)
    assert float(drawn.std()) == pytest.approx(3**-0.5, rel=0.02)


@pytest.mark.parametrize("temperature", [-1.0, float("nan")])
def test_there_is_nothing_colder_than_zero(temperature: float) -> None:
    with pytest.raises(ValueError, match="must be greater than 0"):
        choose(discrete(), temperature, None)
