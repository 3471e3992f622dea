"""Resizing frames and converting them to grey, in integers: equal on every machine."""

import functools
import math
from dataclasses import replace
from typing import Any

import numpy as np
from jaxtyping import UInt8
from numpy.typing import NDArray

from tokenworlds.core.protocols import Env
from tokenworlds.core.types import EnvStep
from tokenworlds.envs.boundary import check_frame, check_step

LUMA = (299, 587, 114)
"""Thousandths of red, green and blue (ITU-R BT.601)."""


def resize_area(
    frame: UInt8[np.ndarray, "H W C"], height: int, width: int
) -> UInt8[np.ndarray, "_ _ C"]:
    """Exact area resize: each output pixel is the mean of the input it covers, rounded half up.

    Lengths are scaled so that input and output pixels both have integer lengths. Every sum is then
    an integer, and the result does not depend on the machine or the number of threads.
    """
    rows, columns, channels = frame.shape
    row, row_weight, row_length = _overlaps(rows, height, 1, 255)
    column, weight, length = _overlaps(columns, width, channels, 255 * row_length)
    flat = frame.reshape(rows, columns * channels)
    sums = _weigh(_weigh(flat, row, row_weight[..., None], axis=0), column, weight, axis=1)
    area = sums.dtype.type(row_length * length)
    mean: NDArray[np.uint8] = ((sums + area // 2) // area).astype(np.uint8)
    return mean.reshape(height, width, channels)


def _weigh(
    image: NDArray[np.unsignedinteger],
    index: NDArray[np.intp],
    weight: NDArray[np.unsignedinteger],
    axis: int,
) -> NDArray[np.unsignedinteger]:
    """Weighted sums of the inputs under each output, tap by tap."""
    sums: NDArray[np.unsignedinteger] = image.take(index[0], axis) * weight[0]
    for source, factor in zip(index[1:], weight[1:], strict=True):
        sums += image.take(source, axis) * factor
    return sums


@functools.lru_cache(maxsize=64)
def _overlaps(
    before: int, after: int, channels: int, peak: int
) -> tuple[NDArray[np.intp], NDArray[np.unsignedinteger], int]:
    """Which inputs lie under each output, how much of each, and the length of an output.

    In units of the common divisor an input pixel has length `piece` and an output pixel `whole`.
    Index and weight are [taps, after * channels]; the dtype of the weights can hold sums of values
    up to `peak`.
    """
    divisor = math.gcd(before, after)
    piece, whole = after // divisor, before // divisor
    start = np.arange(after) * whole
    taps = max((start + whole - 1) // piece - start // piece) + 1
    pixel = start // piece + np.arange(taps)[:, None]
    overlap = np.minimum((pixel + 1) * piece, start + whole) - np.maximum(pixel * piece, start)
    pixel = np.minimum(pixel, before - 1)[..., None] * channels + np.arange(channels)
    weight = np.maximum(overlap, 0).repeat(channels, axis=1)
    return pixel.reshape(taps, -1), weight.astype(np.min_scalar_type(2 * peak * whole)), whole


def to_grey(frame: UInt8[np.ndarray, "H W 3"]) -> UInt8[np.ndarray, "H W 1"]:
    """The luma of each pixel, rounded half up."""
    luma = frame.astype(np.uint32) @ np.array(LUMA, np.uint32)
    grey: NDArray[np.uint8] = ((luma + 500) // 1000).astype(np.uint8)
    return grey[..., None]


class Grey:
    """An environment whose frames are converted to grey."""

    def __init__(self, env: Env) -> None:
        self.env = env
        self.frame_shape = replace(env.frame_shape, channels=1)
        self.action_space = env.action_space

    def reset(self, seed: int) -> NDArray[Any]:
        frame = self.env.reset(seed)
        check_frame(frame, self.env.frame_shape)
        return to_grey(frame)

    def step(self, action: NDArray[Any]) -> EnvStep:
        step = self.env.step(action)
        check_step(step, self.env.frame_shape)
        return replace(step, frame=to_grey(step.frame))

    def close(self) -> None:
        self.env.close()
