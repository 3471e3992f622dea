"""One part of an agent with its optimiser: a segment in, its lessons learned, metrics out."""

from collections.abc import Mapping

import torch
from torch import Tensor

from tokenworlds.core.types import Losses, Part, Segment
from tokenworlds.training.recipe import Learning


class NonFiniteLoss(ArithmeticError):
    """A loss or gradient that is not a number; raised before it changed any weight."""


class Learner:
    """Updates one part of an agent from segments."""

    def __init__(self, name: str, learning: Learning, part: Part) -> None:
        self.name = name
        self.learning = learning
        self.module = part.module
        self.optimiser = learning.optimiser.build(module=part.module)
        self._lessons = part.lessons

    def update(self, segment: Segment) -> dict[str, Tensor]:
        """Learn all lessons of a segment, one after the other; returns means over them."""
        self.module.train()
        try:
            told = [self._learn(losses) for losses in self._lessons(segment)]
        finally:
            self.module.eval()
        return {name: torch.stack([each[name] for each in told]).mean() for name in told[0]}

    def _learn(self, losses: Losses) -> dict[str, Tensor]:
        """One step of the optimiser, then of the moving averages."""
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
