from fractions import Fraction

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tokenworlds.envs.resize import resize_area

sides = st.integers(1, 9)


def overlap(before: int, after: int, pixel: int, out: int) -> Fraction:
    """The share of an input pixel under an output pixel, in lengths of an input pixel."""
    start, stop = Fraction(out * before, after), Fraction((out + 1) * before, after)
    return max(Fraction(0), min(Fraction(pixel + 1), stop) - max(Fraction(pixel), start))


def mean_by_definition(frame: np.ndarray, size: tuple[int, int], out: tuple[int, int]) -> int:
    """The mean over the area of one output pixel, rounded half up."""
    (rows, columns), (height, width) = frame.shape[:2], size
    total = sum(
        overlap(rows, height, y, out[0]) * overlap(columns, width, x, out[1]) * int(frame[y, x, 0])
        for y in range(rows)
        for x in range(columns)
    )
    mean = total / (Fraction(rows, height) * Fraction(columns, width))
    return int(mean + Fraction(1, 2))


@given(sides, sides, sides, sides, st.integers(0, 1000))
def test_resize_is_the_mean_over_the_area(
    rows: int, columns: int, height: int, width: int, seed: int
) -> None:
    frame = np.random.default_rng(seed).integers(0, 256, (rows, columns, 1), dtype=np.uint8)
    result = resize_area(frame, height, width)
    expected = [
        [mean_by_definition(frame, (height, width), (y, x)) for x in range(width)]
        for y in range(height)
    ]
    np.testing.assert_array_equal(result[..., 0], expected)


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
