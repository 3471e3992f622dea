"""MiniGrid, MiniWorld, ViZDoom and Craftax: what their protocols promise beyond the contracts."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from env_trajectories import random_action, trajectory

from tokenworlds.core.errors import UserError
from tokenworlds.envs import EnvSpec, VectorEnv, make
from tokenworlds.envs.catalogue import canonical, families


def needs(extra: str) -> None:
    """Skip a test unless an extra is installed, without importing it."""
    if not families()[extra].installed:
        pytest.skip(f"the extra {extra} is not installed")


def test_a_task_of_minigrid_is_named_with_or_without_its_version() -> None:
    needs("minigrid")
    assert canonical("minigrid:doorkey-5x5") == "minigrid:DoorKey-5x5-v0"
    assert canonical("minigrid:MiniGrid-Empty-5x5-v0") == "minigrid:Empty-5x5-v0"
    assert canonical("minigrid:BabyAI-GoToObj-v0") == "minigrid:BabyAI-GoToObj-v0"
    with pytest.raises(UserError, match="did you mean 'DoorKey-5x5-v0'"):
        canonical("minigrid:DoorKeys-5x5-v0")


def test_minigrid_rewards_the_goal_and_truncates_at_its_limit() -> None:
    needs("minigrid")
    env = make("minigrid:Empty-5x5-v0", size=56)
    env.reset(0)
    forward, right = np.asarray(2), np.asarray(1)
    steps = [env.step(action) for action in (forward, forward, right, forward, forward)]
    assert [step.reward > 0 for step in steps] == [False] * 4 + [True]
    assert (steps[-1].terminated, steps[-1].truncated) == (True, False)
    env.reset(0)
    ends = [env.step(right) for _ in range(100)]
    assert [step.over for step in ends] == [False] * 99 + [True]
    assert ends[-1].truncated


def test_the_full_view_of_minigrid_shows_the_goal_wherever_the_agent_looks() -> None:
    needs("minigrid")

    def sights_of_the_goal(protocol: str) -> int:
        env = make("minigrid:Empty-5x5-v0", size=40, protocol=protocol)
        env.reset(0)
        frames = [env.step(np.asarray(0)).frame.astype(int) for _ in range(4)]
        return sum(bool(((f[..., 1] > 200) & (f[..., 0] < 100)).any()) for f in frames)

    assert sights_of_the_goal("minigrid-full") == 4
    assert 0 < sights_of_the_goal("minigrid") < 4


def test_the_clock_of_doom_truncates_and_leaves_no_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    needs("vizdoom")
    monkeypatch.chdir(tmp_path)
    spec = EnvSpec("vizdoom:Basic", size=16)
    assert spec.frame_skip == 4
    env = spec.make()
    env.reset(1)
    steps = [env.step(np.asarray(0)) for _ in range(75)]
    assert [step.over for step in steps] == [False] * 74 + [True]
    assert (steps[-1].terminated, steps[-1].truncated) == (False, True)
    env.close()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("name", "package"), [("miniworld:Hallway", "miniworld"), ("vizdoom:Basic", "vizdoom")]
)
def test_two_environments_in_one_process_do_not_disturb_each_other(name: str, package: str) -> None:
    needs(package)
    spec = EnvSpec(name, size=16)
    with VectorEnv(spec, num_envs=2, seed=0) as two, VectorEnv(spec, num_envs=1, seed=0) as one:
        for _ in range(10):
            two.step(np.array([1, 2]))
            one.step(np.array([1]))
            np.testing.assert_array_equal(two.frames[0], one.frames[0])


@pytest.mark.slow
def test_craftax_is_a_function_of_its_seed_and_dies_in_the_end() -> None:
    needs("craftax")
    env, other = make("craftax:classic", size=63), make("craftax:classic", size=63)
    assert trajectory(env, seed=2**40 + 1) == trajectory(other, seed=2**40 + 1)
    generator = np.random.default_rng(0)
    env.reset(0)
    while not (step := env.step(random_action(env, generator))).over:
        assert not step.info
    assert step.terminated
    assert len(step.info) == 22


INTERRUPTED = """
import signal
import sys

import numpy as np
from tokenworlds.envs import make

signal.signal(signal.SIGINT, lambda *_: print("interrupted", flush=True))
env = make("vizdoom:Basic", size=16)
env.reset(0)
print("ready", flush=True)
sys.stdin.readline()
for _ in range(20):
    env.step(np.asarray(1))
print("alive")
env.close()
"""


def test_doom_survives_the_interrupt_that_lets_a_run_save(tmp_path: Path) -> None:
    needs("vizdoom")
    child = subprocess.Popen(
        [sys.executable, "-c", INTERRUPTED],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
        start_new_session=True,
    )
    assert child.stdin is not None
    assert child.stdout is not None
    with child:
        assert child.stdout.readline() == "ready\n"
        os.killpg(child.pid, signal.SIGINT)
        assert child.stdout.readline() == "interrupted\n"
        child.stdin.write("\n")
        child.stdin.flush()
        assert child.stdout.readline() == "alive\n"
