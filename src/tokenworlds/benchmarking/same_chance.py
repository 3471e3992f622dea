"""The same random numbers on two devices, so that what they compute can be compared.

Generators of different devices draw different numbers. What the first run drew is written down, and
given to the second in the same order.
"""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

DRAWING = {
    *(torch.rand, torch.randn, torch.randint, torch.randperm, torch.normal),
    *(torch.bernoulli, torch.multinomial, torch.searchsorted),
}
"""Calls whose result is chance. An index is found from a random number by `searchsorted`: rounding
could find its neighbour."""


class Chance(TorchFunctionMode):
    """Records random numbers; once `again` is set, returns the recorded ones."""

    def __init__(self) -> None:
        super().__init__()
        self.drawn: list[Tensor] = []
        self._left: Iterator[Tensor] | None = None

    def again(self) -> "Chance":
        self._left = iter(self.drawn)
        return self

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if func not in DRAWING:
            return result
        if self._left is None:
            self.drawn.append(result.detach().cpu().clone())
            return result
        return next(self._left).to(result.device, result.dtype)
