from dataclasses import replace

import numpy as np
import pytest
from env_trajectories import random_action
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tokenworlds.core.protocols import Env
from tokenworlds.envs import make
from tokenworlds.envs.atari import PROTOCOLS, Atari, new_interface, rom_path
from tokenworlds.envs.catalogue import example_spec
from tokenworlds.envs.frames import resize_area, to_grey

sides = st.integers(1, 12)


def resize_by_definition(frame: np.ndarray, height: int, width: int) -> np.ndarray:
    """Split each pixel into height x width pieces; a new pixel averages rows x columns pieces."""
    rows, columns, channels = frame.shape
    pieces = frame.astype(np.int64).repeat(height, axis=0).repeat(width, axis=1)
    total = pieces.reshape(height, rows, width, columns, channels).sum(axis=(1, 3))
    area = rows * columns
    return np.asarray((2 * total + area) // (2 * area))


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(sides, sides, sides, sides, st.integers(0, 1000))
def test_resize_is_the_mean_over_the_area_rounded_half_up(
    rows: int, columns: int, height: int, width: int, seed: int
) -> None:
    frame = np.random.default_rng(seed).integers(0, 256, (rows, columns, 3), dtype=np.uint8)
    expected = resize_by_definition(frame, height, width)
    np.testing.assert_array_equal(resize_area(frame, height, width), expected)


def test_an_atari_screen_equals_floating_point_sums() -> None:
    screen = np.random.default_rng(0).integers(0, 256, (210, 160, 3), dtype=np.uint8)
    small = screen.astype(np.float64).repeat(32, axis=0).reshape(64, 105, 160, 3).mean(axis=1)
    small = small.repeat(2, axis=1).reshape(64, 64, 5, 3).mean(axis=2)
    np.testing.assert_array_equal(resize_area(screen, 64, 64), np.rint(small))


def test_a_large_uniform_frame_keeps_its_colour() -> None:
    frame = np.full((1079, 1919, 3), (255, 128, 1), np.uint8)
    result = resize_area(frame, 64, 96)
    assert result.shape == (64, 96, 3)
    assert (result == (255, 128, 1)).all()


def test_resizing_to_the_same_size_changes_nothing() -> None:
    frame = np.random.default_rng(0).integers(0, 256, (6, 5, 3), dtype=np.uint8)
    np.testing.assert_array_equal(resize_area(frame, 6, 5), frame)


def test_luma_is_rounded_half_up() -> None:
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
def test_grey_frames_are_the_luma_of_the_colour_frames(name: str) -> None:
    package = {"minatar": "minatar", "gym": "pygame"}.get(name.partition(":")[0])
    if package:
        pytest.importorskip(package)
    spec = example_spec(name, size=32)
    grey, colour = replace(spec, grey=True).make(), spec.make()
    assert isinstance(grey, Env)
    assert grey.action_space == colour.action_space
    np.testing.assert_array_equal(grey.reset(3), to_grey(colour.reset(3)))
    generator = np.random.default_rng(0)
    over = False
    while not over:
        action = random_action(colour, generator)
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


def test_grey_atari_frames_use_the_grey_screens_of_the_emulator() -> None:
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
