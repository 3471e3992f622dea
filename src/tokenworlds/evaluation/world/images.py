"""Errors of predicted frames: squared error, PSNR, SSIM, and errors where a frame changed."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, fields
from functools import cache

import numpy as np
import torch
from einops import rearrange
from jaxtyping import Float, UInt8
from torch import Tensor

Frames = UInt8[np.ndarray, "n H W C"]
WINDOW, SIGMA = 11, 1.5
"""Side and deviation of SSIM's Gaussian window (Wang et al., 2004)."""
STABILISERS = (0.01**2, 0.03**2)
"""(K1 L)^2 and (K2 L)^2 for pixels in [0, 1]."""
CHANGE = 8
"""A pixel has changed if one of its channels differs from the frame before by more than this."""
BATCH = 128


@dataclass(frozen=True, slots=True)
class FrameErrors:
    """One number per frame. Sums are over pixels and channels.

    `changed` and `static` are the squared errors on pixels that differ from the previous real
    frame, and on the others; `*_count` are their numbers. `changed_reference` is the squared error
    of the mean real frame on the changed pixels.
    """

    mse: Float[np.ndarray, " n"]
    ssim: Float[np.ndarray, " n"]
    changed: Float[np.ndarray, " n"]
    changed_count: Float[np.ndarray, " n"]
    static: Float[np.ndarray, " n"]
    static_count: Float[np.ndarray, " n"]
    changed_reference: Float[np.ndarray, " n"]

    def summary(self) -> dict[str, float | None]:
        """Means over frames, and the variance of changed pixels that is explained."""
        mse = mean(self.mse)
        reference = self.changed_reference.sum()
        return {
            "mse": mse,
            "psnr": None if mse is None else psnr(mse),
            "ssim": mean(self.ssim),
            "changed_pixels": ratio(
                self.changed_count.sum(), self.changed_count.sum() + self.static_count.sum()
            ),
            "changed_mse": ratio(self.changed.sum(), self.changed_count.sum()),
            "static_mse": ratio(self.static.sum(), self.static_count.sum()),
            "changed_explained": None
            if not reference
            else float(1 - self.changed.sum() / reference),
        }


def ratio(part: float | int, whole: float | int) -> float | None:
    return float(part / whole) if whole else None


def mean(values: Float[np.ndarray, " n"]) -> float | None:
    """None for no values; NaNs are left out."""
    known = values[~np.isnan(values)]
    return float(known.mean()) if len(known) else None


def psnr(mse: float) -> float | None:
    """Peak signal-to-noise ratio in decibels, for pixels in [0, 1]; None for no error at all."""
    return -10 * math.log10(mse) if mse > 0 else None


def compare_frames(
    predicted: Frames, real: Frames, before: Frames, average: Float[np.ndarray, "H W C"]
) -> FrameErrors:
    """Errors of each predicted frame. `before` are the real frames one step earlier."""
    parts = [
        compare_batch(
            as_tensor(predicted[rows]), as_tensor(real[rows]), as_tensor(before[rows]), average
        )
        for rows in batches(len(real))
    ]
    if not parts:
        return FrameErrors(*(np.zeros(0) for _ in fields(FrameErrors)))
    return FrameErrors(
        *(
            np.concatenate([getattr(part, field.name) for part in parts])
            for field in fields(parts[0])
        )
    )


def compare_batch(
    predicted: Float[Tensor, "n C H W"],
    real: Float[Tensor, "n C H W"],
    before: Float[Tensor, "n C H W"],
    average: Float[np.ndarray, "H W C"],
) -> FrameErrors:
    error = (predicted - real).square()
    moved = ((real - before).abs() > (CHANGE + 0.5) / 255).any(dim=1, keepdim=True)
    changed = moved.expand_as(error)
    middle = rearrange(torch.from_numpy(average).float(), "h w c -> c h w")
    reference = (real - middle).square()
    pixels = (1, 2, 3)
    values = (
        error.mean(pixels),
        ssim(predicted, real),
        (error * changed).sum(pixels),
        changed.float().sum(pixels),
        (error * ~changed).sum(pixels),
        (~changed).float().sum(pixels),
        (reference * changed).sum(pixels),
    )
    return FrameErrors(*(value.double().numpy() for value in values))


def batches(count: int) -> Iterator[slice]:
    return (slice(begin, begin + BATCH) for begin in range(0, count, BATCH))


def as_tensor(frames: Frames) -> Float[Tensor, "n C H W"]:
    return rearrange(torch.from_numpy(frames), "n h w c -> n c h w").float() / 255


def ssim(one: Float[Tensor, "n C H W"], other: Float[Tensor, "n C H W"]) -> Float[Tensor, " n"]:
    """Structural similarity of frames in [0, 1] (Wang et al., 2004), the mean over channels and
    over all places where the whole window lies inside the frame; NaN for smaller frames."""
    if min(one.shape[-2:]) < WINDOW:
        return torch.full((len(one),), math.nan, dtype=one.dtype)
    mean_one, mean_other = blur(one), blur(other)
    variance_one = blur(one * one) - mean_one.square()
    variance_other = blur(other * other) - mean_other.square()
    covariance = blur(one * other) - mean_one * mean_other
    first, second = STABILISERS
    luminance = (2 * mean_one * mean_other + first) / (
        mean_one.square() + mean_other.square() + first
    )
    structure = (2 * covariance + second) / (variance_one + variance_other + second)
    return (luminance * structure).mean(dim=(1, 2, 3))


@cache
def band(size: int) -> Float[Tensor, "size places"]:
    """Column p holds the window's weights from row p on."""
    place = torch.arange(WINDOW, dtype=torch.float64) - WINDOW // 2
    weight = torch.exp(-place.square() / (2 * SIGMA**2))
    matrix = torch.zeros(size, size - WINDOW + 1, dtype=torch.float64)
    for begin in range(matrix.shape[1]):
        matrix[begin : begin + WINDOW, begin] = weight / weight.sum()
    return matrix


def blur(maps: Float[Tensor, "n C H W"]) -> Float[Tensor, "n C h w"]:
    """Gaussian means, along one axis after the other; a product is faster than a convolution."""
    across = maps @ band(maps.shape[-1]).to(maps.dtype)
    return band(maps.shape[-2]).to(maps.dtype).T @ across
