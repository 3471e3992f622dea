"""Outcomes that wait to be predicted are those predicted at once."""

import torch
from torch import Tensor

from tokenworlds.core.types import Outcome, PendingOutcome, stack_outcomes


def predict(feature: Tensor) -> Outcome:
    calls.append(feature.shape)
    return Outcome(feature.sum(-1), feature.amax(-1))


calls: list[torch.Size] = []


def test_many_steps_are_predicted_in_one_pass() -> None:
    calls.clear()
    features = torch.randn(5, 3, 4)
    stacked = stack_outcomes([PendingOutcome(each, predict) for each in features])
    assert calls == [(5, 3, 4)]
    torch.testing.assert_close(stacked.reward, features.sum(-1))
    torch.testing.assert_close(stacked.terminated, features.amax(-1))


def test_a_single_outcome_is_predicted_once_when_it_is_read() -> None:
    calls.clear()
    feature = torch.randn(3, 4)
    outcome = PendingOutcome(feature, predict)
    assert calls == []
    assert torch.equal(outcome.reward, feature.sum(-1))
    assert torch.equal(outcome.terminated, feature.amax(-1))
    assert calls == [(3, 4)]


def test_known_outcomes_are_stacked() -> None:
    one, other = Outcome(torch.ones(2), torch.zeros(2)), Outcome(torch.zeros(2), torch.ones(2))
    stacked = stack_outcomes([one, other])
    assert stacked.reward.tolist() == [[1, 1], [0, 0]]
    assert stacked.terminated.tolist() == [[0, 0], [1, 1]]
