import itertools
import json
from typing import Any

import numpy as np
import pytest

from tokenworlds.core.protocols import Env
from tokenworlds.core.seeding import derive
from tokenworlds.envs import EnvSpec, VectorEnv
from tokenworlds.envs.vector import frame_hash

CATCH = EnvSpec("catch", size=8)
STEER = EnvSpec("steer", size=8)


def random_actions(envs: VectorEnv, steps: int, seed: int = 0) -> list[np.ndarray]:
    generator, count = np.random.default_rng(seed), len(envs)
    size = envs.action_space.size
    if envs.action_space.discrete:
        return [generator.integers(size, size=count) for _ in range(steps)]
    return [generator.uniform(-1, 1, (count, size)).astype(np.float32) for _ in range(steps)]


def record(envs: VectorEnv, actions: list[np.ndarray]) -> list[Any]:
    """Everything that a collector reads."""
    rows: list[Any] = []
    for action in actions:
        step = envs.step(action)
        columns = (step.reward, step.terminated, step.truncated, step.over)
        rows.append([envs.frames.tolist(), envs.first.tolist(), *(c.tolist() for c in columns)])
    return [*rows, envs.finished()]


def play_without_vector(env: Env, actions: np.ndarray) -> list[np.ndarray]:
    """The frames of environment 1 of seed 7, played without `VectorEnv`."""
    game = itertools.count()
    frames = [env.reset(derive(7, "env", 1, next(game)))]
    for action in actions:
        step = env.step(action)
        frames.append(env.reset(derive(7, "env", 1, next(game))) if step.over else step.frame)
    return frames


def test_an_environment_plays_its_games_in_order() -> None:
    envs = VectorEnv(CATCH, num_envs=3, seed=7)
    actions = random_actions(envs, 20)
    shown = [envs.frames[1]]
    for action in actions:
        envs.step(action)
        shown.append(envs.frames[1])
    expected = play_without_vector(CATCH.make(), np.array(actions)[:, 1])
    np.testing.assert_array_equal(shown, expected)


def test_the_next_game_begins_in_the_step_that_ends_one() -> None:
    envs = VectorEnv(CATCH, num_envs=2, seed=0)
    firsts, ends = [envs.first.tolist()], []
    for action in random_actions(envs, 15):
        step = envs.step(action)
        firsts.append(envs.first.tolist())
        ends.append((step.terminated & step.over).tolist())
    assert firsts == [[True] * 2, *ends]
    assert [index for index, end in enumerate(ends) if end[0]] == [6, 13]


def test_a_lost_life_opens_an_episode_in_the_same_game() -> None:
    pytest.importorskip("ale_py")
    envs = VectorEnv(EnvSpec("atari:Breakout", size=8), num_envs=1, seed=0)
    fire = np.ones(1, np.int64)
    step = envs.step(fire)
    while not step.terminated[0]:
        assert not envs.first[0]
        step = envs.step(fire)
    assert not step.over[0]
    assert envs.first[0]
    assert envs.finished() == []
    assert envs.state()["envs"][0]["game"] == 0


def test_an_episode_opens_after_a_truncated_step() -> None:
    envs = VectorEnv(STEER, num_envs=1, seed=0)
    for action in random_actions(envs, 32):
        step = envs.step(action)
    assert step.truncated[0]
    assert not step.terminated[0]
    assert envs.first[0]


def test_later_steps_do_not_overwrite_the_frames() -> None:
    envs = VectorEnv(CATCH, num_envs=2, seed=0)
    frames, first = envs.frames, envs.first
    before = frames.copy()
    envs.step(np.zeros(2, np.int64))
    np.testing.assert_array_equal(frames, before)
    assert first.all()


def test_finished_games_are_returned_once_with_return_and_length() -> None:
    envs = VectorEnv(CATCH, num_envs=2, seed=0)
    totals = np.zeros(2)
    for action in random_actions(envs, 7):
        totals += envs.step(action).reward
    games = envs.finished()
    assert [(game.env, game.game, game.length) for game in games] == [(0, 0, 7), (1, 0, 7)]
    assert [game.score for game in games] == totals.tolist()
    assert envs.finished() == []


@pytest.mark.parametrize("spec", [CATCH, STEER], ids=["discrete", "continuous"])
@pytest.mark.parametrize("steps", [0, 3, 40])
def test_a_restored_env_continues_the_same_trajectory(spec: EnvSpec, steps: int) -> None:
    envs = VectorEnv(spec, num_envs=3, seed=1)
    for action in random_actions(envs, steps):
        envs.step(action)
    saved = json.loads(json.dumps(envs.state()))
    other = VectorEnv(spec, num_envs=3, seed=1)
    other.step(random_actions(other, 1, seed=9)[0])
    assert other.restore(saved) == []
    assert not other.restarted.any()
    np.testing.assert_array_equal(other.frames, envs.frames)
    np.testing.assert_array_equal(other.first, envs.first)
    assert other.state() == saved
    actions = random_actions(envs, 40, seed=2)
    assert record(other, actions) == record(envs, actions)


def test_an_atari_game_is_restored_after_a_lost_life() -> None:
    pytest.importorskip("ale_py")
    spec, fire = EnvSpec("atari:Breakout", "atari100k-sticky", size=8), np.ones(1, np.int64)
    envs = VectorEnv(spec, num_envs=1, seed=0)
    while not envs.step(fire).terminated[0]:
        pass
    other = VectorEnv(spec, num_envs=1, seed=0)
    assert other.restore(json.loads(json.dumps(envs.state()))) == []
    assert other.first[0]
    actions = random_actions(envs, 60)
    assert record(other, actions) == record(envs, actions)


def damage(kind: str, saved: dict[str, Any]) -> None:
    if kind == "frame":
        saved["frame"] = frame_hash(np.zeros((8, 8, 3), np.uint8))
    elif kind == "too many":
        saved["actions"] += [0] * 9
    else:
        saved["actions"][0] = 99


@pytest.mark.parametrize(
    ("kind", "reason"),
    [("frame", "frame after 3 steps differs"), ("too many", "over after 7"), ("illegal", "99")],
)
def test_a_game_that_cannot_be_replayed_is_reported_and_the_next_begins(
    kind: str, reason: str
) -> None:
    envs = VectorEnv(CATCH, num_envs=3, seed=1)
    for action in random_actions(envs, 10):
        envs.step(action)
    saved = envs.state()
    damage(kind, saved["envs"][1])
    other = VectorEnv(CATCH, num_envs=3, seed=1)
    (warning,) = other.restore(saved)
    assert "environment 1: game 1 could not be replayed" in warning
    assert reason in warning
    assert other.restarted.tolist() == other.first.tolist() == [False, True, False]
    assert [env["game"] for env in other.state()["envs"]] == [1, 2, 1]
    np.testing.assert_array_equal(other.frames[[0, 2]], envs.frames[[0, 2]])
    other.step(np.zeros(3, np.int64))
    assert not other.restarted.any()


def test_finished_games_that_were_not_read_are_part_of_the_state() -> None:
    envs = VectorEnv(CATCH, num_envs=2, seed=0)
    actions = random_actions(envs, 9)
    for action in actions:
        envs.step(action)
    other = VectorEnv(CATCH, num_envs=2, seed=0)
    other.restore(json.loads(json.dumps(envs.state())))
    games = envs.finished()
    assert len(games) == 2
    assert other.finished() == games


def test_a_wrong_number_of_actions_or_environments_is_an_error() -> None:
    envs = VectorEnv(CATCH, num_envs=2, seed=0)
    with pytest.raises(ValueError, match="3 actions for 2 environments"):
        envs.step(np.zeros(3, np.int64))
    with pytest.raises(ValueError, match="2 environments for 3"):
        VectorEnv(CATCH, num_envs=3, seed=0).restore(envs.state())


def test_closed_environments_raise() -> None:
    with VectorEnv(CATCH, num_envs=2, seed=0) as envs:
        assert len(envs) == 2
        before = envs.state()
    with pytest.raises(RuntimeError, match="closed"):
        envs.step(np.zeros(2, np.int64))
    assert envs.state() == before
