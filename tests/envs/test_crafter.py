import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from env_trajectories import trajectory

from tokenworlds.core.errors import UserError
from tokenworlds.core.types import EnvStep
from tokenworlds.envs import EnvSpec, VectorEnv, make
from tokenworlds.envs import crafter as envs_crafter
from tokenworlds.envs.catalogue import canonical
from tokenworlds.envs.crafter import Crafter, OrderedSet

crafter = pytest.importorskip("crafter")
NOTHING, SLEEP = 0, 6


def achievements(step: EnvStep) -> dict[str, float]:
    return {name.removeprefix("achievement/"): count for name, count in step.info.items()}


WHOLE_GAME = """
from env_trajectories import trajectory
from tokenworlds.envs import make
print(trajectory(make("crafter"), seed=5, steps=1000))
"""


def test_a_game_is_the_same_in_another_process_and_after_another_game() -> None:
    # A whole game: plain Crafter differs when it removes creatures at random from crowded chunks.
    with subprocess.Popen(
        [sys.executable, "-c", WHOLE_GAME],
        cwd=Path(__file__).parent,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONHASHSEED": "12345"},
    ) as other:
        env = Crafter()
        trajectory(env, seed=6, steps=30, actions=1)
        expected = trajectory(env, seed=5, steps=1000)
        assert other.communicate()[0].strip() == expected


def test_the_package_is_unchanged_and_plays_the_same_game() -> None:
    env = Crafter()
    first = env.reset(7)
    plain = crafter.Env(seed=0)
    assert isinstance(plain._world._chunks[0], set)
    # The same world from the package alone, apart from the seed.
    reset = plain._world.reset
    plain._world.reset = lambda seed: reset([7, 0])
    np.testing.assert_array_equal(first, plain.reset())
    # Before the tenth step Crafter samples no creature from a set.
    for action in np.random.default_rng(0).integers(17, size=9):
        step = env.step(action)
        frame, reward, over, _ = plain.step(action)
        np.testing.assert_array_equal(step.frame, frame)
        assert (step.reward, step.over) == (reward, over)


def test_death_terminates_with_achievements_that_explain_the_rewards() -> None:
    env = Crafter()
    env.reset(0)
    rewards = []
    while not (step := env.step(SLEEP)).over:
        assert step.info == {}
        rewards.append(step.reward)
    rewards.append(step.reward)
    assert (step.terminated, step.truncated) == (True, False)
    counts = achievements(step)
    assert list(counts) == list(crafter.constants.achievements)
    assert len(counts) == 22
    unlocked = sum(count > 0 for count in counts.values())
    # Nine lives are lost, 0.1 each; an achievement is worth 1.
    assert sum(rewards) == pytest.approx(unlocked - 0.9)


def test_the_time_limit_truncates_and_noreward_has_no_rewards() -> None:
    env = Crafter("noreward", length=200)
    env.reset(1)
    generator = np.random.default_rng(0)
    steps = [env.step(NOTHING)]
    while not steps[-1].over:
        steps.append(env.step(generator.integers(17)))
    assert not any(step.reward for step in steps)
    assert len(achievements(steps[-1])) == 22
    short = Crafter(length=3)
    short.reset(1)
    ends = [(step.terminated, step.truncated, step.over) for step in map(short.step, [NOTHING] * 3)]
    assert ends == [(False, False, False)] * 2 + [(False, True, True)]


def test_finished_games_have_info(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        envs_crafter, "Crafter", lambda game, size: Crafter(game, size=size, length=2)
    )
    with VectorEnv(EnvSpec("crafter"), num_envs=1, seed=0) as envs:
        envs.step(np.array([NOTHING]))
        assert envs.finished() == []
        envs.step(np.array([NOTHING]))
        [game] = envs.finished()
    assert game.length == 2
    assert len(game.info) == 22
    assert set(game.info.values()) == {0.0}


def test_an_ordered_set_adds_and_removes_like_a_set() -> None:
    kept = OrderedSet()
    for item in (3, 1, 2, 1):
        kept.add(item)
    kept.remove(1)
    assert list(kept) == [3, 2]
    with pytest.raises(KeyError):
        kept.remove(1)


def test_the_names_of_the_variants() -> None:
    assert canonical("crafter") == canonical("crafter:Reward") == "crafter"
    assert canonical("crafter:no-reward") == "crafter:noreward"
    assert EnvSpec("crafter") == EnvSpec("crafter:reward", "crafter-1m", 64)
    with pytest.raises(UserError, match="did you mean 'noreward'"):
        make("crafter:norewards")
    with pytest.raises(UserError, match="did you mean 'crafter'"):
        make("craftr")


def test_frames_that_are_too_small_are_an_error() -> None:
    with pytest.raises(UserError, match="size 17: choose 18 or more"):
        make("crafter", size=17)
