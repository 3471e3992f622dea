import subprocess
import sys
from pathlib import Path
from typing import Any

import env_trajectories
import numpy as np
import pytest
from env_trajectories import trajectory

from tokenworlds.core.errors import UserError
from tokenworlds.envs import EnvSpec, make
from tokenworlds.envs.catalogue import best_return, canonical
from tokenworlds.envs.control import (
    PROTOCOLS,
    Control,
    ControlProtocol,
    action_bounds,
    names,
)
from tokenworlds.envs.rendering import render_caller

dm_env = pytest.importorskip("dm_env")
pytest.importorskip("dm_control")
FLAT = PROTOCOLS["dmc-vision-flat"]


def run(code: str) -> tuple[int, str, str]:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize(
    ("given", "full"),
    [
        ("walker-walk", "walker-walk"),
        ("Cartpole-Balance-Sparse", "cartpole-balance_sparse"),
        ("finger_turn_easy", "finger-turn_easy"),
        ("cup-catch", "ball_in_cup-catch"),
        ("ball in cup catch", "ball_in_cup-catch"),
        ("humanoid_cmu-run", "humanoid_CMU-run"),
        ("lqr-lqr_2_1", "lqr-lqr_2_1"),
    ],
)
def test_all_spellings_of_a_task_are_stored_as_one(given: str, full: str) -> None:
    assert canonical(f"dmc:{given}") == f"dmc:{full}"


@pytest.mark.parametrize(
    ("name", "nearest"), [("walker-wlak", "walker-walk"), ("cheetah", "cheetah-run")]
)
def test_an_unknown_task_is_an_error_with_the_nearest(name: str, nearest: str) -> None:
    with pytest.raises(UserError, match=f"did you mean '{nearest}'"):
        EnvSpec(f"dmc:{name}")


def test_all_tasks_of_the_suite_are_listed() -> None:
    make("dmc:cartpole-balance").close()
    from dm_control import suite

    assert {tuple(name.split("-", 1)) for name in names()} == set(suite.ALL_TASKS)


def test_the_best_return_is_unknown() -> None:
    assert best_return("dmc:cartpole-balance") is None


def played_in_the_suite(
    domain: str, task: str, camera: int, actions: list[list[float]]
) -> tuple[list[Any], list[Any], list[float]]:
    """States, frames and rewards of the suite itself, each action executed twice."""
    from dm_control import suite

    env = suite.load(domain, task, task_kwargs={"random": np.random.RandomState([5, 0])})
    env.reset()
    states, rewards = [env.physics.get_state()], []
    images = [env.physics.render(64, 64, camera_id=camera)]
    for action in actions:
        rewards.append(env.step(action).reward + env.step(action).reward)
        states.append(env.physics.get_state())
        images.append(env.physics.render(64, 64, camera_id=camera))
    env.physics.free()
    return states, images, rewards


@pytest.mark.parametrize(
    ("domain", "task", "camera", "width"), [("reacher", "hard", 0, 2), ("walker", "walk", 0, 6)]
)
def test_games_equal_those_of_the_suite_itself(
    domain: str, task: str, camera: int, width: int
) -> None:
    generator = np.random.default_rng(0)
    actions = generator.uniform(-1, 1, (3, width)).tolist()
    env = make(f"dmc:{domain}-{task}")
    assert isinstance(env, Control)
    # An earlier game must not change the next one.
    trajectory(env, seed=1, steps=3)
    physics = env._stage._environment.physics
    frames, states, rewards = [env.reset(5)], [physics.get_state()], []
    for action in actions:
        step = env.step(np.array(action))
        frames.append(step.frame)
        states.append(physics.get_state())
        rewards.append(step.reward)
    expected = render_caller()(played_in_the_suite, domain, task, camera, actions)
    env.close()
    np.testing.assert_array_equal(states, expected[0])
    np.testing.assert_array_equal(frames, expected[1])
    np.testing.assert_array_equal(rewards, expected[2])


def test_a_quadruped_is_seen_by_its_third_camera() -> None:
    env = make("dmc:quadruped-walk")
    _, images, _ = render_caller()(played_in_the_suite, "quadruped", "walk", 2, [])
    np.testing.assert_array_equal(env.reset(5), images[0])
    env.close()


def test_a_fully_rendered_game_is_the_same_in_another_process_and_after_others() -> None:
    code = f"""
import sys
sys.path.insert(0, {str(Path(env_trajectories.__file__).parent)!r})
from env_trajectories import trajectory
from tokenworlds.envs import make
print(trajectory(make("dmc:finger-turn_easy", size=16), seed=5, steps=8))
"""
    env = make("dmc:finger-turn_easy", size=16)
    trajectory(env, seed=6, steps=5, actions=1)
    assert run(code) == (0, trajectory(env, seed=5, steps=8) + "\n", "")
    env.close()


def test_flat_rendering_changes_only_pixels() -> None:
    full, flat = (
        make("dmc:cartpole-swingup"),
        make("dmc:cartpole-swingup", protocol="dmc-vision-flat"),
    )
    assert (full.reset(0) != flat.reset(0)).any()
    action = np.ones(1, np.float32)
    assert [full.step(action).reward for _ in range(3)] == [
        flat.step(action).reward for _ in range(3)
    ]
    full.close()
    flat.close()


class Script:
    """A fake suite that returns given time steps and records the actions."""

    def __init__(self, original: Any, *steps: Any) -> None:
        self.task, self.physics, self._steps = original.task, original.physics, list(steps)
        self.actions: list[Any] = []

    def reset(self) -> None:
        pass

    def step(self, action: Any) -> Any:
        self.actions.append(action.tolist())
        return self._steps.pop(0)


def scripted(protocol: ControlProtocol, *steps: Any) -> tuple[Control, Script]:
    env = Control("cartpole-balance", size=8, protocol=protocol)
    script = Script(env._stage._environment, *steps)
    env._stage._environment = script
    env.reset(0)
    return env, script


@pytest.mark.parametrize(
    ("discount", "terminated", "truncated"), [(0.0, True, False), (1.0, False, True)]
)
def test_a_last_step_is_terminated_if_its_discount_is_zero_and_stops_the_repetition(
    discount: float, terminated: bool, truncated: bool
) -> None:
    middle = dm_env.transition(1.0, None)
    last = dm_env.TimeStep(dm_env.StepType.LAST, 0.25, discount, None)
    env, script = scripted(FLAT, middle, middle, last, middle)
    steps = [env.step(np.zeros(1)) for _ in range(2)]
    env.close()
    assert [(step.terminated, step.truncated, step.over) for step in steps] == [
        (False, False, False),
        (terminated, truncated, True),
    ]
    assert [step.reward for step in steps] == [2.0, 0.25]
    assert len(script.actions) == 3


def test_actions_are_scaled_to_the_bounds_of_the_suite() -> None:
    env, script = scripted(
        ControlProtocol(repeat=1, flat=True), *[dm_env.transition(0.0, None)] * 4
    )
    env._stage.low, env._stage.high = np.array([-1.0]), np.array([1.5])
    for value in (-1, 0, 1, 7):
        env.step(np.array([value], np.float32))
    env.close()
    assert script.actions == [[-1.0], [0.25], [1.5], [1.5]]


def test_an_action_without_bounds_is_not_scaled() -> None:
    spec = dm_env.specs.BoundedArray((2,), np.float64, [-1e10, -1.0], [1e10, 1.1])
    low, high = action_bounds(spec)
    assert (low.tolist(), high.tolist()) == ([-1.0, -1.0], [1.0, 1.1])


def test_a_game_is_truncated_after_1000_control_steps_or_500_agent_steps() -> None:
    env = Control("cartpole-balance", size=8, protocol=FLAT)
    env.reset(0)
    steps = [env.step(np.zeros(1, np.float32)) for _ in range(500)]
    assert [step.over for step in steps] == [False] * 499 + [True]
    assert steps[-1].truncated
    assert not any(step.terminated for step in steps)
    assert 0 < sum(step.reward for step in steps) <= 1000
    env.close()


def test_a_task_without_a_limit_of_its_own_is_truncated_too() -> None:
    env = Control("lqr-lqr_2_1", size=8, protocol=ControlProtocol(steps=6, flat=True))
    env.reset(0)
    assert [env.step(np.zeros(1, np.float32)).truncated for _ in range(3)] == [False, False, True]
    env.close()
