import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tokenworlds.core.errors import UserError
from tokenworlds.core.protocols import Env
from tokenworlds.envs.toys import BALL, CELLS, DOT, PADDLE, SPEED, TARGET, Catch, Steer

Policy = Callable[[NDArray[Any]], Any]


def play(env: Env, seed: int, policy: Policy) -> tuple[float, int]:
    """Return and length of one game."""
    frame, total = env.reset(seed), 0.0
    for length in itertools.count(1):
        step = env.step(policy(frame))
        frame, total = step.frame, total + step.reward
        if step.over:
            return total, length
    raise AssertionError


def column(frame: NDArray[Any], colour: tuple[int, int, int]) -> int:
    """The column of the board at the centre of a colour."""
    pixels = np.argwhere((frame == colour).all(axis=-1))[:, 1]
    return int(pixels.mean() * CELLS / frame.shape[1])


def chase(frame: NDArray[Any]) -> NDArray[Any]:
    """The optimal policy of catch, from pixels."""
    return np.asarray(1 + np.sign(column(frame, BALL) - column(frame, PADDLE)))


def centre(frame: NDArray[Any], colour: tuple[int, int, int]) -> NDArray[np.float64]:
    """The centre of a colour, in coordinates from -1 to 1."""
    rows, columns = np.nonzero((frame == colour).all(axis=-1))
    return (np.array([columns.mean(), rows.mean()]) + 0.5) * 2 / len(frame) - 1


def test_the_optimal_policy_of_catch_scores_the_best_return_exactly() -> None:
    env = Catch()
    games = [play(env, seed, chase) for seed in range(200)]
    assert {score for score, _ in games} == {env.best_return} == {1.0}
    assert {length for _, length in games} == {CELLS - 1}


def test_the_widest_gaps_of_catch_occur_and_can_be_closed() -> None:
    env = Catch(size=8)
    gaps = {}
    for seed in range(600):
        frame = env.reset(seed)
        gaps[column(frame, BALL) - column(frame, PADDLE)] = seed
    assert set(gaps) == set(range(-6, 7))
    assert play(env, gaps[6], chase) == (1.0, 7)
    assert play(env, gaps[-6], chase) == (1.0, 7)


def test_random_actions_catch_three_balls_in_eight() -> None:
    env = Catch(size=8)
    generator = np.random.default_rng(0)
    scores = [play(env, seed, lambda _: generator.integers(3))[0] for seed in range(1500)]
    # Mean 3/8 - 5/8; four standard errors of 1500 games are 0.1.
    assert np.mean(scores) == pytest.approx(-0.25, abs=0.1)


def test_catch_has_a_reward_only_at_the_landing() -> None:
    env = Catch()
    env.reset(0)
    steps = [env.step(1) for _ in range(CELLS - 1)]
    assert [step.terminated for step in steps] == [False] * 6 + [True]
    assert [step.reward for step in steps[:-1]] == [0.0] * 6
    assert abs(steps[-1].reward) == 1.0


def test_catch_needs_a_size_of_whole_cells() -> None:
    with pytest.raises(UserError, match="multiple of 8"):
        Catch(size=60)


def steer_straight(frame: NDArray[Any]) -> NDArray[Any]:
    """A policy from pixels: move to the target and stay there."""
    way = (centre(frame, TARGET) - centre(frame, DOT))[:1]
    return np.asarray(np.clip(way / SPEED, -1, 1), np.float32)


def test_steering_straight_from_pixels_scores_the_best_return() -> None:
    env = Steer()
    scores = [play(env, seed, steer_straight)[0] for seed in range(20)]
    assert env.best_return == pytest.approx(5.0)
    assert np.mean(scores) == pytest.approx(5.0, abs=1e-6)


def test_standing_still_scores_zero_and_random_actions_hardly_more() -> None:
    env = Steer(size=8)
    generator = np.random.default_rng(0)
    still = [play(env, seed, lambda _: np.zeros(1, np.float32))[0] for seed in range(10)]
    random = [play(env, seed, lambda _: generator.uniform(-1, 1, 1))[0] for seed in range(200)]
    assert still == [0.0] * 10
    # 0.72 over many games, with a deviation of 1.64: four standard errors are 0.46.
    assert np.mean(random) == pytest.approx(0.72, abs=0.46)


def test_steer_is_truncated_after_16_steps_and_never_terminated() -> None:
    env = Steer(size=16)
    env.reset(0)
    steps = [env.step(np.ones(1, np.float32)) for _ in range(16)]
    assert not any(step.terminated for step in steps)
    assert (
        [step.truncated for step in steps] == [step.over for step in steps] == [False] * 15 + [True]
    )


def test_no_velocity_scores_more_than_the_best_return() -> None:
    env = Steer(size=16)
    for seed, speed in itertools.product(range(5), np.linspace(-1, 1, 9)):
        velocity = np.array([speed], np.float32)
        assert play(env, seed, lambda _, given=velocity: given)[0] <= 5.0 + 1e-9  # type: ignore[misc]
