"""A world that is watched while it codes."""

from typing import Any

from torch import Tensor

from tokenworlds.core.types import Segment


def count_frames(world: Any) -> list[int]:
    """How many frames each call of the world is to code, as time goes on."""
    asked, original = list[int](), world.tokens_of

    def codes_of(segment: Segment, wanted: Tensor) -> Tensor:
        asked.append(int(wanted.sum()))
        codes: Tensor = original(segment, wanted)
        return codes

    world.tokens_of = codes_of
    return asked
