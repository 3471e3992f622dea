"""Images of any size, type and layout become the same RGB bytes."""

from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

from tokenworlds.core.errors import UserError
from tokenworlds.envs.boundary import InvalidValue
from tokenworlds.envs.observations import ImageReader

COLOURS = np.random.default_rng(0).integers(0, 256, (8, 10, 3), np.uint8)
GREY = COLOURS[..., :1]


def box(image: np.ndarray, low: float = 0, high: float = 255) -> spaces.Box:
    return spaces.Box(low, high, image.shape, image.dtype.type)


def read(image: np.ndarray, space: spaces.Space[Any], size: int = 16) -> np.ndarray:
    return ImageReader("gym:Own-v0", space)(image, size)


EXPECTED = read(COLOURS, box(COLOURS))
UNIT = (COLOURS / 255).astype(np.float32)
RGBA = np.concatenate([COLOURS, np.full((8, 10, 1), 7, np.uint8)], axis=-1)


@pytest.mark.parametrize(
    ("image", "low", "high"),
    [
        (RGBA, 0, 255),
        (COLOURS.transpose(2, 0, 1), 0, 255),
        (COLOURS.astype(np.int64), 0, 255),
        (COLOURS.astype(np.uint16) * 257, 0, 65535),
        (COLOURS.astype(np.float64), 0, 255),
        (UNIT, 0, 1),
        (UNIT * 2 - 1, -1, 1),
    ],
    ids=["alpha", "channels-first", "int64", "uint16", "float-bytes", "unit", "signed"],
)
def test_every_type_and_layout_of_an_image_gives_the_same_frame(
    image: np.ndarray, low: float, high: float
) -> None:
    np.testing.assert_array_equal(read(image, box(image, low, high)), EXPECTED)


@pytest.mark.parametrize("image", [GREY, GREY[..., 0], GREY.transpose(2, 0, 1)])
def test_a_grey_image_has_three_equal_channels(image: np.ndarray) -> None:
    frame = read(image, box(image))
    assert frame.shape == (16, 16, 3)
    np.testing.assert_array_equal(frame, read(GREY.repeat(3, axis=-1), box(COLOURS)))


def test_bits_are_black_and_white() -> None:
    bits = (GREY[..., 0] > 128).astype(np.int8)
    frame = ImageReader("own", spaces.MultiBinary(bits.shape))(bits, 80)
    assert set(np.unique(frame)) == {0, 255}


@pytest.mark.parametrize("shape", [(210, 160, 3), (3, 5, 3), (400, 30)])
def test_an_image_of_any_size_is_resized(shape: tuple[int, ...]) -> None:
    image = np.full(shape, 200, np.uint8)
    np.testing.assert_array_equal(read(image, box(image)), np.full((16, 16, 3), 200))


NESTED = spaces.Dict(
    {
        "speed": spaces.Box(-1, 1, (2,)),
        "camera": spaces.Dict({"rgb": box(COLOURS), "depth": box(GREY)}),
    }
)


def test_the_image_of_a_dict_is_chosen_by_its_key() -> None:
    observation = {"speed": np.zeros(2), "camera": {"rgb": COLOURS, "depth": GREY}}
    frame = ImageReader("own", NESTED, "camera.rgb")(observation, 16)
    np.testing.assert_array_equal(frame, EXPECTED)
    with pytest.raises(InvalidValue, match="no key 'rgb'"):
        ImageReader("own", NESTED, "camera.rgb")({"camera": {}}, 16)


@pytest.mark.parametrize(
    ("space", "key", "sentence"),
    [
        (NESTED, "", r"a Dict of .*camera.rgb.* image_key=camera.depth or image_key=camera.rgb"),
        (NESTED, "camera.rbg", r"unknown image_key of own .* did you mean 'camera.rgb'\?"),
        (NESTED, "speed", r"observes speed, a Box of shape \(2,\), no image"),
        (spaces.Box(-1, 1, (4,)), "", r"shape \(4,\), no image: add --env-set render=true"),
        (spaces.Discrete(3), "", "no image: add --env-set render=true"),
        (spaces.Box(0, 255, (4, 84, 84), np.uint8), "", "leave out the frame stack"),
        (spaces.Box(-np.inf, np.inf, (8, 8, 3)), "", r"as in spaces.Box\(0, 1, \(8, 8, 3\)"),
        (box(COLOURS), "rgb", "no Dict: leave out image_key=rgb"),
    ],
)
def test_what_cannot_be_seen_is_one_sentence_with_the_choice(
    space: spaces.Space[Any], key: str, sentence: str
) -> None:
    with pytest.raises(UserError, match=sentence):
        ImageReader("own", space, key)


@pytest.mark.parametrize(
    ("image", "sentence"),
    [
        (UNIT[:, :9], r"float32 of shape \(8, 9, 3\).*, not floats of shape \(8, 10, 3\) as its"),
        (COLOURS, r"uint8 of shape \(8, 10, 3\), not floats"),
        (UNIT * 2, "outside its bounds 0 to 1"),
        (UNIT * np.float32(np.nan), "values nan to nan, outside its bounds"),
        (None, "the observation is None"),
    ],
)
def test_an_image_that_is_not_as_declared_is_an_error(image: Any, sentence: str) -> None:
    with pytest.raises(InvalidValue, match=sentence):
        read(image, box(UNIT, 0, 1))


def test_floats_that_leave_their_bounds_by_rounding_are_clipped() -> None:
    image = np.full((8, 8, 3), 1.0001, np.float32)
    np.testing.assert_array_equal(read(image, box(image, 0, 1)), np.full((16, 16, 3), 255))
