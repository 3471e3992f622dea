import sys
from collections.abc import Iterator
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from tokenworlds.core.errors import UserError
from tokenworlds.envs.gym import Gym


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


def open_small(action_space: spaces.Space[Any], image: Any = BLACK) -> Gym:
    def create(**given: Any) -> Small:
        return Small(action_space, image, **given)

    gymnasium.register("Small-v0", create)
    return Gym("Small-v0", size=8)


@pytest.fixture(autouse=True)
def _forget() -> Iterator[None]:
    yield
    gymnasium.registry.pop("Small-v0", None)


def actions(env: Gym) -> list[Any]:
    small = env._environment.unwrapped
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
    "space",
    [spaces.MultiDiscrete([2, 2]), spaces.Box(-np.inf, np.inf, (2,))],
    ids=["multi-discrete", "unbounded"],
)
def test_unsupported_action_spaces_are_errors(space: spaces.Space[Any]) -> None:
    with pytest.raises(UserError, match="Discrete or bounded Box"):
        open_small(space)


def test_an_environment_that_does_not_render_is_an_error() -> None:
    with pytest.raises(UserError, match="renders 'text', not an RGB array"):
        open_small(spaces.Discrete(2), image="text")


def test_an_unknown_id_is_an_error_with_the_nearest() -> None:
    with pytest.raises(UserError, match=r"did you mean 'CartPole-v1'"):
        Gym("cartpol-v1")
    with pytest.raises(UserError, match=r"unknown Gymnasium id 'gymnasium:Nothing-v0'"):
        Gym("gymnasium:Nothing-v0")


def test_the_extra_for_rendering_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pygame", None)
    with pytest.raises(UserError, match=r"pip install 'tokenworlds\[gym\]'"):
        Gym("CartPole-v1")


def test_another_missing_package_is_named_by_gymnasium(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "mujoco", None)
    with pytest.raises(UserError, match=r"gymnasium\[mujoco\]"):
        Gym("HalfCheetah-v5")


def test_cartpole_is_terminated_and_pendulum_is_truncated() -> None:
    pytest.importorskip("pygame")
    cartpole, pendulum = Gym("CartPole-v1", size=8), Gym("Pendulum-v1", size=8)
    cartpole.reset(0)
    while not (fallen := cartpole.step(1)).over:
        assert fallen.reward == 1.0
    assert (fallen.terminated, fallen.truncated) == (True, False)
    pendulum.reset(0)
    steps = [pendulum.step(np.zeros(1, np.float32)) for _ in range(200)]
    assert [step.over for step in steps] == [False] * 199 + [True]
    assert (steps[-1].terminated, steps[-1].truncated) == (False, True)
