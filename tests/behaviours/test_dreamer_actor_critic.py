import math
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from tokenworlds.behaviours.dreamer_actor_critic import DreamerActorCritic
from tokenworlds.behaviours.imagination import Trajectory
from tokenworlds.core.types import ActionSpace, FrameShape, Segment

SPACE = ActionSpace(3)
SHAPE = FrameShape(16, 16)


def behaviour(space: ActionSpace = SPACE, **choices: object) -> DreamerActorCritic:
    torch.manual_seed(0)
    config = DreamerActorCritic.Config(hidden=(8, 8, 8), horizon=3)
    built: DreamerActorCritic = replace(config, **choices).build(  # type: ignore[arg-type]
        feature_shape=(5,), frame_shape=SHAPE, action_space=space
    )
    return built


def steps_of(reward: list[float], **flags: list[int]) -> Segment:
    """One row; flags are set at the steps named. The first step only gives the initial state."""
    count = len(reward)

    def flag(name: str) -> Tensor:
        found = torch.zeros(1, count, dtype=torch.bool)
        found[0, flags.get(name, [])] = True
        return found

    frame = torch.zeros(1, count, 16, 16, 3, dtype=torch.uint8)
    action = torch.zeros(1, count, dtype=torch.long)
    rest = (flag("terminated"), flag("truncated"), torch.ones(1, count, dtype=torch.bool))
    return Segment(frame, flag("first"), action, torch.tensor([reward]).float(), *rest)


def targets(monkeypatch: pytest.MonkeyPatch, segment: Segment, bootstrap: list[float]) -> Tensor:
    """The targets that the replayed critic is given; NaN where a step does not count."""
    made = behaviour(discount=0.5, return_lambda=0.5)
    given: list[Tensor] = []

    def note(critic: object, feature: Tensor, target: Tensor) -> Tensor:
        given.append(target)
        return torch.ones_like(target)

    monkeypatch.setattr(made, "_critic_loss", note)
    feature = torch.zeros(1, len(bootstrap), 5)
    losses = made.replay_losses(feature, torch.tensor([bootstrap]), segment)
    counted = losses.terms["replay_critic"]
    return torch.where(counted > 0, given[0], torch.nan)[0]


def test_a_replayed_return_bootstraps_from_imagined_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    found = targets(monkeypatch, steps_of([9, 1, 2, 3]), [10.0, 20.0, 40.0])
    # G_2 = 2 + 0.5 * 40; G_1 = 1 + 0.5 * (0.5 * 20 + 0.5 * G_2)
    assert found.tolist() == [1 + 0.5 * (10 + 11), 22.0]


def test_a_termination_stops_the_replayed_return(monkeypatch: pytest.MonkeyPatch) -> None:
    steps = steps_of([9, 1, 2, 3], terminated=[1], first=[2])
    found = targets(monkeypatch, steps, [10.0, 20.0, 40.0])
    assert found.tolist() == [1.0, 22.0]


def test_a_truncated_step_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    steps = steps_of([9, 1, 2, 3, 4], truncated=[2], first=[3])
    found = targets(monkeypatch, steps, [10.0, 20.0, 40.0, 80.0])
    # The truncated step passes its own imagined return back.
    assert found[0].item() == 1 + 0.5 * (0.5 * 20 + 0.5 * 20)
    assert math.isnan(found[1].item())
    assert found[2].item() == 3 + 0.5 * 80


def dream(reward: list[float], terminated: list[float]) -> Trajectory:
    count = len(reward)
    column = (torch.tensor(values).unsqueeze(1) for values in (reward, terminated))
    return Trajectory(
        torch.zeros(count + 1, 1, 5), torch.zeros(count, 1, dtype=torch.long), *column
    )


def test_steps_count_by_the_chance_to_get_there() -> None:
    made = behaviour()
    imagined = dream([0.0, 0.0, 0.0], [0.0, 0.5, 0.0])
    terms = made.losses_of(imagined, torch.tensor([0.8]), torch.zeros(3, 1)).terms
    shares = terms["entropy"] / terms["entropy"][0]
    torch.testing.assert_close(shares[:, 0], torch.tensor([1.0, 1.0, 0.5]))
    torch.testing.assert_close(terms["entropy"][0, 0], torch.tensor(-0.8 * math.log(3)))


def test_an_untrained_critic_is_uniform_and_expects_nothing() -> None:
    made = behaviour()
    returns = made.returns(dream([1.0, 0.0, 2.0], [0.0, 0.0, 0.0]))
    # Values are exactly 0: the return is the discounted sum with lambda as its discount.
    expected = torch.tensor([1 + 0.95**2 * 2, 0.95 * 2, 2.0])
    torch.testing.assert_close(returns[:, 0], expected)
    terms = made.losses_of(dream([0.0], [0.0]), torch.ones(1), torch.zeros(1, 1)).terms
    torch.testing.assert_close(terms["critic"].item(), 2 * math.log(255))


def test_the_range_of_returns_is_updated_before_use_and_only_kept_after_the_step() -> None:
    made = behaviour(range_decay=0.5)
    returns = torch.linspace(0, 100, 101).unsqueeze(1)
    imagined = dream([0.0] * 101, [0.0] * 101)
    losses = made.losses_of(imagined, torch.ones(1), returns)
    assert losses.metrics["return_spread"].item() == pytest.approx(45.0)
    assert made.return_range.spread.item() == 0.0
    for follow in losses.after:
        follow()
    assert made.return_range.spread.item() == pytest.approx(45.0)
