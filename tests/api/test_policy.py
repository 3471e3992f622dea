"""Policies in the loop of a plain Gymnasium environment."""

from typing import Any

import gymnasium
import numpy as np
import pytest
from api_runs import untrained
from gymnasium import spaces

import tokenworlds as tw
from tokenworlds.envs.catalogue import make


class Window(gymnasium.Env[Any, Any]):
    """Catch with large images and three native actions that count from 5."""

    observation_space = spaces.Box(0, 255, (128, 128, 3), np.uint8)
    action_space: Any = spaces.Discrete(3, start=5)

    def __init__(self) -> None:
        self._game = make("catch", size=128)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        return self._game.reset(seed or 0), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        step = self._game.step(np.asarray(action - 5))
        return step.frame, step.reward, step.terminated, step.truncated, {}


def test_raw_images_are_resized_and_actions_are_the_environments_own() -> None:
    agent, env = untrained("step-vq-m"), Window()
    policy = agent.as_policy(env, deterministic=True)
    (obs, _), over, first = env.reset(seed=0), False, True
    while not over:
        action = policy(obs, first=first)
        assert action in (5, 6, 7)
        obs, _, over, _, _ = env.step(action)
        first = False


def test_a_policy_that_is_reset_acts_as_in_the_first_episode() -> None:
    env = Window()
    policy = untrained("step-vq-m").as_policy(env, deterministic=True)
    obs, _ = env.reset(seed=0)
    seen = [obs, *(env.step(6)[0] for _ in range(3))]
    once = [policy(obs) for obs in seen]
    policy.reset()
    assert [policy(obs) for obs in seen] == once


def test_without_image_observations_it_reads_rendered_frames() -> None:
    agent = untrained("step-vq-m", "gym:CartPole-v1")
    env = gymnasium.make("CartPole-v1", render_mode="rgb_array")
    policy = agent.as_policy(env, deterministic=True)
    obs, _ = env.reset(seed=0)
    agent.reset()
    seen = make("gym:CartPole-v1", render=True).reset(0)
    assert np.array_equal(policy.frame(obs), seen)
    assert policy(obs) == agent.act(seen, deterministic=True)
    assert env.action_space.contains(policy(env.step(1)[0]))


def test_without_an_environment_an_observation_must_be_an_image() -> None:
    agent = untrained("step-vq-m")
    policy = agent.as_policy()
    assert policy(np.zeros((100, 80, 3), np.uint8)) in (0, 1, 2)
    with pytest.raises(tw.UserError, match=r"float32 of shape \(4,\).*as_policy\(env\)"):
        policy(np.zeros(4, np.float32))


def test_an_environment_with_other_actions_is_refused() -> None:
    env = gymnasium.make("CartPole-v1", render_mode="rgb_array")
    with pytest.raises(tw.UserError, match=r"has actions Discrete\(2\): .* are 3 choices"):
        untrained("step-vq-m").as_policy(env)
