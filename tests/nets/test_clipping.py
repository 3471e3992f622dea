"""PPO's two bounds against tables worked out by hand."""

import pytest
import torch

from tokenworlds.nets.clipping import clipped_error, clipped_gain

# ratio, advantage -> gain, and what more of the ratio would gain
GAINS = [
    (1.0, 2.0, 2.0, 2.0),
    (1.05, 2.0, 2.1, 2.0),
    (1.5, 2.0, 2.2, 0.0),
    (0.5, 2.0, 1.0, 2.0),
    (0.95, -2.0, -1.9, -2.0),
    (0.5, -2.0, -1.8, 0.0),
    (1.5, -2.0, -3.0, -2.0),
]
# value, old value, target, clip -> squared error
ERRORS = [
    (1.0, 1.0, 2.0, 0.1, 1.0),
    (1.05, 1.0, 2.0, 0.1, 0.9025),
    (1.5, 1.0, 2.0, 0.1, 0.81),
    (0.5, 1.0, 2.0, 0.1, 2.25),
    (1.5, 1.0, 2.0, None, 0.25),
]


@pytest.mark.parametrize(("ratio", "advantage", "gain", "slope"), GAINS)
def test_gains_within_and_beyond_the_bound(
    ratio: float, advantage: float, gain: float, slope: float
) -> None:
    chosen = torch.tensor(ratio, requires_grad=True)
    found = clipped_gain(chosen, torch.tensor(advantage), 0.1)
    (upwards,) = torch.autograd.grad(found, chosen)
    torch.testing.assert_close(found.detach(), torch.tensor(gain))
    torch.testing.assert_close(upwards, torch.tensor(slope))


@pytest.mark.parametrize(("value", "old", "target", "clip", "error"), ERRORS)
def test_errors_of_values_that_moved(
    value: float, old: float, target: float, clip: float | None, error: float
) -> None:
    found = clipped_error(torch.tensor(value), torch.tensor(old), torch.tensor(target), clip)
    torch.testing.assert_close(found, torch.tensor(error))
