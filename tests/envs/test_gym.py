import itertools
import sys
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from tokenworlds.core.errors import UserError
from tokenworlds.core.protocols import Env
from tokenworlds.envs import make
from tokenworlds.envs.actions import to_native
from tokenworlds.envs.gym import Gym
from tokenworlds.envs.options import EnvOptions


class Small(gymnasium.Env[Any, Any]):
    """Records its actions; ends at the third step and renders a given frame."""

    metadata = {"render_modes": ["rgb_array"]}  # noqa: RUF012
    observation_space = spaces.Discrete(1)
    actions: list[Any]

    def __init__(
        self, action_space: spaces.Space[Any], image: Any, render_mode: str | None = None
    ) -> None:
        self.action_space = action_space
        self.image = image
        self.render_mode = render_mode
        self.actions = []

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        self.actions.clear()
        return 0, {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.actions.append(action)
        done = len(self.actions) == 3
        return 0, 1.0, done, done, {}

    def render(self) -> Any:
        return self.image


BLACK = np.zeros((10, 20, 3), np.uint8)


def open_small(action_space: spaces.Space[Any], image: Any = BLACK, **options: Any) -> Gym:
    environment = Small(action_space, image, render_mode="rgb_array")
    chosen = EnvOptions(render=True, **options)
    return Gym(environment, name="gym:Small-v0", size=8, options=chosen)


def open_id(name: str) -> Env:
    return make(f"gym:{name}", size=8, render=True)


def actions(env: Gym) -> list[Any]:
    small = env.environment.unwrapped
    assert isinstance(small, Small)
    return small.actions


def test_discrete_actions_begin_at_the_start_of_the_space() -> None:
    env = open_small(spaces.Discrete(3, start=5))
    env.reset(0)
    env.step(0)
    env.step(2)
    assert actions(env) == [5, 7]


def test_vectors_are_scaled_to_the_bounds() -> None:
    box = spaces.Box(np.array([[-2.0, 0.0]], np.float32), np.array([[2.0, 10.0]], np.float32))
    env = open_small(box)
    env.reset(0)
    assert env.action_space.size == 2
    env.step(np.array([-1, -1], np.float32))
    env.step(np.array([0.5, 1], np.float32))
    np.testing.assert_allclose(actions(env), [[[-2, 0]], [[1, 10]]])
    assert all(box.contains(action) for action in actions(env))


def test_a_terminated_step_is_not_truncated() -> None:
    env = open_small(spaces.Discrete(2))
    env.reset(0)
    steps = [env.step(0) for _ in range(3)]
    assert [(step.terminated, step.truncated) for step in steps] == [(False, False)] * 2 + [
        (True, False)
    ]


@pytest.mark.parametrize(
    ("space", "size", "action", "native"),
    [
        (spaces.MultiDiscrete([2, 3]), 6, 4, [1, 1]),
        (spaces.MultiDiscrete([2, 3], start=[5, -1]), 6, 4, [6, 0]),
        (spaces.MultiDiscrete(np.array([[2], [3]])), 6, 5, [[1], [2]]),
        (spaces.MultiBinary(3), 8, 6, [1, 1, 0]),
    ],
    ids=["product", "start", "shape", "binary"],
)
def test_each_combination_of_choices_is_an_action(
    space: spaces.Space[Any], size: int, action: int, native: list[Any]
) -> None:
    env = open_small(space)
    env.reset(0)
    assert (env.action_space.size, env.action_space.discrete) == (size, True)
    env.step(action)
    assert actions(env)[0].tolist() == native
    assert space.contains(actions(env)[0])


def test_the_actions_of_a_product_are_all_different() -> None:
    space = spaces.MultiDiscrete([3, 4, 2])
    natives = {tuple(to_native(space, np.asarray(action))) for action in range(24)}
    assert natives == set(itertools.product(range(3), range(4), range(2)))


def test_whole_numbers_of_a_box_are_rounded() -> None:
    env = open_small(spaces.Box(0, 10, (1,), np.int32))
    env.reset(0)
    env.step(np.array([0.15], np.float32))  # 5.75
    assert actions(env)[0].tolist() == [6]


@pytest.mark.parametrize(
    ("space", "reason"),
    [
        (spaces.MultiDiscrete([32, 33]), "1,056 combinations: at most 1,024"),
        (spaces.Box(-np.inf, np.inf, (2,)), "an agent needs Discrete, .* or a bounded Box"),
        (spaces.Tuple([spaces.Discrete(2)]), "an agent needs Discrete"),
    ],
    ids=["too-many", "unbounded", "tuple"],
)
def test_unsupported_action_spaces_are_errors(space: spaces.Space[Any], reason: str) -> None:
    with pytest.raises(UserError, match=reason):
        open_small(space)


def test_a_skipped_frame_adds_its_reward_and_stops_at_the_end() -> None:
    env = open_small(spaces.Discrete(2), frame_skip=2)
    env.reset(0)
    steps = [env.step(1), env.step(1)]
    assert [step.reward for step in steps] == [2.0, 1.0]
    assert [step.over for step in steps] == [False, True]
    assert actions(env) == [1, 1, 1]


def test_a_time_limit_truncates() -> None:
    env = open_small(spaces.Discrete(2), time_limit=2)
    env.reset(0)
    env.step(0)
    step = env.step(0)
    assert (step.terminated, step.truncated, step.over) == (False, True, True)


def test_rewards_are_clipped_in_training_and_not_in_evaluation() -> None:
    def reward(evaluation: bool) -> float:
        options = EnvOptions(render=True, clip_rewards=True, frame_skip=2)
        small = Small(spaces.Discrete(2), BLACK, render_mode="rgb_array")
        env = Gym(small, name="small", size=8, options=options, evaluation=evaluation)
        env.reset(0)
        return env.step(0).reward

    assert reward(evaluation=False) == 1.0
    assert reward(evaluation=True) == 2.0


def test_an_environment_that_does_not_render_is_an_error() -> None:
    with pytest.raises(UserError, match="renders 'text', not an RGB array"):
        open_small(spaces.Discrete(2), image="text")


def test_an_unknown_id_is_an_error_with_the_nearest() -> None:
    with pytest.raises(UserError, match=r"did you mean 'CartPole-v1'"):
        open_id("cartpol-v1")
    with pytest.raises(UserError, match=r"unknown Gymnasium id 'gymnasium:Nothing-v0'"):
        open_id("gymnasium:Nothing-v0")


def test_the_extra_for_rendering_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pygame", None)
    with pytest.raises(UserError, match=r"pip install 'tokenworlds\[gym\]'"):
        open_id("CartPole-v1")


def test_another_missing_package_is_named_by_gymnasium(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "mujoco", None)
    with pytest.raises(UserError, match=r"gymnasium\[mujoco\]"):
        open_id("HalfCheetah-v5")


def test_cartpole_is_terminated_and_pendulum_is_truncated() -> None:
    pytest.importorskip("pygame")
    cartpole, pendulum = open_id("CartPole-v1"), open_id("Pendulum-v1")
    cartpole.reset(0)
    while not (fallen := cartpole.step(np.asarray(1))).over:
        assert fallen.reward == 1.0
    assert (fallen.terminated, fallen.truncated) == (True, False)
    pendulum.reset(0)
    steps = [pendulum.step(np.zeros(1, np.float32)) for _ in range(200)]
    assert [step.over for step in steps] == [False] * 199 + [True]
    assert (steps[-1].terminated, steps[-1].truncated) == (False, True)
