"""A codebook of bias-corrected moving averages (Smaller World Models: Robine et al., 2023)."""

from dataclasses import dataclass
from typing import Literal

import torch
from einops import rearrange
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional

from tokenworlds.core.config import Component, ConfigOf
from tokenworlds.nets.codebook import squared_distance


class AveragedCodebook(nn.Module, Component):
    """Code vectors, and the counts and sums of what was assigned to them, averaged from zero.

    A code that was never chosen is at the origin after the first update, in the midst of vectors
    that a batch norm has centred: from there codes are taken into use one after the other.
    """

    vectors: Tensor
    counts: Tensor
    sums: Tensor
    updates: Tensor

    @dataclass(frozen=True, kw_only=True, slots=True)
    class Config(ConfigOf["AveragedCodebook"]):
        """Choices. `corrected`: which averages are freed of their start at zero; the released code
        does so for the sums alone, so that its first vectors are 1 / (1 - decay) times too long."""

        codes: int = 128
        width: int = 32
        decay: float = 0.99
        smoothing: float = 1e-5
        corrected: Literal["both", "sums"] = "both"

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        bound = (3 / config.codes) ** 0.5
        drawn = torch.empty(config.codes, config.width).uniform_(-bound, bound)
        self.register_buffer("vectors", drawn)
        self.register_buffer("counts", torch.zeros(config.codes))
        self.register_buffer("sums", torch.zeros(config.codes, config.width))
        self.register_buffer("updates", torch.zeros((), dtype=torch.long))

    def distance(self, encoded: Float[Tensor, "*rest D"]) -> Float[Tensor, "*rest V"]:
        """Squared distance of each vector to each code."""
        return squared_distance(encoded, self.vectors).clamp_min(0.0)

    def look_up(self, index: Int[Tensor, "*rest"]) -> Float[Tensor, "*rest D"]:
        """The vectors of codes."""
        return functional.embedding(index, self.vectors)

    @torch.no_grad()
    def update(self, encoded: Float[Tensor, "N K D"], index: Int[Tensor, "N K"]) -> None:
        """Move each code to the average of what was assigned to it."""
        if len(encoded) == 0:
            return
        flat = rearrange(encoded, "n k d -> (n k) d").float()
        hard = functional.one_hot(index.flatten(), self.config.codes).to(flat.dtype)
        self.counts.lerp_(hard.sum(dim=0), 1 - self.config.decay)
        self.sums.lerp_(hard.t() @ flat, 1 - self.config.decay)
        self.updates += 1
        begun = 1 - self.config.decay ** int(self.updates)
        counts = self.counts / begun if self.config.corrected == "both" else self.counts
        self.vectors.copy_(self.sums / begun / self._smooth(counts).unsqueeze(-1))

    def _smooth(self, counts: Float[Tensor, " V"]) -> Float[Tensor, " V"]:
        """Counts of the same total, none of them zero."""
        total, smoothing = counts.sum(), self.config.smoothing
        return (counts + smoothing) / (total + self.config.codes * smoothing) * total
