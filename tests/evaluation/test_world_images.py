import math

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from tokenworlds.evaluation.world.images import compare_frames, psnr, ssim


def ssim_window_by_window(one: NDArray[np.float64], other: NDArray[np.float64]) -> float:
    """The formula of Wang et al. (2004) at every place of an 11x11 window, for one channel."""
    place = np.arange(11) - 5
    weight = np.exp(-(place[:, None] ** 2 + place**2) / (2 * 1.5**2))
    weight /= weight.sum()
    found = []
    for top in range(one.shape[0] - 10):
        for left in range(one.shape[1] - 10):
            x, y = (each[top : top + 11, left : left + 11] for each in (one, other))
            mean_x, mean_y = (weight * x).sum(), (weight * y).sum()
            var_x, var_y = (weight * (x - mean_x) ** 2).sum(), (weight * (y - mean_y) ** 2).sum()
            both = (weight * (x - mean_x) * (y - mean_y)).sum()
            luminance = (2 * mean_x * mean_y + 1e-4) / (mean_x**2 + mean_y**2 + 1e-4)
            found.append(luminance * (2 * both + 9e-4) / (var_x + var_y + 9e-4))
    return float(np.mean(found))


def test_ssim_equals_the_formula_evaluated_window_by_window() -> None:
    rng = np.random.default_rng(0)
    one = rng.random((2, 3, 17, 14))
    other = np.clip(one + 0.2 * rng.standard_normal(one.shape), 0, 1)
    expected = [
        np.mean([ssim_window_by_window(*pair) for pair in zip(*frames, strict=True)])
        for frames in zip(one, other, strict=True)
    ]
    found = ssim(torch.from_numpy(one), torch.from_numpy(other))
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-10)


def test_ssim_of_equal_frames_is_one_and_of_constant_frames_is_luminance() -> None:
    frames = torch.rand(1, 3, 16, 16, dtype=torch.float64)
    assert ssim(frames, frames).item() == pytest.approx(1.0)
    dark, light = torch.full_like(frames, 0.2), torch.full_like(frames, 0.6)
    expected = (2 * 0.2 * 0.6 + 1e-4) / (0.2**2 + 0.6**2 + 1e-4)
    assert ssim(dark, light).item() == pytest.approx(expected)


def test_psnr_of_one_percent_squared_error_is_twenty_decibels() -> None:
    assert psnr(0.01) == pytest.approx(20.0)
    assert psnr(0.0) is None


def moving_dot() -> NDArray[np.uint8]:
    """A bright dot that moves one pixel per frame over a dark background."""
    frames = np.zeros((6, 16, 16, 3), np.uint8)
    for time in range(6):
        frames[time, 8, time + 4] = 255
    return frames


def test_a_vanished_object_is_an_error_of_changed_pixels_alone() -> None:
    frames = moving_dot()
    average = frames.mean(0) / 255
    nothing = np.zeros_like(frames[1:])
    found = compare_frames(nothing, frames[1:], frames[:-1], average).summary()
    assert found["static_mse"] == 0.0
    assert found["changed_mse"] == pytest.approx(0.5)
    assert found["changed_explained"] is not None
    assert found["changed_explained"] < 0
    assert found["changed_pixels"] == pytest.approx(2 / 256)


def test_perfect_frames_explain_all_changes() -> None:
    frames = moving_dot()
    found = compare_frames(frames[1:], frames[1:], frames[:-1], frames.mean(0) / 255).summary()
    assert found["changed_explained"] == 1.0
    assert found["mse"] == 0.0
    assert found["psnr"] is None
    assert math.isclose(found["ssim"] or 0.0, 1.0)
