"""What worlds tell an evaluation about a step; members are found, not listed."""

from typing import Any

import pytest
import torch
from torch import Tensor
from world_members import DREAMLESS, SMALL, SPACES, actions, build, names, segment

from tokenworlds.core.inspection import Prediction, PredictsSteps
from tokenworlds.core.types import ActionSpace, Segment

STEPS = 5


@pytest.fixture(params=list(SPACES))
def space(request: pytest.FixtureRequest) -> ActionSpace:
    return SPACES[request.param]


@pytest.fixture(params=[name for name in names() if name not in DREAMLESS])
def world(
    request: pytest.FixtureRequest, space: ActionSpace, monkeypatch: pytest.MonkeyPatch
) -> Any:
    # With frame stacks the losses skip the first step, and histories would differ.
    simple = {**SMALL["grid"], "frames": 1, "crosses_episodes": False}
    monkeypatch.setitem(SMALL, "grid", simple)
    return build(request.param, space)


def observed(world: Any, real: Segment) -> Any:
    """The state after all steps but the last."""
    carry = None
    for time in range(STEPS - 1):
        before = real.action[:, max(time - 1, 0)]
        reset = real.first[:, time] | (time == 0)
        carry = world.observe(real.frame[:, time], before, reset, carry)
    return carry


def started(world: Any, real: Segment) -> Any:
    return world.start(real.window(slice(0, STEPS - 1)), 1)


def predict_last(world: Any, real: Segment, carry: Any) -> Prediction:
    """The prediction of the last step, whose frame is known."""
    prediction: Prediction = world.predict(carry, real.action[:, -2], real)
    return prediction


def nll_of(prediction: Prediction) -> Tensor:
    assert prediction.index is not None
    assert prediction.log_probs is not None
    return -prediction.log_probs.gather(-1, prediction.index.unsqueeze(-1)).squeeze(-1)


@pytest.mark.parametrize("make", [observed, started])
def test_tokens_are_scored_as_in_the_losses(world: Any, space: ActionSpace, make: Any) -> None:
    real = segment(space)
    with torch.no_grad():
        terms = next(iter(reversed(world.trainables().values()))).losses(real).terms
    prediction = predict_last(world, real, make(world, real))
    if "tokens" in terms:
        expected, found = terms["tokens"][:, -1], nll_of(prediction).mean(-1)
    elif prediction.posterior is None:
        expected, found = terms["dynamics"][:, -1], nll_of(prediction).sum(-1)
    else:
        posterior, prior = prediction.posterior, prediction.log_probs
        assert prior is not None
        # One nat of a frame is free in the loss.
        expected = terms["dynamics"][:, -1]
        found = (posterior.exp() * (posterior - prior)).sum((-1, -2)).clamp_min(1.0)
    torch.testing.assert_close(found, expected, atol=1e-4, rtol=1e-4)


def test_a_prediction_is_a_distribution_over_the_tokens(world: Any, space: ActionSpace) -> None:
    assert isinstance(world, PredictsSteps)
    prediction = predict_last(world, real := segment(space), observed(world, real))
    assert prediction.log_probs is not None
    total = prediction.log_probs.exp().sum(-1)
    torch.testing.assert_close(total, torch.ones_like(total))
    assert prediction.reward.mean.shape == (3,)
    assert not prediction.log_probs.requires_grad


def test_predicting_changes_nothing_of_the_dream(world: Any, space: ActionSpace) -> None:
    real = segment(space)

    def dreamt(carry: Any, predicts: bool) -> Tensor:
        generator = torch.Generator().manual_seed(0)
        for action in actions(space, 3, 3).unbind(1):
            if predicts:
                world.predict(carry, action.flip(0), real)
            carry, _ = world.step(carry, action, generator)
        frame: Tensor = world.view(carry).frame
        return frame

    untouched = dreamt(world.start(real, 3), predicts=False)
    assert torch.equal(dreamt(world.start(real, 3), predicts=True), untouched)
