"""Stacks of frames by hand: every frame is one number."""

import torch
from torch import Tensor

from tokenworlds.core.types import Segment
from tokenworlds.worlds.history import FrameStack, stacked


def numbered(*rows: list[int]) -> Tensor:
    """Frames of 2x2 with one channel, each filled with its number."""
    return torch.tensor(rows, dtype=torch.uint8)[..., None, None, None].expand(-1, -1, 2, 2, 1)


def segment_of(frame: Tensor, first: list[list[int]], mask: list[list[int]]) -> Segment:
    no = torch.zeros(frame.shape[:2], dtype=torch.bool)
    opens, real = torch.tensor(first).bool(), torch.tensor(mask).bool()
    return Segment(frame, opens, no.long(), no.float(), no, no, real)


def numbers(stack: Tensor) -> list[list[list[int]]]:
    """Row, step and place in the stack; all pixels of a frame must agree."""
    assert (stack == stack[..., :1, :1]).all()
    found: list[list[list[int]]] = (stack[..., 0, 0] * 255).round().long().tolist()
    return found


def test_the_newest_frames_of_the_episode_are_stacked_oldest_first() -> None:
    """The first row opens with its first step, the second lies in an episode and opens another."""
    frame = numbered([1, 2, 3, 4], [5, 6, 7, 8])
    stack, known = stacked(segment_of(frame, [[1, 0, 0, 0], [0, 0, 0, 1]], [[1] * 4] * 2), 3)
    assert stack.shape == (2, 4, 3, 2, 2)
    assert numbers(stack) == [
        [[1, 1, 1], [1, 1, 2], [1, 2, 3], [2, 3, 4]],
        [[5, 5, 5], [5, 5, 6], [5, 6, 7], [8, 8, 8]],
    ]
    assert known.tolist() == [[True] * 4, [False, False, True, True]]


def test_nothing_is_known_of_what_lies_before_padding() -> None:
    """The first row goes on after padding, in the second an episode opens there."""
    frame = numbered([9, 9, 3, 4], [9, 9, 7, 8])
    stack, known = stacked(segment_of(frame, [[0] * 4, [0, 0, 1, 0]], [[0, 0, 1, 1]] * 2), 2)
    assert [row[2:] for row in numbers(stack)] == [[[3, 3], [3, 4]], [[7, 7], [7, 8]]]
    assert known[:, 2:].tolist() == [[False, True], [True, True]]


def test_a_stack_of_one_is_the_frame() -> None:
    frame = numbered([1, 2, 3])
    stack, known = stacked(segment_of(frame, [[0, 0, 1]], [[1, 1, 1]]), 1)
    assert numbers(stack) == [[[1], [2], [3]]]
    assert known.all()


def test_channels_of_a_frame_stay_together() -> None:
    frame = torch.arange(6, dtype=torch.uint8).view(1, 2, 1, 1, 3)
    stack, _ = stacked(segment_of(frame, [[1, 0]], [[1, 1]]), 2)
    assert numbers(stack) == [[[0, 1, 2, 0, 1, 2], [0, 1, 2, 3, 4, 5]]]


def test_pushing_frames_is_stacking_them() -> None:
    first = [[1, 0, 0, 0, 0], [1, 0, 1, 0, 0]]
    frame = numbered([1, 2, 3, 4, 5], [6, 7, 8, 9, 10])
    expected, known = stacked(segment_of(frame, first, [[1] * 5] * 2), 3)
    assert known.all()
    carry = FrameStack.of(frame[:, 0], 3)
    for step in range(1, 5):
        carry = carry.push(frame[:, step], torch.tensor(first)[:, step].bool())
        torch.testing.assert_close(carry.channels(), expected[:, step])
