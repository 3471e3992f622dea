"""Dreams as arrays, for every kind of world."""

import numpy as np
import pytest
from api_runs import WORLDS, untrained
from numpy.typing import NDArray

import tokenworlds as tw

pytest_plugins = ("api_fixtures",)


def frames(count: int, agent: tw.Agent) -> NDArray[np.uint8]:
    rng = np.random.default_rng(0)
    return rng.integers(0, 256, (count, *agent.observation_space.shape), np.uint8)


@pytest.mark.parametrize("recipe", WORLDS)
def test_every_world_dreams_from_a_frame_and_from_a_history(recipe: str) -> None:
    agent = untrained(recipe)
    shape, seen = agent.observation_space.shape, frames(3, agent)
    given = agent.imagine(seen[0], [0, 1, 2, 0])
    assert given.frames.shape == (4, *shape)
    assert given.frames.dtype == np.uint8
    assert given.rewards.shape == given.terminations.shape == (4,)
    assert given.actions.tolist() == [0, 1, 2, 0]
    history = agent.imagine(seen, steps=2, past_actions=[1, 2])
    assert history.frames.shape == (2, *shape)
    assert set(history.actions.tolist()) <= {0, 1, 2}
    assert ((given.terminations >= 0) & (given.terminations <= 1)).all()


def test_one_frame_is_imagined_under_many_action_sequences(agent: tw.Agent) -> None:
    obs, plans = frames(1, agent)[0], np.array([[0, 0, 0], [2, 2, 2]])
    dream = agent.imagine(obs, plans)
    assert dream.frames.shape == (2, 3, 16, 16, 3)
    assert len(dream) == 3
    assert np.array_equal(dream.actions, plans)


def test_many_histories_are_imagined_at_once(agent: tw.Agent) -> None:
    histories = frames(6, agent).reshape(3, 2, 16, 16, 3)
    dream = agent.imagine(histories, [1, 1], past_actions=np.ones((3, 1), int))
    assert dream.rewards.shape == (3, 2)


def test_continuous_actions_are_vectors() -> None:
    agent = untrained("step-vq-m", "steer")
    obs = frames(1, agent)[0]
    assert agent.imagine(obs, np.zeros((4, 1), np.float32)).rewards.shape == (4,)
    assert agent.imagine(obs, np.zeros((2, 4, 1), np.float32)).rewards.shape == (2, 4)
    action = agent.act(obs)
    assert isinstance(action, np.ndarray)
    assert agent.action_space.contains(action)


def test_a_seed_repeats_a_dream_and_the_episode_goes_on(agent: tw.Agent) -> None:
    seen = frames(3, agent)
    agent.act(seen[0], deterministic=True)
    one, two = (agent.imagine(seen[0], steps=4, seed=7) for _ in range(2))
    assert np.array_equal(one.frames, two.frames)
    after = agent.act(seen[1], deterministic=True)
    agent.reset()
    agent.act(seen[0], deterministic=True)
    assert agent.act(seen[1], deterministic=True) == after


def test_a_history_needs_the_actions_between_its_frames(agent: tw.Agent) -> None:
    with pytest.raises(tw.UserError, match="a history of 3 frames takes past_actions, the 2"):
        agent.imagine(frames(3, agent), [1])


@pytest.mark.parametrize("actions", [[3], [-1], [0.5], [[[1]]]])
def test_actions_outside_the_space_are_refused(agent: tw.Agent, actions: list[object]) -> None:
    with pytest.raises(tw.UserError, match="whole numbers from 0 to 2"):
        agent.imagine(frames(1, agent)[0], actions)


def test_a_dream_takes_actions_or_a_number_of_steps(agent: tw.Agent) -> None:
    with pytest.raises(tw.UserError, match="steps=1 or more"):
        agent.imagine(frames(1, agent)[0])


def test_an_agent_without_a_world_model_cannot_imagine() -> None:
    agent = untrained("ppo")
    with pytest.raises(tw.UserError, match="has no model to dream with"):
        agent.imagine(frames(1, agent)[0], steps=2)
    with pytest.raises(tw.UserError, match="has no world model to dream with"):
        tw.DreamEnv(agent)
