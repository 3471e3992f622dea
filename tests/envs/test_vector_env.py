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
    """All that a collector sees."""
    seen: list[Any] = []
    for action in actions:
        outcome = envs.step(action)
        columns = (outcome.reward, outcome.terminated, outcome.truncated, outcome.over)
        seen.append([envs.frames.tolist(), envs.first.tolist(), *(c.tolist() for c in columns)])
    return [*seen, envs.finished()]


def play_alone(env: Env, actions: np.ndarray) -> list[np.ndarray]:
    """Frames in view in a stream of games played by hand."""
    game = itertools.count()
    frames = [env.reset(derive(7, "env", 1, next(game)))]
    for action in actions:
        step = env.step(action)
        frames.append(env.reset(derive(7, "env", 1, next(game))) if step.over else step.frame)
    return frames


def test_a_stream_shows_its_games_one_after_the_other() -> None:
    envs = VectorEnv(CATCH, num_envs=3, seed=7)
    actions = random_actions(envs, 20)
    shown = [envs.frames[1]]
    for action in actions:
        envs.step(action)
        shown.append(envs.frames[1])
    expected = play_alone(CATCH.make(), np.array(actions)[:, 1])
    np.testing.assert_array_equal(shown, expected)


def test_the_frame_after_an_end_is_the_first_of_the_next_game() -> None:
    envs = VectorEnv(CATCH, num_envs=2, seed=0)
    firsts, ends = [envs.first.tolist()], []
    for action in random_actions(envs, 15):
        outcome = envs.step(action)
        firsts.append(envs.first.tolist())
        ends.append((outcome.terminated & outcome.over).tolist())
    assert firsts == [[True] * 2, *ends]
    assert [index for index, end in enumerate(ends) if end[0]] == [6, 13]


def test_a_lost_life_opens_an_episode_but_no_game() -> None:
    pytest.importorskip("ale_py")
    envs = VectorEnv(EnvSpec("atari:Breakout", size=8), num_envs=1, seed=0)
    fire = np.ones(1, np.int64)
    outcome = envs.step(fire)
    while not outcome.terminated[0]:
        assert not envs.first[0]
        outcome = envs.step(fire)
    assert not outcome.over[0]
    assert envs.first[0]
    assert envs.finished() == []
    assert envs.state()["envs"][0]["game"] == 0


def test_a_cutoff_opens_an_episode() -> None:
    envs = VectorEnv(STEER, num_envs=1, seed=0)
    for action in random_actions(envs, 32):
        outcome = envs.step(action)
    assert outcome.truncated[0]
    assert not outcome.terminated[0]
    assert envs.first[0]


def test_frames_in_view_are_left_as_they_are_by_later_steps() -> None:
    envs = VectorEnv(CATCH, num_envs=2, seed=0)
    frames, first = envs.frames, envs.first
    before = frames.copy()
    envs.step(np.zeros(2, np.int64))
    np.testing.assert_array_equal(frames, before)
    assert first.all()


def test_finished_games_are_told_once_with_return_and_length() -> None:
    envs = VectorEnv(CATCH, num_envs=2, seed=0)
    totals = np.zeros(2)
    for action in random_actions(envs, 7):
        totals += envs.step(action).reward
    games = envs.finished()
    assert [(game.env, game.game, game.length) for game in games] == [(0, 0, 7), (1, 0, 7)]
    assert [game.score for game in games] == totals.tolist()
    assert envs.finished() == []


@pytest.mark.parametrize("spec", [CATCH, STEER], ids=["choices", "vectors"])
@pytest.mark.parametrize("steps", [0, 3, 40])
def test_a_restored_env_goes_on_as_if_never_stopped(spec: EnvSpec, steps: int) -> None:
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


def damage(kind: str, stream: dict[str, Any]) -> None:
    if kind == "frame":
        stream["frame"] = frame_hash(np.zeros((8, 8, 3), np.uint8))
    elif kind == "too many":
        stream["actions"] += [0] * 9
    else:
        stream["actions"][0] = 99


@pytest.mark.parametrize(
    ("kind", "reason"),
    [("frame", "frame after 3 steps differs"), ("too many", "over after 7"), ("illegal", "99")],
)
def test_a_game_that_does_not_replay_is_told_and_followed_by_the_next(
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
    assert [stream["game"] for stream in other.state()["envs"]] == [1, 2, 1]
    np.testing.assert_array_equal(other.frames[[0, 2]], envs.frames[[0, 2]])
    other.step(np.zeros(3, np.int64))
    assert not other.restarted.any()


def test_games_that_nobody_fetched_are_part_of_the_state() -> None:
    envs = VectorEnv(CATCH, num_envs=2, seed=0)
    record_actions = random_actions(envs, 9)
    for action in record_actions:
        envs.step(action)
    other = VectorEnv(CATCH, num_envs=2, seed=0)
    other.restore(json.loads(json.dumps(envs.state())))
    games = envs.finished()
    assert len(games) == 2
    assert other.finished() == games


def test_counts_that_do_not_fit_are_refused() -> None:
    envs = VectorEnv(CATCH, num_envs=2, seed=0)
    with pytest.raises(ValueError, match="3 actions for 2 environments"):
        envs.step(np.zeros(3, np.int64))
    with pytest.raises(ValueError, match="2 environments for 3"):
        VectorEnv(CATCH, num_envs=3, seed=0).restore(envs.state())


def test_closed_environments_say_so() -> None:
    with VectorEnv(CATCH, num_envs=2, seed=0) as envs:
        assert len(envs) == 2
    with pytest.raises(RuntimeError, match="closed"):
        envs.state()
