"""Every family of worlds is measured; members are nano recipes with fresh weights."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
import torch

from tokenworlds.agent import Agent
from tokenworlds.core.config import variant
from tokenworlds.core.errors import NoModel
from tokenworlds.core.seeding import torch_generator
from tokenworlds.envs.catalogue import EnvSpec
from tokenworlds.evaluation.world import held_out, measurement
from tokenworlds.evaluation.world.held_out import (
    HeldOut,
    choose_starts,
    gather_before,
    play_held_out,
)
from tokenworlds.evaluation.world.measurement import Measured, measure
from tokenworlds.recipes.catalogue import load


def fresh(
    name: str, env: str = "catch", changes: Mapping[str, Any] | None = None
) -> tuple[Agent, EnvSpec]:
    torch.manual_seed(0)
    recipe = variant(load(name, "nano", env).recipe, changes or {})
    spec = EnvSpec(env, "", recipe.resolution, recipe.grey)
    made = spec.make()
    return Agent.build(recipe, made.frame_shape, made.action_space), spec


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(held_out, "STEPS", 9)
    monkeypatch.setattr(held_out, "ENVIRONMENTS", 2)
    monkeypatch.setattr(measurement, "WINDOWS", 3)


def measured(name: str, env: str = "catch", changes: Mapping[str, Any] | None = None) -> Measured:
    agent, spec = fresh(name, env, changes)
    held = play_held_out(agent, spec, seed=1, temperature=1.0)
    return measure(agent, held, torch_generator(0, "world"), replay=held)


def leaves(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return [leaf for each in value.values() for leaf in leaves(each)]
    if isinstance(value, list):
        return [leaf for each in value for leaf in leaves(each)]
    return [value]


@pytest.mark.parametrize(
    ("name", "lacks"),
    [
        ("step-vq-m", set()),
        ("dreamer-v3", set()),
        ("iris", {"tokens.kl", "tokens.posterior_entropy"}),
        ("delta-iris", {"tokens.kl", "tokens.posterior_entropy", "tokens.changed_accuracy"}),
        (
            "swm",
            {
                "tokens.kl",
                "tokens.posterior_entropy",
                "policy.return_spread",
                "policy.return_floor",
            },
        ),
    ],
)
def test_every_family_is_measured_and_says_what_it_lacks(name: str, lacks: set[str]) -> None:
    figures = measured(name).figures
    assert set(figures["absent"]) == lacks
    assert all(figures["absent"].values())
    ahead = figures["held_out"]["longest_horizon"]
    assert ahead == 7  # A game of catch.
    for series in ("frames", "closed_loop_frames", "persistence", "reconstruction"):
        assert len(figures["open_loop"][series]["mse"]) == ahead
    assert figures["closed_loop"]["tokens"]["nll"] > 0
    # The same steps were given as replay. The states of DreamerV3 are samples.
    assert figures["replay"]["steps"] == 18
    if name != "dreamer-v3":
        nll = figures["closed_loop"]["tokens"]["nll"]
        assert figures["replay"]["tokens"]["nll"] == pytest.approx(nll)
        assert figures["replay"]["reward"] == figures["closed_loop"]["reward"]
    assert figures["closed_loop"]["reward"]["steps"] == 18
    policy = figures["policy"]
    assert policy["entropy"] <= policy["marginal_entropy"] + 1e-6
    assert policy["marginal_entropy"] <= policy["uniform_entropy"] + 1e-5
    assert figures["value"]["steps"] == 16  # The last step of each environment has no return.
    assert not any(np.isnan(leaf) for leaf in leaves(figures) if isinstance(leaf, float))


def test_a_world_without_terminations_says_so() -> None:
    absent = measured("swm", changes={"world.termination": None}).figures["absent"]
    assert absent["termination"] == "the world predicts no terminations"


@pytest.mark.parametrize("name", ["git-storm", "dreamer-v3"])
def test_continuous_actions_are_measured_too(name: str) -> None:
    figures = measured(name, "steer").figures
    assert figures["policy"]["uniform_entropy"] == pytest.approx(np.log(2))
    assert "action_shares" not in figures["policy"]
    assert figures["closed_loop"]["termination"]["events"] == 0


def test_an_agent_without_a_world_is_refused() -> None:
    with pytest.raises(NoModel, match="no world model"):
        measured("ppo")


def test_the_measurement_is_a_function_of_the_seed() -> None:
    assert measured("dreamer-v3").figures == measured("dreamer-v3").figures


@pytest.fixture
def played() -> HeldOut:
    agent, spec = fresh("step-vq-m")
    return play_held_out(agent, spec, seed=1, temperature=1.0)


def test_a_number_of_episodes_is_played_to_the_end() -> None:
    agent, spec = fresh("step-vq-m")
    held = play_held_out(agent, spec, seed=1, temperature=1.0, episodes=3)
    assert held.finished == 3
    assert int(held.segment.terminated[held.segment.mask].sum()) == 3
    assert int(held.segment.mask.sum()) == 3 * 7


def test_a_dream_starts_where_a_frame_follows(played: HeldOut) -> None:
    starts = choose_starts(played, 100)
    follows = played.follows
    assert all(follows[row, time + 1] for row, time in starts)
    assert len(starts) == follows.sum()


def test_context_before_an_episode_is_padding(played: HeldOut) -> None:
    # Games of catch take 7 steps: step 8 is the second of its game.
    context = gather_before(played, np.array([[0, 8]]), 4)
    assert context.mask.tolist() == [[False, False, True, True]]
    assert context.first.tolist() == [[False, False, True, False]]
    assert torch.equal(context.frame[0, 2:], played.segment.frame[0, 7:9])
    assert torch.equal(context.frame[0, 0], played.segment.frame[0, 7])


def test_episodes_end_where_the_next_begins(played: HeldOut) -> None:
    assert played.ends[0].tolist() == [7] * 7 + [9] * 2
