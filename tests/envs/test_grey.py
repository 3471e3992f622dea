"""Frames without colour are those in colour, seen by their luma."""

import numpy as np
import pytest
from env_trajectories import draw_action

from tokenworlds.core.protocols import Env
from tokenworlds.envs import EnvSpec, make
from tokenworlds.envs.atari import PROTOCOLS, Atari, new_interface, rom_path
from tokenworlds.envs.frames import resize_area, to_grey


def test_the_luma_of_colours_is_rounded_half_up() -> None:
    table = {
        (0, 0, 0): 0,
        (255, 255, 255): 255,
        (255, 0, 0): 76,  # 76.245
        (0, 255, 0): 150,  # 149.685
        (0, 0, 255): 29,  # 29.07
        (1, 1, 1): 1,
        (0, 0, 250): 29,  # 28.5
        (10, 20, 30): 18,  # 18.15
    }
    frame = np.array([list(table)], np.uint8)
    assert to_grey(frame)[0, :, 0].tolist() == list(table.values())


@pytest.mark.parametrize("name", ["toy:catch", "toy:steer", "minatar:breakout", "gym:CartPole-v1"])
def test_a_game_in_grey_is_the_game_in_colour(name: str) -> None:
    package = {"minatar": "minatar", "gym": "pygame"}.get(name.partition(":")[0])
    if package:
        pytest.importorskip(package)
    grey, colour = EnvSpec(name, size=32, grey=True).make(), EnvSpec(name, size=32).make()
    assert isinstance(grey, Env)
    assert grey.action_space == colour.action_space
    np.testing.assert_array_equal(grey.reset(3), to_grey(colour.reset(3)))
    generator = np.random.default_rng(0)
    over = False
    while not over:
        action = draw_action(colour, generator)
        ours, theirs = grey.step(action), colour.step(action)
        np.testing.assert_array_equal(ours.frame, to_grey(theirs.frame))
        assert (ours.reward, ours.terminated, ours.over) == (
            theirs.reward,
            theirs.terminated,
            theirs.over,
        )
        over = theirs.over
    grey.close()
    colour.close()


def test_atari_in_grey_is_the_emulators_own_before_maximum_and_resize() -> None:
    pytest.importorskip("ale_py")
    env = make("atari:Breakout", size=96, grey=True, protocol="drama")
    assert isinstance(env, Atari)
    console = new_interface(PROTOCOLS["drama"])
    console.loadROM(rom_path("Breakout"))
    console.reset_game()
    first = console.getScreenGrayscale()[..., None]
    np.testing.assert_array_equal(env.reset(0), resize_area(first, 96, 96))
    for action in [1, 2, 2, 3, 0, 2, 3, 3]:
        screens = []
        for _ in range(4):
            console.act(console.getMinimalActionSet()[action])
            screens.append(console.getScreenGrayscale()[..., None])
        pooled = np.maximum(screens[2], screens[3])
        np.testing.assert_array_equal(env.step(np.array(action)).frame, resize_area(pooled, 96, 96))
