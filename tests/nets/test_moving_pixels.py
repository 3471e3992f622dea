"""Weights of pixels that move."""

import torch

from tokenworlds.nets.moving_pixels import find_moving, weigh_moving


def frames_with_a_ball() -> torch.Tensor:
    """A grey frame of 4 x 4 with one white pixel, which is elsewhere in each of four steps."""
    frames = torch.full((2, 4, 3, 4, 4), 0.5)
    for time in range(4):
        frames[:, time, :, 0, time] = 1.0
    return frames


def test_pixels_that_differ_from_their_mean_move() -> None:
    moving = find_moving(frames_with_a_ball())
    assert moving.shape == (2, 4, 1, 4, 4)
    assert moving[..., 0, :].all()
    assert not moving[..., 1:, :].any()


def test_moving_pixels_get_their_share_of_an_equal_error() -> None:
    frames = frames_with_a_ball()
    error = torch.ones_like(frames)
    weighed = weigh_moving(error, frames, 0.5)
    moving = find_moving(frames).expand_as(frames)
    torch.testing.assert_close(weighed.sum(), error.sum())
    torch.testing.assert_close(weighed[moving].sum(), error.sum() / 2)


def test_pixels_that_have_their_share_already_are_left_alone() -> None:
    frames = frames_with_a_ball()
    error = torch.rand_like(frames)
    assert torch.equal(weigh_moving(error, frames, 0.2), error)
    assert torch.equal(weigh_moving(error, frames, None), error)


def test_frames_in_which_nothing_moves_have_finite_errors() -> None:
    still = torch.full((1, 3, 3, 4, 4), 0.5)
    weighed = weigh_moving(torch.ones_like(still), still, 0.5)
    assert weighed.isfinite().all()
