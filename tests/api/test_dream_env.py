"""Dreams as Gymnasium environments, in which other libraries train."""

from typing import Any

import numpy as np
import pytest
import torch
from api_runs import ENDLESS, WORLDS, untrained
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AutoresetMode
from gymnasium.wrappers.vector import RecordEpisodeStatistics

import tokenworlds as tw
from tokenworlds.api.dream_states import Cohort, choose_starts, select

pytest_plugins = ("api_fixtures",)


@pytest.mark.parametrize("starts", ["replay", "reset"])
def test_a_dream_passes_the_checks_of_gymnasium(agent: tw.Agent, starts: str) -> None:
    check_env(tw.DreamEnv(agent, starts=starts), skip_render_check=True)


def test_a_dream_with_continuous_actions_passes_the_checks_too() -> None:
    agent = untrained("step-vq-m", "steer")
    check_env(tw.DreamEnv(agent, horizon=4), skip_render_check=True)
    envs = tw.DreamVectorEnv(agent, 2, horizon=4)
    envs.reset(seed=0)
    assert envs.step(np.zeros((2, 1), np.float32))[1].shape == (2,)
    with pytest.raises(tw.UserError, match="3 actions for 2 dreams"):
        envs.step(np.zeros((3, 1), np.float32))


@pytest.mark.parametrize("recipe", WORLDS)
def test_every_world_is_an_environment(recipe: str) -> None:
    env = tw.DreamEnv(untrained(recipe), horizon=3)
    obs, _ = env.reset(seed=0)
    assert env.observation_space.contains(obs)
    obs, reward, _, _, _ = env.step(1)
    assert env.observation_space.contains(obs)
    assert np.isfinite(reward)
    frame = env.render()
    assert frame is not None
    assert frame.shape[-1] == 3


def rollout(env: tw.DreamEnv, seed: int, steps: int) -> list[Any]:
    seen: list[Any] = [env.reset(seed=seed)[0]]
    for _ in range(steps):
        obs, reward, terminated, truncated, _ = env.step(1)
        seen += [obs, reward]
        if terminated or truncated:
            seen.append(env.reset()[0])
    return seen


def test_a_seed_determines_all_dreams_that_follow(agent: tw.Agent) -> None:
    env = tw.DreamEnv(agent, horizon=4)
    one, two = rollout(env, 3, 9), rollout(tw.DreamEnv(agent, horizon=4), 3, 9)
    assert all(np.array_equal(a, b) for a, b in zip(one, two, strict=True))
    other = rollout(env, 4, 9)
    assert not all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))


def test_the_horizon_truncates_a_dream(agent: tw.Agent) -> None:
    env = tw.DreamEnv(untrained("swm", changes=ENDLESS), horizon=3)
    env.reset(seed=0)
    assert [env.step(0)[2:4] for _ in range(3)] == [(False, False), (False, False), (False, True)]
    with pytest.raises(tw.UserError, match="call reset"):
        env.step(0)


def test_wrong_arguments_are_one_sentence(agent: tw.Agent) -> None:
    with pytest.raises(tw.UserError, match=r"unknown start of a dream 'resets': .*mean 'reset'"):
        tw.DreamEnv(agent, starts="resets")
    with pytest.raises(tw.UserError, match="horizon=1 or more, not 0"):
        tw.DreamEnv(agent, horizon=0)
    with pytest.raises(tw.UserError, match="no replay to dream from"):
        tw.DreamEnv(untrained("step-vq-m"), starts="replay")


def test_dreams_start_from_frames_of_replay(agent: tw.Agent) -> None:
    assert agent.replay is not None
    assert tw.DreamEnv(agent)._dreams.horizon == agent.horizon
    frames = tw.DreamVectorEnv(agent, 4).reset(seed=0)[0]
    assert frames.shape == (4, 16, 16, 3)


def test_a_vector_of_dreams_resets_in_the_step_after_an_end() -> None:
    env = tw.DreamVectorEnv(untrained("swm", changes=ENDLESS), 3, horizon=2)
    assert env.metadata["autoreset_mode"] == AutoresetMode.NEXT_STEP
    obs, _ = env.reset(seed=0)
    assert env.observation_space.contains(obs)
    actions = np.zeros(3, int)
    ends = [env.step(actions)[3].tolist() for _ in range(5)]
    go, end = [False] * 3, [True] * 3
    assert ends == [go, end, go, go, end]
    rewards = [env.step(actions)[1] for _ in range(2)]
    assert rewards[0].tolist() == [0, 0, 0]  # The step that resets.


def test_wrappers_of_gymnasium_take_a_vector_of_dreams() -> None:
    dreams = tw.DreamVectorEnv(untrained("swm", changes=ENDLESS), 2, horizon=3)
    env = RecordEpisodeStatistics(dreams)
    env.reset(seed=0)
    infos = [env.step(np.zeros(2, int))[4] for _ in range(3)]
    assert infos[-1]["episode"]["l"].tolist() == [3, 3]


@pytest.mark.parametrize("recipe", ["step-vq-t", "delta-iris"])
def test_dreams_go_on_alike_when_another_one_leaves(recipe: str) -> None:
    agent = untrained(recipe)
    world, generator = agent.module.world, torch.Generator().manual_seed(0)
    segment = choose_starts(agent, "reset")(3, np.random.default_rng(0))
    carry, _ = world.step(world.start(segment, 4), torch.tensor([0, 1, 2]), generator)
    kept = np.array([True, False, True])
    fewer = select(Cohort(np.arange(3), carry, 1), kept)
    assert fewer.places.tolist() == [0, 2]
    with torch.no_grad():
        features = [world.view(each).feature for each in (carry, fewer.carry)]
    assert torch.allclose(features[0][[0, 2]], features[1], atol=1e-5)
    if recipe == "step-vq-t":  # The reward is a mean, given the history in the KV cache.
        _, all_three = world.step(carry, torch.tensor([0, 1, 2]), generator)
        _, two = world.step(fewer.carry, torch.tensor([0, 2]), generator)
        assert torch.allclose(all_three.reward[[0, 2]], two.reward, atol=1e-6)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_ppo_of_stable_baselines_trains_in_a_dream(agent: tw.Agent) -> None:
    from stable_baselines3 import PPO

    env = tw.DreamEnv(agent)
    model = PPO("MlpPolicy", env, n_steps=64, batch_size=32, n_epochs=1, device="cpu", seed=0)
    before = [each.clone() for each in model.policy.parameters()]
    model.learn(256)
    assert model.num_timesteps == 256
    assert any((a != b).any() for a, b in zip(before, model.policy.parameters(), strict=True))
    action, _ = model.predict(env.reset(seed=0)[0], deterministic=True)
    assert env.action_space.contains(int(action))
