"""Histories and frame stacks by hand: every frame is one number."""

import torch
from torch import Tensor

from tokenworlds.core.types import ActionSpace, Segment
from tokenworlds.worlds.history import History, stack_frames, stack_segment


def numbered(*rows: list[int]) -> Tensor:
    """Frames of 2x2 with one channel, each filled with its number."""
    return torch.tensor(rows, dtype=torch.uint8)[..., None, None, None].expand(-1, -1, 2, 2, 1)


def segment_of(frame: Tensor, first: list[list[int]], mask: list[list[int]]) -> Segment:
    no = torch.zeros(frame.shape[:2], dtype=torch.bool)
    starts, real = torch.tensor(first).bool(), torch.tensor(mask).bool()
    return Segment(frame, starts, no.long(), no.float(), no, no, real)


def numbers(stack: Tensor) -> list[list[list[int]]]:
    """Row, step and place in the stack; all pixels of a frame must be equal."""
    assert (stack == stack[..., :1, :1]).all()
    found: list[list[list[int]]] = (stack[..., 0, 0] * 255).round().long().tolist()
    return found


def test_a_stack_holds_the_latest_frames_of_the_episode_oldest_first() -> None:
    """An episode starts with the first row, another at the end of the second."""
    frame = numbered([1, 2, 3, 4], [5, 6, 7, 8])
    stack, complete = stack_segment(
        segment_of(frame, [[1, 0, 0, 0], [0, 0, 0, 1]], [[1] * 4] * 2), 3
    )
    assert stack.shape == (2, 4, 3, 2, 2)
    assert numbers(stack) == [
        [[1, 1, 1], [1, 1, 2], [1, 2, 3], [2, 3, 4]],
        [[5, 5, 5], [5, 5, 6], [5, 6, 7], [8, 8, 8]],
    ]
    assert complete.tolist() == [[True] * 4, [False, False, True, True]]


def test_nothing_before_padding_is_known() -> None:
    """In the second row an episode starts after the padding, in the first it continues."""
    frame = numbered([9, 9, 3, 4], [9, 9, 7, 8])
    stack, complete = stack_segment(
        segment_of(frame, [[0] * 4, [0, 0, 1, 0]], [[0, 0, 1, 1]] * 2), 2
    )
    assert [row[2:] for row in numbers(stack)] == [[[3, 3], [3, 4]], [[7, 7], [7, 8]]]
    assert complete[:, 2:].tolist() == [[False, True], [True, True]]


def test_a_stack_of_one_is_the_frame() -> None:
    frame = numbered([1, 2, 3])
    stack, complete = stack_segment(segment_of(frame, [[0, 0, 1]], [[1, 1, 1]]), 1)
    assert numbers(stack) == [[[1], [2], [3]]]
    assert complete.all()


def test_channels_of_a_frame_stay_together() -> None:
    frame = torch.arange(6, dtype=torch.uint8).view(1, 2, 1, 1, 3)
    stack, _ = stack_segment(segment_of(frame, [[1, 0]], [[1, 1]]), 2)
    assert numbers(stack) == [[[0, 1, 2, 0, 1, 2], [0, 1, 2, 3, 4, 5]]]


def test_pushed_frames_give_the_stacks_of_a_segment() -> None:
    first = [[1, 0, 0, 0, 0], [1, 0, 1, 0, 0]]
    frame = numbered([1, 2, 3, 4, 5], [6, 7, 8, 9, 10])
    expected, complete = stack_segment(segment_of(frame, first, [[1] * 5] * 2), 3)
    assert complete.all()
    history = History.blank(frame[:, 0], 3, ActionSpace(2))
    for step in range(5):
        history = history.push(frame[:, step], torch.zeros(2, 2), torch.tensor(first)[:, step] > 0)
        stack = stack_frames(history.observation, history.starts, 3)[:, -1]
        torch.testing.assert_close(stack, expected[:, step])
