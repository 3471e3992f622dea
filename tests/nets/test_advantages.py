"""Advantages against tables worked out by hand, and against their definition."""

import pytest
import torch
from torch import Tensor

from tokenworlds.nets.advantages import generalised_advantage, normalised
from tokenworlds.nets.returns import lambda_return


def column(*values: float) -> Tensor:
    return torch.tensor(values, dtype=torch.float32).unsqueeze(-1)


# reward, ending, cut, value, discount, trace -> advantages
TABLE = [
    # d = (0.5, 1.5, 2.5), each followed by a quarter of what comes next.
    ((1, 2, 3), (0, 0, 0), (0, 0, 0), (1, 1, 1, 1), 0.5, 0.5, (1.03125, 2.125, 2.5)),
    # trace 0: one step ahead. trace 1: all rewards and the last value.
    ((1, 2), (0, 0), (0, 0), (1, 2, 4), 0.5, 0.0, (1, 2)),
    ((1, 2), (0, 0), (0, 0), (1, 2, 4), 0.5, 1.0, (1 + 1 + 1 - 1, 2)),
    # an ending stops value and trace, half an ending halves both.
    ((1, 2, 3), (0, 1, 0), (0, 0, 0), (1, 1, 1, 1), 0.5, 0.5, (0.75, 1, 2.5)),
    ((0, 1), (0.5, 0), (0, 0), (0, 4, 0), 1.0, 1.0, (0.5 * 1, -3)),
    # what follows a cut is not known: the step before rests on the value there.
    ((1, 2, 3), (0, 0, 0), (0, 1, 0), (1, 1, 1, 1), 0.5, 0.5, (0.5, 0, 2.5)),
]


@pytest.mark.parametrize(
    ("reward", "terminated", "cut", "value", "discount", "lambda_", "expected"), TABLE
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


def test_it_is_the_discounted_sum_of_surprises_up_to_a_cut() -> None:
    reward, terminated, value, cut = noise()
    expected = torch.zeros_like(reward)
    for row in range(reward.shape[1]):
        for begin in range(len(reward)):
            share = 1.0
            for step in range(begin, len(reward)):
                if cut[step, row]:
                    break
                ahead = 0.9 * (1 - terminated[step, row])
                surprise = reward[step, row] + ahead * value[step + 1, row] - value[step, row]
                expected[begin, row] += share * surprise
                share *= 0.8 * float(ahead)
    found = generalised_advantage(reward, terminated, value, 0.9, 0.8, cut)
    torch.testing.assert_close(found, expected)


def test_with_the_value_it_is_the_lambda_return() -> None:
    reward, terminated, value, _ = noise(1)
    found = value[:-1] + generalised_advantage(reward, terminated, value, 0.9, 0.8)
    torch.testing.assert_close(found, lambda_return(reward, terminated, value[1:], 0.9, 0.8))


def test_normalising_leaves_out_what_does_not_count() -> None:
    advantage = torch.tensor([1.0, 2.0, 6.0, 100.0])
    found = normalised(advantage, torch.tensor([1.0, 1.0, 1.0, 0.0]))
    counts = advantage[:3]
    torch.testing.assert_close(found[:3], (counts - counts.mean()) / counts.std())


@pytest.mark.parametrize("weights", [(1.0,), (0.0, 0.0), (1.0, 0.0)])
def test_one_step_or_none_has_no_spread(weights: tuple[float, ...]) -> None:
    weight = torch.tensor(weights)
    found = normalised(torch.full_like(weight, 3.0), weight)
    assert (found * weight == 0).all()
    assert found.isfinite().all()
