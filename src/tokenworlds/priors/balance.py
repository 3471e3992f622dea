"""Moving the prediction to the codes and the codes to it, each at its own rate (DreamerV3, KL
balancing), and how well the one foresees the other."""

from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from tokenworlds.core.types import Codes, masked_mean
from tokenworlds.nets.distributions import kl_categorical

Objective = Literal["kl", "reverse-kl", "cross-entropy"]
Span = Literal["frame", "batch"]


@dataclass(frozen=True, slots=True)
class Balance:
    """Free bits are nats of a whole frame, below which a term no longer pulls: by each frame for
    itself, or by the mean over all steps that count (STORM)."""

    objective: Objective
    free_bits: float
    free_bits_over: Span

    def terms(
        self,
        prior: Float[Tensor, "B T K V"],
        codes: Codes,
        mask: Bool[Tensor, "B T"],
        weight: Float[Tensor, "B T K"] | None = None,
    ) -> dict[str, Float[Tensor, "B T"]]:
        """`dynamics` moves the prediction to the codes, `representation` the codes to it.

        `weight` is how much each site counts; cross-entropy has no second term and no free bits.
        """
        if self.objective == "cross-entropy":
            chosen = prior.gather(-1, codes.index.unsqueeze(-1)).squeeze(-1)
            return {"dynamics": -sum_sites(chosen, weight)}
        pairs = {
            "dynamics": (codes.logits.detach(), prior),
            "representation": (codes.logits, prior.detach()),
        }
        return {
            name: self._spare(sum_sites(self._divergence(*pair), weight), mask)
            for name, pair in pairs.items()
        }

    def _divergence(
        self, posterior: Float[Tensor, "B T K V"], prior: Float[Tensor, "B T K V"]
    ) -> Float[Tensor, "B T K"]:
        pair = (posterior, prior) if self.objective == "kl" else (prior, posterior)
        return kl_categorical(*pair)

    def _spare(
        self, divergence: Float[Tensor, "B T"], mask: Bool[Tensor, "B T"]
    ) -> Float[Tensor, "B T"]:
        if self.free_bits_over == "frame":
            return divergence.clamp_min(self.free_bits)
        below = masked_mean(divergence.detach(), mask) < self.free_bits
        return torch.where(below, self.free_bits, divergence)


def sum_sites(
    values: Float[Tensor, "B T K"], weight: Float[Tensor, "B T K"] | None
) -> Float[Tensor, "B T"]:
    """The sum over a frame, each site as much as it counts."""
    return (values if weight is None else values * weight).sum(dim=-1)


@torch.no_grad()
def hits(prior: Float[Tensor, "B T K V"], codes: Codes) -> Float[Tensor, "B T K"]:
    """1 where the likeliest code was the one that came."""
    return (prior.argmax(dim=-1) == codes.index).to(prior.dtype)


@torch.no_grad()
def posterior_entropy(codes: Codes, mask: Bool[Tensor, "B T"]) -> Float[Tensor, ""]:
    """How unsure a code is of itself, in nats."""
    entropy = -(codes.logits.exp() * codes.logits).sum(dim=-1)
    return masked_mean(entropy.mean(dim=-1), mask)
