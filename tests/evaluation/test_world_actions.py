"""How much of the difference between dreams is due to their actions."""

import numpy as np
import pytest
import torch
from catch_oracle import SIDE, Oracle, oracle_agent

from tokenworlds.core.seeding import torch_generator
from tokenworlds.core.types import ActionSpace
from tokenworlds.envs.catalogue import EnvSpec
from tokenworlds.evaluation.world import held_out
from tokenworlds.evaluation.world.actions import (
    action_figures,
    share_of_difference,
    two_actions,
)
from tokenworlds.evaluation.world.held_out import choose_starts, play_held_out
from tokenworlds.evaluation.world.scores import Figures


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(held_out, "STEPS", 21)
    monkeypatch.setattr(held_out, "ENVIRONMENTS", 4)


def measured(broken: Oracle) -> Figures:
    torch.manual_seed(0)
    agent = oracle_agent(broken)
    held = play_held_out(agent, EnvSpec("catch", "", SIDE), seed=2, temperature=1.0)
    starts = choose_starts(held, 48)
    return action_figures(agent, held, starts, context=8, generator=torch_generator(0, "world"))


def test_dreams_of_a_certain_world_differ_by_their_actions_alone() -> None:
    assert measured(Oracle()) == {"horizon": 1, "share": 1.0, "error": 0.0}


def test_dreams_that_do_not_depend_on_actions_differ_by_chance_alone() -> None:
    found = measured(Oracle(actions=True))
    assert abs(found["share"]) < 2 * found["error"]


def test_dreams_that_are_all_alike_have_no_share() -> None:
    found = measured(Oracle(dynamics=True))
    assert (found["share"], found["error"]) == (0.0, 0.0)


def test_the_share_and_its_error_follow_their_definitions() -> None:
    share, error = share_of_difference(np.array([1.0, 1.0]), np.array([2.0, 4.0]))
    assert share == pytest.approx(2 / 3)
    assert error == pytest.approx(1 / 9)


@pytest.mark.parametrize("space", [ActionSpace(2), ActionSpace(5)])
def test_the_two_actions_of_a_state_differ(space: ActionSpace) -> None:
    action = two_actions(space, 50, torch_generator(0, "actions")).reshape(50, 2, 2)
    assert (action[:, 0] != action[:, 1]).all()
    assert (action[:, :, 0] == action[:, :, 1]).all()
    assert set(action.flatten().tolist()) == set(range(space.size))


def test_continuous_actions_are_held_for_both_dreams() -> None:
    space = ActionSpace(3, discrete=False)
    action = two_actions(space, 7, torch_generator(0, "actions")).reshape(7, 2, 2, 3)
    assert torch.equal(action[:, :, 0], action[:, :, 1])
    assert (action[:, 0] != action[:, 1]).all()
