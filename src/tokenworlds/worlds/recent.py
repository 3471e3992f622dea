"""The last few real steps, kept so that an agent may act on a short memory (DRAMA acts on 16)."""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor


@dataclass(frozen=True, slots=True)
class Recent:
    """Codes, actions and episode openings of the steps before this one, oldest first."""

    index: Int[Tensor, "B T K"]
    action: Float[Tensor, "B T A"]
    first: Bool[Tensor, "B T"]

    @staticmethod
    def blank(batch: int, steps: int, tokens: int, actions: int, device: torch.device) -> "Recent":
        """Nothing seen yet: every place opens an episode, so that none is looked back on."""
        return Recent(
            torch.zeros(batch, steps, tokens, dtype=torch.long, device=device),
            torch.zeros(batch, steps, actions, device=device),
            torch.ones(batch, steps, dtype=torch.bool, device=device),
        )

    def push(
        self,
        index: Int[Tensor, "B K"],
        action: Float[Tensor, "B A"],
        first: Bool[Tensor, " B"],
    ) -> "Recent":
        """Add a step and drop the oldest."""
        return Recent(
            torch.cat([self.index[:, 1:], index.unsqueeze(1)], dim=1),
            torch.cat([self.action[:, 1:], action.unsqueeze(1)], dim=1),
            torch.cat([self.first[:, 1:], first.unsqueeze(1)], dim=1),
        )
