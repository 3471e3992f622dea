"""An agent acts, imagines, plays and is saved."""

from pathlib import Path

import numpy as np
import pytest
from api_runs import WORLDS, untrained
from gymnasium.utils.env_checker import check_env
from numpy.typing import NDArray

import tokenworlds as tw
from tokenworlds.core.seeding import torch_generator

pytest_plugins = ("api_fixtures",)


def frames(count: int, agent: tw.Agent) -> NDArray[np.uint8]:
    rng = np.random.default_rng(0)
    return rng.integers(0, 256, (count, *agent.observation_space.shape), np.uint8)


def play(agent: tw.Agent, seed: int) -> list[int | NDArray[np.generic]]:
    """The actions of a game."""
    env = agent.make_env()
    obs, _ = env.reset(seed=seed)
    actions, done = [], False
    while not done:
        actions.append(agent.act(obs))
        obs, _, terminated, truncated, _ = env.step(actions[-1])
        done = terminated or truncated
    return actions


def test_it_plays_a_whole_game_in_its_own_environment(agent: tw.Agent) -> None:
    assert len(play(agent, 0)) == 7
    assert all(isinstance(action, int) for action in play(agent, 1))


def test_its_own_environment_passes_the_checks_of_gymnasium(agent: tw.Agent) -> None:
    check_env(agent.make_env(), skip_render_check=True)


def test_after_a_reset_it_acts_as_if_it_had_seen_nothing(agent: tw.Agent) -> None:
    seen = frames(4, agent)
    fresh = [agent.act(obs, deterministic=True) for obs in seen]
    agent.reset()
    assert [agent.act(obs, deterministic=True) for obs in seen] == fresh


@pytest.mark.parametrize("recipe", WORLDS)
def test_act_equals_the_stateless_form(recipe: str) -> None:
    agent, carry = untrained(recipe), None
    rows = frames(6, agent).reshape(3, 2, *agent.observation_space.shape)
    agent.reset(seed=4)
    generator = torch_generator(4, "api")
    for step, obs in enumerate(rows):
        first = np.array([step == 0, step != 1])
        agent.reset(first)
        kept = agent.act(obs, deterministic=True)
        action, carry = agent.module.act(obs, first, carry, generator, temperature=0.0)
        assert np.array_equal(kept, action.numpy())


def test_first_marks_the_rows_of_a_batch_that_begin_anew(agent: tw.Agent) -> None:
    obs = frames(2, agent)
    together = agent.act(obs, deterministic=True)
    agent.act(obs[::-1].copy())
    again = agent.act(obs, first=np.array([True, True]), deterministic=True)
    assert np.array_equal(together, again)


def test_a_seed_repeats_sampled_actions(agent: tw.Agent) -> None:
    obs = frames(8, agent)
    agent.reset(seed=5)
    drawn = agent.act(obs, deterministic=False)
    agent.reset(seed=5)
    assert np.array_equal(agent.act(obs, deterministic=False), drawn)


@pytest.mark.parametrize(
    ("obs", "words"),
    [
        (np.zeros((84, 84, 3), np.uint8), "uint8 of shape (84, 84, 3)"),
        (np.zeros((16, 16, 3), np.float32), "float32 of shape (16, 16, 3)"),
        (np.zeros((0, 16, 16, 3), np.uint8), "uint8 of shape (0, 16, 16, 3)"),
    ],
)
def test_a_wrong_observation_is_named_in_one_sentence(
    agent: tw.Agent, obs: NDArray[np.generic], words: str
) -> None:
    with pytest.raises(tw.UserError) as caught:
        agent.act(obs)
    assert words in str(caught.value)
    assert "uint8 of shape (16, 16, 3)" in str(caught.value)


def test_the_number_of_environments_changes_only_after_a_reset(agent: tw.Agent) -> None:
    agent.act(frames(2, agent))
    with pytest.raises(tw.UserError, match="3 observations follow 2: call reset"):
        agent.act(frames(3, agent))
    agent.reset()
    assert len(np.atleast_1d(agent.act(frames(3, agent)))) == 3


def test_an_evaluation_repeats_the_final_one_of_the_run(run: tw.Run, agent: tw.Agent) -> None:
    result = agent.evaluate(episodes=3)
    assert result.returns.tolist() == list(run.returns)
    assert result.mean == pytest.approx(np.mean(run.returns))
    assert (result.env, result.protocol) == ("toy:catch", "toy")
    assert "3 episodes of toy:catch, protocol toy, greedy actions" in str(result)


def test_a_saved_agent_acts_imagines_and_plays_like_the_original(
    agent: tw.Agent, tmp_path: Path
) -> None:
    copy = tw.Agent.load(agent.save(tmp_path / "agent"))
    assert copy.module.recipe == agent.module.recipe
    assert play(copy, 3) == play(agent, 3)
    obs = frames(1, agent)[0]
    ours, theirs = (each.imagine(obs, steps=3, seed=1) for each in (agent, copy))
    assert np.array_equal(ours.frames, theirs.frames)
