"""Chance that falls alike twice: from nearly the same odds another index is drawn now and then."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import torch
from torch import Tensor


class Draws:
    """Indices drawn, to be drawn again."""

    def __init__(self) -> None:
        self.drawn: list[Tensor] = []

    @contextmanager
    def written_down(self) -> Iterator[None]:
        """As chance has it."""
        search = torch.searchsorted

        def record(reached: Tensor, chance: Tensor, right: bool) -> Tensor:
            self.drawn.append(search(reached, chance, right=right))
            return self.drawn[-1].clone()

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(torch, "searchsorted", record)
            yield

    @contextmanager
    def once_more(self) -> Iterator[None]:
        """As they were written down, all of them."""
        left = iter(self.drawn)

        def repeat(reached: Tensor, chance: Tensor, right: bool) -> Tensor:
            assert (reached.dtype, chance.dtype) == (torch.float32,) * 2, "odds in few digits"
            return next(left).clone()

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(torch, "searchsorted", repeat)
            yield
        assert not list(left), "fewer were drawn"
