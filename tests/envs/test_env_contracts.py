import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any

import env_trajectories
import numpy as np
import pytest
from env_trajectories import random_action, trajectory

from tokenworlds.core.protocols import Env
from tokenworlds.core.types import FrameShape
from tokenworlds.envs import EnvSpec
from tokenworlds.envs.catalogue import families

# Assault differs after a reset of the emulator alone, Qbert after restoring a state alone.
SPECS = [
    EnvSpec("toy:catch"),
    EnvSpec("toy:catch", size=32),
    EnvSpec("toy:catch", size=16, grey=True),
    EnvSpec("toy:steer"),
    EnvSpec("atari:Pong"),
    EnvSpec("atari:Pong", size=96, grey=True),
    EnvSpec("atari:Assault", "drama"),
    EnvSpec("atari:Qbert", "drama"),
    EnvSpec("atari:Breakout", "atari100k-sticky", size=96),
    EnvSpec("crafter", size=32),
    EnvSpec("minatar:breakout"),
    EnvSpec("minatar:seaquest", "minatar-sticky"),
    EnvSpec("dmc:reacher-easy", "dmc-vision-flat", size=32),
    EnvSpec("gym:CartPole-v1", "gymnasium,render=true"),
    EnvSpec("gym:Pendulum-v1", "gym", size=48),
    EnvSpec("minigrid:DoorKey-5x5-v0", size=32),
    EnvSpec("minigrid:DoorKey-5x5-v0", "minigrid-full", size=32),
    EnvSpec("miniworld:Hallway", size=32),
    EnvSpec("vizdoom:Basic", size=32),
    EnvSpec("craftax:classic", size=32),
]
INSTALLED = {family.name: family.installed for family in families().values()}
SPECS = [spec for spec in SPECS if INSTALLED[spec.name.partition(":")[0]]]
ACTIONS = {
    "toy:catch": 3,
    "toy:steer": 1,
    "atari:Pong": 6,
    "atari:Assault": 7,
    "atari:Qbert": 6,
    "atari:Breakout": 4,
    "crafter": 17,
    "minatar:breakout": 3,
    "minatar:seaquest": 6,
    "dmc:reacher-easy": 2,
    "gym:CartPole-v1": 2,
    "gym:Pendulum-v1": 1,
    "minigrid:DoorKey-5x5-v0": 7,
    "miniworld:Hallway": 3,
    "vizdoom:Basic": 4,
    "craftax:classic": 17,
}


def label(spec: EnvSpec) -> str:
    return f"{spec.name}-{spec.protocol}-{spec.size}{'-grey' * spec.grey}"


def selected(specs: list[EnvSpec]) -> list[Any]:
    """Mark as slow what takes a second to begin a game, or minutes to compile."""
    slow = pytest.mark.slow
    return [pytest.param(s, marks=slow if is_slow(s) else (), id=label(s)) for s in specs]


def is_slow(spec: EnvSpec) -> bool:
    return spec.name in ("crafter", "craftax:classic")


@pytest.fixture(scope="module", params=selected(SPECS))
def spec(request: pytest.FixtureRequest) -> EnvSpec:
    chosen: EnvSpec = request.param
    return chosen


@pytest.fixture(scope="module")
def env(spec: EnvSpec) -> Iterator[Env]:
    made = spec.make()
    yield made
    made.close()


@cache
def in_new_process(slow: bool) -> dict[EnvSpec, str]:
    """Digests of the games of seed 5 in a new process, of the slow specs or of the others."""
    specs = [spec for spec in SPECS if is_slow(spec) == slow]
    script = Path(env_trajectories.__file__)
    given = json.dumps([asdict(spec) for spec in specs])
    result = subprocess.run(
        [sys.executable, str(script), given], capture_output=True, text=True, check=True
    )
    return dict(zip(specs, json.loads(result.stdout), strict=True))


def test_frames_are_bytes_of_the_given_size(spec: EnvSpec, env: Env) -> None:
    frame = env.reset(0)
    step = env.step(random_action(env, np.random.default_rng(0)))
    for image in (frame, step.frame):
        assert image.dtype == np.uint8
        assert image.shape == (spec.size, spec.size, 1 if spec.grey else 3)
        assert len(np.unique(image.reshape(-1, image.shape[-1]), axis=0)) > 1


def test_the_spaces_match_the_frames_and_the_game(spec: EnvSpec, env: Env) -> None:
    assert env.frame_shape == FrameShape(spec.size, spec.size, 1 if spec.grey else 3)
    assert env.action_space.size == ACTIONS[spec.name]
    vectors = {"toy:steer", "dmc:reacher-easy", "gym:Pendulum-v1"}
    assert env.action_space.discrete == (spec.name not in vectors)


def test_a_game_depends_only_on_its_seed_and_actions(spec: EnvSpec, env: Env) -> None:
    trajectory(env, seed=6, steps=100, actions=1)
    assert trajectory(env, seed=5) == in_new_process(is_slow(spec))[spec]


def test_other_seeds_and_other_actions_give_other_games(spec: EnvSpec, env: Env) -> None:
    if spec.protocol != "drama":
        # MinAtar's Breakout begins in one of two ways only.
        assert any(trajectory(env, seed=0) != trajectory(env, seed=seed) for seed in range(1, 9))
    assert trajectory(env, seed=5, actions=0) != trajectory(env, seed=5, actions=1)


def test_later_steps_do_not_overwrite_frames(env: Env) -> None:
    frame = env.reset(3)
    before = frame.copy()
    step = env.step(random_action(env, np.random.default_rng(0)))
    after = step.frame.copy()
    if not step.over:
        env.step(random_action(env, np.random.default_rng(1)))
    np.testing.assert_array_equal(frame, before)
    np.testing.assert_array_equal(step.frame, after)


def test_a_step_needs_a_running_game(spec: EnvSpec) -> None:
    env = spec.make()
    action = random_action(env, np.random.default_rng(0))
    with pytest.raises(RuntimeError, match="call reset"):
        env.step(action)
    env.reset(0)
    env.step(action)
    env.close()
    with pytest.raises(RuntimeError, match="call reset"):
        env.step(action)


def test_illegal_actions_are_errors(env: Env) -> None:
    env.reset(0)
    size = env.action_space.size
    wrong = [-1, size] if env.action_space.discrete else [np.zeros(size + 1, np.float32)]
    for action in wrong:
        with pytest.raises(ValueError, match="action"):
            env.step(np.asarray(action))


LONG = {"atari:Pong", "atari:Assault", "atari:Qbert", "dmc:reacher-easy", "gym:Pendulum-v1"}
SHORT = [spec for spec in SPECS if spec.name not in LONG]


@pytest.mark.parametrize("short", selected(SHORT))
def test_a_game_that_is_over_is_terminated_or_truncated_and_needs_a_reset(short: EnvSpec) -> None:
    env = short.make()
    generator = np.random.default_rng(0)
    env.reset(1)
    while not (step := env.step(random_action(env, generator))).over:
        assert not step.truncated
    assert step.terminated != step.truncated
    with pytest.raises(RuntimeError, match="call reset"):
        env.step(random_action(env, generator))
    env.reset(2)
    env.step(random_action(env, generator))
    env.close()
