import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tokenworlds.envs.frames import resize_area

sides = st.integers(1, 12)


def resize_by_definition(frame: np.ndarray, height: int, width: int) -> np.ndarray:
    """Each pixel in height x width pieces; a new pixel is the mean of rows x columns pieces."""
    rows, columns, channels = frame.shape
    pieces = frame.astype(np.int64).repeat(height, axis=0).repeat(width, axis=1)
    total = pieces.reshape(height, rows, width, columns, channels).sum(axis=(1, 3))
    area = rows * columns
    return np.asarray((2 * total + area) // (2 * area))


@settings(deadline=None)
@given(sides, sides, sides, sides, st.integers(0, 1000))
def test_resize_is_the_mean_over_the_area_rounded_half_up(
    rows: int, columns: int, height: int, width: int, seed: int
) -> None:
    frame = np.random.default_rng(seed).integers(0, 256, (rows, columns, 3), dtype=np.uint8)
    expected = resize_by_definition(frame, height, width)
    np.testing.assert_array_equal(resize_area(frame, height, width), expected)


def test_an_atari_screen_agrees_with_sums_in_floating_point() -> None:
    screen = np.random.default_rng(0).integers(0, 256, (210, 160, 3), dtype=np.uint8)
    small = screen.astype(np.float64).repeat(32, axis=0).reshape(64, 105, 160, 3).mean(axis=1)
    small = small.repeat(2, axis=1).reshape(64, 64, 5, 3).mean(axis=2)
    np.testing.assert_array_equal(resize_area(screen, 64, 64), np.rint(small))


def test_a_large_even_picture_keeps_its_colour() -> None:
    picture = np.full((1079, 1919, 3), (255, 128, 1), np.uint8)
    result = resize_area(picture, 64, 96)
    assert result.shape == (64, 96, 3)
    assert (result == (255, 128, 1)).all()


def test_the_same_size_changes_nothing() -> None:
    frame = np.random.default_rng(0).integers(0, 256, (6, 5, 3), dtype=np.uint8)
    np.testing.assert_array_equal(resize_area(frame, 6, 5), frame)
