"""Image observations of any size, type and layout, as RGB bytes."""

import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from gymnasium import spaces
from jaxtyping import UInt8
from numpy.typing import NDArray

from tokenworlds.core.errors import UserError, unknown
from tokenworlds.envs.boundary import InvalidValue, describe_array
from tokenworlds.envs.frames import resize_area

SMALLEST_GREY = 8
"""An array of two axes is an image if both are at least so long; a smaller one is a table."""
WIDEST = 1e9
"""Bounds of floats that are further apart are none: some environments declare the largest float."""
SLACK = 1e-3
"""How far a float may leave its bounds, as a share of their distance."""


class ImageReader:
    """Reads the image of an observation; its declared bounds become 0 and 255."""

    def __init__(self, name: str, space: "spaces.Space[Any]", key: str = "") -> None:
        """`key` chooses the image of a `Dict`; `a.b` is the key b of the `Dict` a."""
        self._path, found = choose(name, space, key)
        if not isinstance(found, spaces.Box | spaces.MultiBinary) or not is_image(found):
            raise UserError(no_image(name, found, key))
        self.space = found
        self.shape = tuple(found.shape)
        self._floats = found.dtype is not None and found.dtype.kind == "f"
        self._low, self._high = bounds(name, found)

    def __call__(self, observation: Any, size: int) -> UInt8[np.ndarray, "_ _ 3"]:
        """The image at `size` x `size`, whose grey or colours are resized by area."""
        for key in self._path:
            observation = item(observation, key)
        image = channels_last(self._bytes(observation))
        image = resize_area(image[..., :3], size, size)
        return image if image.shape[-1] == 3 else image.repeat(3, axis=-1)

    def _bytes(self, image: Any) -> NDArray[np.uint8]:
        kinds = "f" if self._floats else "iub"
        valid = isinstance(image, np.ndarray) and image.shape == self.shape
        if not valid or image.dtype.kind not in kinds:
            kind = "floats" if self._floats else "integers"
            raise InvalidValue(
                f"the observation is {describe_array(image)}, not {kind} of shape {self.shape} as "
                f"its observation_space says"
            )
        if image.dtype == np.uint8 and (self._low, self._high) == (0, 255):
            return np.asarray(image)
        return self._scaled(image)

    def _scaled(self, image: NDArray[Any]) -> NDArray[np.uint8]:
        low, high = float(image.min()), float(image.max())
        slack = SLACK * (self._high - self._low) if self._floats else 0.0
        # False for NaN as well.
        if not (self._low - slack <= low and high <= self._high + slack):
            raise InvalidValue(
                f"the observation has values {low:g} to {high:g}, outside its bounds "
                f"{self._low:g} to {self._high:g}"
            )
        share = (image.astype(np.float64) - self._low) / (self._high - self._low)
        return np.asarray(np.floor(share.clip(0, 1) * 255 + 0.5).astype(np.uint8))


def choose(
    name: str, space: "spaces.Space[Any]", key: str
) -> tuple[list[str], "spaces.Space[Any]"]:
    """The path of keys to an image, and its space."""
    if key and not isinstance(space, spaces.Dict):
        raise UserError(
            f"{name} observes a {type(space).__name__}, no Dict: leave out image_key={key}"
        )
    if not isinstance(space, spaces.Dict):
        return [], space
    found = dict(entries(space.spaces))
    if key not in found:
        images = [path for path, (_, entry) in found.items() if is_image(entry)]
        if key:
            raise unknown(f"image_key of {name}", key, images or found)
        hint = " or ".join(f"image_key={path}" for path in images) or "render=true"
        raise UserError(
            f"{name} observes a Dict of {', '.join(found)}: choose what the agent sees with "
            f"--env-set {hint}"
        )
    return found[key]


def entries(
    found: "Mapping[str, spaces.Space[Any]]", above: tuple[str, ...] = ()
) -> Iterator[tuple[str, tuple[list[str], "spaces.Space[Any]"]]]:
    """The spaces in a nested `Dict`, each by its path."""
    for key, entry in found.items():
        path = (*above, str(key))
        if isinstance(entry, spaces.Dict):
            yield from entries(entry.spaces, path)
        else:
            yield ".".join(path), (list(path), entry)


def item(observation: Any, key: str) -> Any:
    try:
        return observation[key]
    except (KeyError, TypeError, IndexError):
        raise InvalidValue(f"the observation has no key {key!r}") from None


def is_image(space: "spaces.Space[Any]") -> bool:
    """Grey H x W, H x W x C with 1, 3 or 4 channels, or C x H x W with 1 or 3.

    Four channels that come first are stacked frames more often than RGBA.
    """
    shape = space.shape if isinstance(space, spaces.Box | spaces.MultiBinary) else None
    if shape is None or 0 in shape:
        return False
    if len(shape) == 2:
        return min(shape) >= SMALLEST_GREY
    return len(shape) == 3 and (shape[2] in (1, 3, 4) or shape[0] in (1, 3))


def channels_last(image: NDArray[np.uint8]) -> UInt8[np.ndarray, "H W C"]:
    if image.ndim == 2:
        return image[..., None]
    if image.shape[2] in (1, 3, 4):
        return image
    return image.transpose(1, 2, 0)


def bounds(name: str, space: "spaces.Box | spaces.MultiBinary") -> tuple[float, float]:
    """What black and white stand for: the lowest and the highest declared bound."""
    if isinstance(space, spaces.MultiBinary):
        return 0.0, 1.0
    low, high = float(space.low.min()), float(space.high.max())
    floats = space.dtype is not None and space.dtype.kind == "f"
    if not math.isfinite(high - low) or (floats and high - low > WIDEST) or low == high:
        raise UserError(
            f"{name} observes floats with bounds {low:g} to {high:g}: declare what is black and "
            f"what is white, as in spaces.Box(0, 1, {space.shape}, np.float32)"
        )
    return low, high


def no_image(name: str, space: "spaces.Space[Any]", key: str) -> str:
    shape: tuple[int, ...] = getattr(space, "shape", None) or ()
    what = f"{type(space).__name__} of shape {shape}"
    what = f"{key}, a {what}" if key else f"a {what}"
    if len(shape) == 3 and shape[0] == 4:
        return (
            f"{name} observes {what}, stacked frames: leave out the frame stack, because a world "
            f"model remembers"
        )
    return (
        f"{name} observes {what}, no image: add --env-set render=true to learn from the frames "
        f"that it renders"
    )
