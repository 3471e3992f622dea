"""Returns against tables worked out by hand."""

import pytest
import torch

from tokenworlds.nets.returns import lambda_return, survival


def column(*values: float) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float32).unsqueeze(-1)


# reward, ending, next value, discount, trace -> returns
TABLE = [
    # trace 1: rewards to the horizon, then the last value.
    ((1, 1, 1), (0, 0, 0), (9, 9, 8), 0.5, 1.0, (1 + 0.5 * (1 + 0.5 * (1 + 4)), 1 + 0.5 * 5, 5)),
    # trace 0: one step ahead.
    ((1, 2, 3), (0, 0, 0), (10, 20, 30), 0.5, 0.0, (6, 12, 18)),
    # an ending stops the value, and what comes after it does not matter.
    ((1, 2, 3), (0, 1, 0), (10, 20, 30), 0.5, 1.0, (2, 2, 18)),
    # half an ending halves what is ahead.
    ((0,), (0.5,), (8,), 1.0, 0.95, (4,)),
    # in between: r + g ((1 - l) V + l R).
    ((0, 1), (0, 0), (4, 2), 0.9, 0.5, (0.9 * (0.5 * 4 + 0.5 * 2.8), 1 + 0.9 * 2)),
]


@pytest.mark.parametrize(
    ("reward", "terminated", "value", "discount", "lambda_", "expected"), TABLE
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
    """In a deterministic chain the return equals the value for every trace."""
    reward, discount = torch.rand(6, 3), 0.9
    value = torch.zeros(7, 3)
    for step in reversed(range(6)):
        value[step] = reward[step] + discount * value[step + 1]
    for lambda_ in (0.0, 0.5, 1.0):
        found = lambda_return(reward, torch.zeros(6, 3), value[1:], discount, lambda_)
        torch.testing.assert_close(found, value[:-1])


def test_steps_after_an_ending_carry_no_weight() -> None:
    torch.testing.assert_close(survival(column(0, 1, 0, 0)), column(1, 1, 0, 0))
    torch.testing.assert_close(survival(column(0.5, 0.5, 0)), column(1, 0.5, 0.25))
