"""One part of an agent with its optimiser: a segment in, its lessons learned, metrics out."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor

from tokenworlds.core.types import Losses, Part, Segment, weighted_sum
from tokenworlds.runs.recipe import Learning

Context = Callable[[], AbstractContextManager[Any]]


class NonFiniteLoss(ArithmeticError):
    """A loss or gradient that is not a number; raised before it changed any weight."""


class Learner:
    """Updates one part of an agent from segments; each lesson is worked out inside a context."""

    def __init__(
        self, name: str, learning: Learning, part: Part, context: Context = nullcontext
    ) -> None:
        self.name = name
        self.learning = learning
        self.context = context
        self.module = part.module
        self.optimiser = learning.optimiser.build(module=part.module)
        self._lessons = part.lessons

    def update(self, segment: Segment) -> dict[str, Tensor]:
        """Learn all lessons of a segment, one after the other; returns means over them."""
        told = []
        self.module.train()
        try:
            for losses in self._ask(segment):
                metrics = self._learn(losses)
                # A copy: what is compiled may work out the next lesson in the memory of this one.
                told.append(torch.stack(list(metrics.values())))
        finally:
            self.module.eval()
        return dict(zip(metrics, torch.stack(told).mean(dim=0).unbind(), strict=True))

    def _ask(self, segment: Segment) -> Iterator[Losses]:
        """The lessons; what is learned from one, its gradients too, is outside of the context."""
        lessons = self._lessons(segment)
        while True:
            with self.context():
                losses = next(lessons, None)
            if losses is None:
                return
            yield losses

    def _learn(self, losses: Losses) -> dict[str, Tensor]:
        """One step of the optimiser, then of the moving averages."""
        means = losses.means()
        total = weighted_sum(means, losses.weights(self.learning.scales))
        try:
            norm = self.optimiser.step(total)
        except FloatingPointError as error:
            reason = name_the_infinite(means, total) or error
            raise NonFiniteLoss(f"update {self._number} of {self.name}: {reason}") from error
        for follow in losses.after:
            follow()
        return self._metrics(means, total, norm, losses.metrics)

    @property
    def _number(self) -> int:
        return self.optimiser.updates + 1

    def _metrics(
        self,
        means: Mapping[str, Tensor],
        total: Tensor,
        norm: Tensor,
        others: Mapping[str, Tensor],
    ) -> dict[str, Tensor]:
        losses = {f"loss/{name}": mean for name, mean in means.items()}
        values = {**losses, "loss/total": total, "gradient_norm": norm, **others}
        return {f"{self.name}/{name}": value.detach() for name, value in values.items()}


def name_the_infinite(means: Mapping[str, Tensor], total: Tensor) -> str:
    """Which terms are not finite; nothing if their sum is, and only the gradient is to blame."""
    if torch.isfinite(total):
        return ""
    bad = [name for name, mean in means.items() if not torch.isfinite(mean)]
    return f"{', '.join(bad) or 'the total'} not finite"
