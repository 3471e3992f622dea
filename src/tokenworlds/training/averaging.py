"""Averages of weights over updates (Polyak averaging)."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor, nn


class WeightAverage:
    """Outside updates the module holds averages of its parameters; updates go on from the last.

    Whoever dreams, acts, evaluates or saves then uses the averages without knowing of them.
    Buffers are not averaged: those of codebooks are averages already.
    """

    def __init__(self, module: nn.Module, decay: float) -> None:
        self.decay = decay
        self.named = dict(module.named_parameters()) if decay else {}
        self.last = {name: each.detach().clone() for name, each in self.named.items()}
        """The parameters after the last update."""

    @contextmanager
    def updating(self, updates: int) -> Iterator[None]:
        """Around an update that follows `updates` others; if it fails, averages stay as they are.

        The first averages are short, because early weights are soon of no use.
        """
        averages = {name: each.detach().clone() for name, each in self.named.items()}
        self._load(self.last)
        try:
            yield
            self.last = {name: each.detach().clone() for name, each in self.named.items()}
            weight = max(1.0 - self.decay, 9.0 / (10.0 + updates))
            for name, average in averages.items():
                average.lerp_(self.last[name], weight)
        finally:
            self._load(averages)

    @torch.no_grad()
    def _load(self, weights: Mapping[str, Tensor]) -> None:
        for name, parameter in self.named.items():
            parameter.copy_(weights[name])

    def state(self) -> dict[str, Tensor]:
        return self.last

    @torch.no_grad()
    def restore(self, saved: Mapping[str, Tensor] | None) -> None:
        """Without saved weights, as of a run without averages, go on from those of the module."""
        found = self.named if saved is None else saved
        for name, each in self.last.items():
            each.copy_(found[name])
