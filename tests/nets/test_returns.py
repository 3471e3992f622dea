"""Returns, advantages and PPO's bounds against tables worked out by hand; moving averages."""

import pytest
import torch
from torch import Tensor, nn

from tokenworlds.nets.returns import (
    ReturnRange,
    clipped_error,
    clipped_gain,
    generalised_advantage,
    lambda_return,
    move_towards,
    normalised,
    slow_copy,
    survival,
)


def column(*values: float) -> Tensor:
    return torch.tensor(values, dtype=torch.float32).unsqueeze(-1)


# reward, terminated, next value, discount, lambda -> returns
RETURNS = [
    # lambda 1: rewards to the horizon, then the last value.
    ((1, 1, 1), (0, 0, 0), (9, 9, 8), 0.5, 1.0, (1 + 0.5 * (1 + 0.5 * (1 + 4)), 1 + 0.5 * 5, 5)),
    # lambda 0: one step ahead.
    ((1, 2, 3), (0, 0, 0), (10, 20, 30), 0.5, 0.0, (6, 12, 18)),
    # a termination removes the value and all that follows.
    ((1, 2, 3), (0, 1, 0), (10, 20, 30), 0.5, 1.0, (2, 2, 18)),
    # a termination with probability one half halves what follows.
    ((0,), (0.5,), (8,), 1.0, 0.95, (4,)),
    # in between: r + g ((1 - l) V + l R).
    ((0, 1), (0, 0), (4, 2), 0.9, 0.5, (0.9 * (0.5 * 4 + 0.5 * 2.8), 1 + 0.9 * 2)),
]


@pytest.mark.parametrize(
    ("reward", "terminated", "value", "discount", "lambda_", "expected"), RETURNS
)
def test_lambda_return_table(
    reward: tuple[float, ...],
    terminated: tuple[float, ...],
    value: tuple[float, ...],
    discount: float,
    lambda_: float,
    expected: tuple[float, ...],
) -> None:
    found = lambda_return(column(*reward), column(*terminated), column(*value), discount, lambda_)
    torch.testing.assert_close(found, column(*expected))


def test_true_values_are_a_fixed_point() -> None:
    """In a deterministic chain the return equals the value for every lambda."""
    reward, discount = torch.rand(6, 3), 0.9
    value = torch.zeros(7, 3)
    for step in reversed(range(6)):
        value[step] = reward[step] + discount * value[step + 1]
    for lambda_ in (0.0, 0.5, 1.0):
        found = lambda_return(reward, torch.zeros(6, 3), value[1:], discount, lambda_)
        torch.testing.assert_close(found, value[:-1])


def test_steps_after_a_termination_have_no_weight() -> None:
    torch.testing.assert_close(survival(column(0, 1, 0, 0)), column(1, 1, 0, 0))
    torch.testing.assert_close(survival(column(0.5, 0.5, 0)), column(1, 0.5, 0.25))


# reward, terminated, cut, value, discount, lambda -> advantages
ADVANTAGES = [
    # d = (0.5, 1.5, 2.5), each followed by a quarter of the next.
    ((1, 2, 3), (0, 0, 0), (0, 0, 0), (1, 1, 1, 1), 0.5, 0.5, (1.03125, 2.125, 2.5)),
    # lambda 0: one step ahead. lambda 1: all rewards and the last value.
    ((1, 2), (0, 0), (0, 0), (1, 2, 4), 0.5, 0.0, (1, 2)),
    ((1, 2), (0, 0), (0, 0), (1, 2, 4), 0.5, 1.0, (1 + 1 + 1 - 1, 2)),
    # a termination stops value and sum; with probability one half it halves both.
    ((1, 2, 3), (0, 1, 0), (0, 0, 0), (1, 1, 1, 1), 0.5, 0.5, (0.75, 1, 2.5)),
    ((0, 1), (0.5, 0), (0, 0), (0, 4, 0), 1.0, 1.0, (0.5 * 1, -3)),
    # after a cut nothing is known: the step before bootstraps from the value there.
    ((1, 2, 3), (0, 0, 0), (0, 1, 0), (1, 1, 1, 1), 0.5, 0.5, (0.5, 0, 2.5)),
]


@pytest.mark.parametrize(
    ("reward", "terminated", "cut", "value", "discount", "lambda_", "expected"), ADVANTAGES
)
def test_advantage_table(
    reward: tuple[float, ...],
    terminated: tuple[float, ...],
    cut: tuple[float, ...],
    value: tuple[float, ...],
    discount: float,
    lambda_: float,
    expected: tuple[float, ...],
) -> None:
    outcome = column(*reward), column(*terminated), column(*value)
    found = generalised_advantage(*outcome, discount, lambda_, column(*cut).bool())
    torch.testing.assert_close(found, column(*expected))


def noise(seed: int = 0, steps: int = 7, rows: int = 5) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    reward, value = (torch.randn(n, rows, generator=generator) for n in (steps, steps + 1))
    terminated = torch.rand(steps, rows, generator=generator).round(decimals=1)
    cut = torch.rand(steps, rows, generator=generator) < 0.2
    return reward, terminated, value, cut


def test_the_advantage_is_the_discounted_sum_of_temporal_differences_up_to_a_cut() -> None:
    reward, terminated, value, cut = noise()
    expected = torch.zeros_like(reward)
    for row in range(reward.shape[1]):
        for start in range(len(reward)):
            share = 1.0
            for step in range(start, len(reward)):
                if cut[step, row]:
                    break
                ahead = 0.9 * (1 - terminated[step, row])
                error = reward[step, row] + ahead * value[step + 1, row] - value[step, row]
                expected[start, row] += share * error
                share *= 0.8 * float(ahead)
    found = generalised_advantage(reward, terminated, value, 0.9, 0.8, cut)
    torch.testing.assert_close(found, expected)


def test_advantage_plus_value_is_the_lambda_return() -> None:
    reward, terminated, value, _ = noise(1)
    found = value[:-1] + generalised_advantage(reward, terminated, value, 0.9, 0.8)
    torch.testing.assert_close(found, lambda_return(reward, terminated, value[1:], 0.9, 0.8))


def test_normalising_ignores_steps_without_weight() -> None:
    advantage = torch.tensor([1.0, 2.0, 6.0, 100.0])
    found = normalised(advantage, torch.tensor([1.0, 1.0, 1.0, 0.0]))
    counts = advantage[:3]
    torch.testing.assert_close(found[:3], (counts - counts.mean()) / counts.std())


@pytest.mark.parametrize("weights", [(1.0,), (0.0, 0.0), (1.0, 0.0)])
def test_at_most_one_step_normalises_to_zero(weights: tuple[float, ...]) -> None:
    weight = torch.tensor(weights)
    found = normalised(torch.full_like(weight, 3.0), weight)
    assert (found * weight == 0).all()
    assert found.isfinite().all()


# ratio, advantage -> gain, and its derivative by the ratio
GAINS = [
    (1.0, 2.0, 2.0, 2.0),
    (1.05, 2.0, 2.1, 2.0),
    (1.5, 2.0, 2.2, 0.0),
    (0.5, 2.0, 1.0, 2.0),
    (0.95, -2.0, -1.9, -2.0),
    (0.5, -2.0, -1.8, 0.0),
    (1.5, -2.0, -3.0, -2.0),
]


@pytest.mark.parametrize(("ratio", "advantage", "gain", "slope"), GAINS)
def test_gains_within_and_beyond_the_bound(
    ratio: float, advantage: float, gain: float, slope: float
) -> None:
    chosen = torch.tensor(ratio, requires_grad=True)
    found = clipped_gain(chosen, torch.tensor(advantage), 0.1)
    (derivative,) = torch.autograd.grad(found, chosen)
    torch.testing.assert_close(found.detach(), torch.tensor(gain))
    torch.testing.assert_close(derivative, torch.tensor(slope))


# value, old value, target, clip -> squared error
ERRORS = [
    (1.0, 1.0, 2.0, 0.1, 1.0),
    (1.05, 1.0, 2.0, 0.1, 0.9025),
    (1.5, 1.0, 2.0, 0.1, 0.81),
    (0.5, 1.0, 2.0, 0.1, 2.25),
    (1.5, 1.0, 2.0, None, 0.25),
]


@pytest.mark.parametrize(("value", "old", "target", "clip", "error"), ERRORS)
def test_errors_of_values_that_moved(
    value: float, old: float, target: float, clip: float | None, error: float
) -> None:
    found = clipped_error(torch.tensor(value), torch.tensor(old), torch.tensor(target), clip)
    torch.testing.assert_close(found, torch.tensor(error))


def test_slow_copy_moves_by_its_share_and_is_not_trained() -> None:
    fast = nn.Linear(2, 2)
    slow = slow_copy(fast)
    before = slow.weight.clone()
    with torch.no_grad():
        fast.weight.add_(1.0)
    move_towards(slow, fast, decay=0.9)
    torch.testing.assert_close(slow.weight, before + 0.1)
    assert not any(parameter.requires_grad for parameter in slow.parameters())


def test_return_range_follows_the_percentiles() -> None:
    spread = ReturnRange(decay=0.0)
    spread.update(torch.linspace(0, 100, 1001))
    assert spread.scale().item() == 90.0


def test_small_returns_are_not_amplified() -> None:
    spread = ReturnRange(decay=0.0)
    spread.update(torch.linspace(0, 0.01, 11))
    assert spread.scale().item() == 1.0


def test_a_lower_floor_amplifies_small_returns() -> None:
    spread = ReturnRange(decay=0.0, floor=0.1)
    spread.update(torch.linspace(0, 0.2, 1001))
    assert spread.scale().item() == pytest.approx(0.18)
    spread.update(torch.linspace(0, 0.01, 1001))
    assert spread.scale().item() == pytest.approx(0.1)
