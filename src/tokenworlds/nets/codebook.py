"""A codebook that follows the encoder by moving averages (van den Oord et al., 2017, appendix)."""

from dataclasses import dataclass

import torch
from einops import rearrange
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional

from tokenworlds.core.config import Component, ConfigOf
from tokenworlds.core.precision import full_precision, widen


class Codebook(nn.Module, Component):
    """Code vectors with their running counts and sums."""

    vectors: Tensor
    counts: Tensor
    sums: Tensor
    seeded: Tensor

    @dataclass(frozen=True, kw_only=True, slots=True)
    class Config(ConfigOf["Codebook"]):
        """Choices; a code whose running count falls below `revive_below` is placed anew."""

        codes: int = 64
        width: int = 128
        decay: float = 0.99
        smoothing: float = 1e-5
        revive_below: float = 0.0

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        self.register_buffer("vectors", torch.randn(config.codes, config.width))
        self.register_buffer("counts", torch.ones(config.codes))
        self.register_buffer("sums", self.vectors.clone())
        self.register_buffer("seeded", torch.zeros((), dtype=torch.bool))

    def distance(self, encoded: Float[Tensor, "*rest D"]) -> Float[Tensor, "*rest V"]:
        """Squared distance of each vector to each code."""
        return squared_distance(encoded, self.vectors).clamp_min(0.0)

    def look_up(self, index: Int[Tensor, "*rest"]) -> Float[Tensor, "*rest D"]:
        """The vectors of codes."""
        return functional.embedding(index, self.vectors)

    @torch.no_grad()
    def update(self, encoded: Float[Tensor, "N K D"], index: Int[Tensor, "N K"]) -> None:
        """Move the codes towards what was assigned to them; the first call sets them on data."""
        flat = rearrange(encoded, "n k d -> (n k) d")
        if not self.seeded:
            self._place(torch.ones_like(self.counts, dtype=torch.bool), flat)
            self.seeded.fill_(True)
            return
        hard = functional.one_hot(index.flatten(), self.config.codes).to(flat.dtype)
        self.counts.lerp_(hard.sum(dim=0), 1 - self.config.decay)
        self.sums.lerp_(hard.t() @ flat, 1 - self.config.decay)
        self._revive(flat)
        self.vectors.copy_(self.sums / self._smoothed_counts().unsqueeze(-1))

    def _smoothed_counts(self) -> Tensor:
        total, smoothing = self.counts.sum(), self.config.smoothing
        return (self.counts + smoothing) / (total + self.config.codes * smoothing) * total

    def _revive(self, flat: Float[Tensor, "N D"]) -> None:
        dead = self.counts < self.config.revive_below
        if self.config.revive_below > 0 and dead.any():
            self._place(dead, flat)

    def _place(self, which: Tensor, flat: Float[Tensor, "N D"]) -> None:
        place_apart(self.vectors, which, flat)
        self.sums[which] = self.vectors[which]
        self.counts[which] = 1.0


def squared_distance(
    encoded: Float[Tensor, "*rest D"], codes: Float[Tensor, "V D"]
) -> Float[Tensor, "*rest V"]:
    """Of each vector to each code, in full precision: it is a small difference of large numbers."""
    with full_precision(encoded):
        encoded, codes = widen(encoded), widen(codes)
        squares = encoded.square().sum(dim=-1, keepdim=True)
        return squares - 2 * encoded @ codes.t() + codes.square().sum(dim=-1)


@torch.no_grad()
def place_apart(
    codes: Float[Tensor, "V D"], which: Bool[Tensor, " V"], flat: Float[Tensor, "N D"]
) -> None:
    """Set some codes on data, one after the other, each where the others are far (k-means++).

    Drawing vectors evenly would put most codes on the background of a frame.
    """
    taken = ~which
    for code in which.nonzero().flatten():
        weight = torch.ones_like(flat[:, 0])
        if taken.any():
            weight = squared_distance(flat, codes[taken]).amin(dim=-1).clamp_min(0.0)
        codes[code] = flat[torch.multinomial(weight + 1e-8, 1)[0]]
        taken[code] = True
