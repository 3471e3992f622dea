"""A trainable module with its optimiser: takes a segment, updates weights, returns metrics."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor

from tokenworlds.core.types import Losses, Segment, Trainable, weighted_sum
from tokenworlds.runs.recipe import Learning

LossContext = Callable[[], AbstractContextManager[Any]]


class NonFiniteLoss(ArithmeticError):
    """A loss or gradient that is not finite, raised before any weight has changed."""


class Learner:
    """Updates one module from segments. Losses are computed inside `context`, gradients outside."""

    def __init__(
        self,
        name: str,
        learning: Learning,
        trainable: Trainable,
        context: LossContext = nullcontext,
    ) -> None:
        self.name = name
        self.learning = learning
        self.context = context
        self.module = trainable.module
        self.losses = trainable.losses
        self.optimiser = learning.optimiser.build(module=trainable.module)

    def update(self, segment: Segment) -> tuple[dict[str, Tensor], Tensor | None]:
        """One optimiser step, or one for each minibatch.

        Returns the mean metrics, and the latents that replay is to keep.
        """
        rows = []
        self.module.train()
        try:
            with self.context():
                result = self.losses(segment)
            for losses in [result] if isinstance(result, Losses) else self._minibatches(result):
                metrics = self._step(losses)
                # A copy: compiled losses may reuse their memory for the next minibatch.
                rows.append(torch.stack(list(metrics.values())))
        finally:
            self.module.eval()
        means = torch.stack(rows).mean(dim=0).unbind()
        return dict(zip(metrics, means, strict=True)), losses.latents

    def _minibatches(self, batches: Iterator[Losses]) -> Iterator[Losses]:
        while True:
            with self.context():
                losses = next(batches, None)
            if losses is None:
                return
            yield losses

    def _step(self, losses: Losses) -> dict[str, Tensor]:
        means = losses.means()
        total = weighted_sum(means, losses.weights(self.learning.scales))
        try:
            norm = self.optimiser.step(total)
        except FloatingPointError as error:
            reason = non_finite_terms(means, total) or error
            number = self.optimiser.updates + 1
            raise NonFiniteLoss(f"update {number} of {self.name}: {reason}") from error
        for follow in losses.after:
            follow()
        values = {f"loss/{name}": mean for name, mean in means.items()}
        values |= {"loss/total": total, "gradient_norm": norm, **losses.metrics}
        return {f"{self.name}/{name}": value.detach() for name, value in values.items()}


def non_finite_terms(means: Mapping[str, Tensor], total: Tensor) -> str:
    """Names of the terms that are not finite; empty if only the gradient is not."""
    if torch.isfinite(total):
        return ""
    bad = [name for name, mean in means.items() if not torch.isfinite(mean)]
    return f"{', '.join(bad) or 'the total'} not finite"
