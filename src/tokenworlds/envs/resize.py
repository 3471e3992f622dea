"""Exact area resize: an output pixel is the mean of the input it covers, rounded half up.

Lengths are scaled so that input and output pixels both have whole lengths; every sum is then a
whole number and the result is the same on every machine and with any number of threads.
"""

import functools
import math

import numpy as np
from jaxtyping import UInt8
from numpy.typing import NDArray


def resize_area(
    frame: UInt8[np.ndarray, "H W C"], height: int, width: int
) -> UInt8[np.ndarray, "_ _ C"]:
    """The frame at another size, smaller or larger."""
    rows, columns, channels = frame.shape
    sums, down = _weigh_rows(frame.reshape(rows, columns * channels), height)
    turned = np.swapaxes(sums.reshape(height, columns, channels), 0, 1)
    sums, across = _weigh_rows(turned.reshape(columns, height * channels), width, peak=255 * down)
    whole = sums.dtype.type(down * across)
    mean = ((sums + whole // 2) // whole).astype(np.uint8)
    return np.ascontiguousarray(np.swapaxes(mean.reshape(width, height, channels), 0, 1))


def _weigh_rows(
    image: NDArray[np.unsignedinteger], rows: int, peak: int = 255
) -> tuple[NDArray[np.unsignedinteger], int]:
    """Weighted sums of the rows under each output row, and the sum of the weights."""
    index, weight, whole = _overlaps(len(image), rows)
    weight = weight.astype(np.min_scalar_type(2 * peak * whole))
    sums = image[index[0]] * weight[0]
    for source, factor in zip(index[1:], weight[1:], strict=True):
        sums += image[source] * factor
    return sums, whole


@functools.lru_cache(maxsize=64)
def _overlaps(before: int, after: int) -> tuple[NDArray[np.intp], NDArray[np.int64], int]:
    """Which inputs lie under each output and how much of each: [taps, after] and [taps, after, 1].

    In units of the common divisor an input pixel is `piece` long and an output pixel `whole`.
    """
    divisor = math.gcd(before, after)
    piece, whole = after // divisor, before // divisor
    start = np.arange(after) * whole
    taps = max((start + whole - 1) // piece - start // piece) + 1
    index = start // piece + np.arange(taps)[:, None]
    overlap = np.minimum((index + 1) * piece, start + whole) - np.maximum(index * piece, start)
    return np.minimum(index, before - 1), np.maximum(overlap, 0)[..., None], whole
