from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from tokenworlds.envs import atari
from tokenworlds.envs.atari import PROTOCOLS, Atari, AtariProtocol, new_interface, rom_path
from tokenworlds.envs.frames import resize_area

pytest.importorskip("ale_py")
FIRE = 1
ATARI_100K = """
    Alien Amidar Assault Asterix BankHeist BattleZone Boxing Breakout ChopperCommand CrazyClimber
    DemonAttack Freeway Frostbite Gopher Hero Jamesbond Kangaroo Krull KungFuMaster MsPacman Pong
    PrivateEye Qbert RoadRunner Seaquest UpNDown
"""


class Console:
    """A fake emulator with given lives, whose screen shows the number of the frame."""

    def __init__(self, lives: Sequence[int], over_at: int = 10**6) -> None:
        self._script, self._over_at, self._frame = lives, over_at, 0

    def act(self, action: int) -> int:
        self._frame += 1
        return 1

    def lives(self) -> int:
        return self._script[min(self._frame, len(self._script) - 1)]

    def game_over(self, with_truncation: bool = True) -> bool:
        return self._frame >= self._over_at

    def getScreenRGB(self) -> np.ndarray:  # noqa: N802
        # One row gets brighter and one darker, so that a maximum identifies its frames.
        screen = np.zeros((2, 2, 3), np.uint8)
        screen[0], screen[1] = self._frame % 200, 200 - self._frame % 200
        return screen

    def getMinimalActionSet(self) -> list[int]:  # noqa: N802
        return [0, 1]

    def game_truncated(self) -> bool:
        return False

    def __getattr__(self, name: str) -> Any:
        return lambda *arguments, **named: None


def play_console(
    monkeypatch: pytest.MonkeyPatch, console: Console, steps: int, protocol: AtariProtocol
) -> list[Any]:
    monkeypatch.setattr(atari, "new_interface", lambda protocol: console)
    env = Atari("Pong", size=2, protocol=protocol)
    env.reset(0)
    return [env.step(0) for _ in range(steps)]


def shown(step: Any) -> tuple[int, int]:
    """The latest and the earliest raw frame in the frame of a step."""
    return int(step.frame[0, 0, 0]), 200 - int(step.frame[1, 0, 0])


PLAIN = AtariProtocol(no_ops=0)


def test_a_life_is_lost_only_if_some_are_left(monkeypatch: pytest.MonkeyPatch) -> None:
    # The counter of Amidar: 0 before the game, then up, then down one by one, and 0 when over.
    lives = [0] * 5 + [11] * 4 + [10] * 4 + [10] * 4 + [11] * 4 + [0] * 4
    steps = play_console(monkeypatch, Console(lives), 6, PLAIN)
    assert [step.terminated for step in steps] == [False, False, True, False, False, False]
    assert not any(step.over or step.truncated for step in steps)


def test_a_step_shows_the_last_two_of_its_four_frames_and_sums_the_rewards(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    steps = play_console(monkeypatch, Console([3]), 2, PLAIN)
    assert [shown(step) for step in steps] == [(4, 3), (8, 7)]
    assert [step.reward for step in steps] == [4.0, 4.0]


def test_a_step_that_stops_early_shows_no_frame_of_the_step_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    *_, last = play_console(monkeypatch, Console([3], over_at=5), 2, PLAIN)
    assert shown(last) == (5, 5)
    assert (last.reward, last.terminated, last.over) == (1.0, True, True)


def test_a_lost_life_stops_the_skip_only_in_some_protocols(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lives = [3] * 6 + [2]
    plain = play_console(monkeypatch, Console(lives), 2, PLAIN)[-1]
    drama = play_console(monkeypatch, Console(lives), 2, PROTOCOLS["drama"])[-1]
    assert plain.terminated
    assert drama.terminated
    assert (shown(plain), plain.reward) == ((8, 7), 4.0)
    assert (shown(drama), drama.reward) == ((6, 6), 2.0)


@pytest.mark.parametrize("name", PROTOCOLS)
def test_the_protocol_sets_the_stickiness_not_the_emulator(name: str) -> None:
    sticky = {"atari100k-sticky", "storm"}
    console = new_interface(PROTOCOLS[name])
    assert console.getFloat("repeat_action_probability") == (0.25 if name in sticky else 0.0)
    assert console.getInt("frame_skip") == 1


def frames_of_a_game(env: Atari, seed: int, steps: int = 60) -> list[Any]:
    generator = np.random.default_rng(0)
    frames = [env.reset(seed)]
    frames += [env.step(generator.integers(6)).frame for _ in range(steps)]
    return [frame.tobytes() for frame in frames]


@pytest.mark.parametrize(("name", "random"), [("drama", False), ("storm", True)])
def test_games_without_sticky_actions_and_no_ops_are_deterministic(name: str, random: bool) -> None:
    env = Atari("Pong", protocol=PROTOCOLS[name])
    assert (frames_of_a_game(env, 1) != frames_of_a_game(env, 2)) == random


def test_frames_equal_those_of_the_emulator_itself() -> None:
    env = Atari("Breakout", protocol=PROTOCOLS["drama"])
    console = new_interface(PROTOCOLS["drama"])
    console.loadROM(rom_path("Breakout"))
    console.reset_game()
    np.testing.assert_array_equal(env.reset(0), resize_area(console.getScreenRGB(), 64, 64))
    for action in [FIRE, 2, 2, 3, 0, 2, 3, 3]:
        screens = []
        for _ in range(4):
            console.act(console.getMinimalActionSet()[action])
            screens.append(console.getScreenRGB())
        pooled = np.maximum(screens[2], screens[3])
        np.testing.assert_array_equal(env.step(action).frame, resize_area(pooled, 64, 64))


def test_a_game_begins_with_one_to_thirty_no_ops(monkeypatch: pytest.MonkeyPatch) -> None:
    console = Console([3])
    monkeypatch.setattr(atari, "new_interface", lambda protocol: console)
    env = Atari("Pong", size=2)
    counts, before = [], 0
    for seed in range(300):
        env.reset(seed)
        counts.append(console._frame - before)
        before = console._frame
    assert set(counts) == set(range(1, 31))


def terminated_and_over(evaluation: bool) -> tuple[int, int]:
    """The number of terminated steps and of games over if the paddle of Breakout never moves."""
    env = Atari("Breakout", evaluation=evaluation)
    env.reset(0)
    steps = [env.step(FIRE)]
    while not steps[-1].over:
        steps.append(env.step(FIRE))
    assert not any(step.truncated for step in steps)
    assert steps[-1].terminated
    return sum(step.terminated for step in steps), sum(step.over for step in steps)


def test_each_of_five_lives_ends_an_episode_in_training_but_not_in_evaluation() -> None:
    assert terminated_and_over(evaluation=False) == (5, 1)
    assert terminated_and_over(evaluation=True) == (1, 1)


def test_the_frame_limit_truncates_and_counts_raw_frames() -> None:
    env = Atari("Pong", protocol=AtariProtocol(no_ops=0, frames=40))
    for _ in range(2):
        env.reset(0)
        steps = [env.step(0) for _ in range(10)]
        assert [step.truncated for step in steps] == [False] * 9 + [True]
        assert [step.over for step in steps] == [False] * 9 + [True]
        assert not any(step.terminated for step in steps)


def test_all_games_of_the_benchmark_exist() -> None:
    assert set(ATARI_100K.split()) <= set(atari.games())
