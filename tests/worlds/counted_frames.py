"""Counts the frames that a world encodes."""

from typing import Any

from torch import Tensor

from tokenworlds.core.types import Segment


def count_frames(world: Any) -> list[int]:
    """A list that grows by the number of frames of each call of `tokens_of`."""
    counts, original = list[int](), world.tokens_of

    def tokens_of(segment: Segment, wanted: Tensor) -> Tensor:
        counts.append(int(wanted.sum()))
        tokens: Tensor = original(segment, wanted)
        return tokens

    world.tokens_of = tokens_of
    return counts
