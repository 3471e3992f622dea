"""One part of an agent with its optimiser: a segment in, an update done, metrics out."""

from collections.abc import Mapping

import torch
from torch import Tensor

from tokenworlds.core.types import Part, Segment
from tokenworlds.training.recipe import Learning


class NonFiniteLoss(ArithmeticError):
    """A loss or gradient that is not a number; raised before any weight was changed."""


class Learner:
    """Updates one part of an agent from segments."""

    def __init__(self, name: str, learning: Learning, part: Part) -> None:
        self.name = name
        self.learning = learning
        self.module = part.module
        self.optimiser = learning.optimiser.build(module=part.module)
        self._losses = part.losses

    def update(self, segment: Segment) -> dict[str, Tensor]:
        """One step of the optimiser, then of the moving averages."""
        self.module.train()
        try:
            return self._learn(segment)
        finally:
            self.module.eval()

    def _learn(self, segment: Segment) -> dict[str, Tensor]:
        losses = self._losses(segment)
        means = losses.means()
        total = losses.total(self.learning.scales)
        self._insist_on_finite(total, means)
        try:
            norm = self.optimiser.step(total)
        except FloatingPointError as error:
            raise NonFiniteLoss(f"update {self._number} of {self.name}: {error}") from error
        for follow in losses.after:
            follow()
        return self._metrics(means, total, norm, losses.metrics)

    @property
    def _number(self) -> int:
        return self.optimiser.updates + 1

    def _insist_on_finite(self, total: Tensor, means: Mapping[str, Tensor]) -> None:
        if not torch.isfinite(total):
            bad = [name for name, mean in means.items() if not torch.isfinite(mean)]
            raise NonFiniteLoss(
                f"update {self._number} of {self.name}: {', '.join(bad) or 'the total'} not finite"
            )

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
