"""A codebook of unit vectors that follows the encoder by moving averages (Δ-IRIS, appendix)."""

import math
from dataclasses import dataclass

import torch
from einops import rearrange
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional

from tokenworlds.core.config import Component, ConfigOf


class UnitCodebook(nn.Module, Component):
    """Code vectors with their running shares of use.

    Their length is 1 from the first update on.
    """

    vectors: Tensor
    usage: Tensor
    updates: Tensor

    @dataclass(frozen=True, kw_only=True, slots=True)
    class Config(ConfigOf["UnitCodebook"]):
        """Choices. Codes whose share is under `expired` of an even one are placed anew while the
        entropy of use is `spare` bits or more below its greatest; after `revivals` updates (None:
        never) only if it is also below `collapsed` bits."""

        codes: int = 1024
        width: int = 64
        decay: float = 0.99
        usage_decay: float = 0.98
        revivals: int | None = 0
        collapsed: float = 1.0
        spare: float = 2.0
        expired: float = 0.1

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        bound = 1 / config.codes
        drawn = torch.empty(config.codes, config.width).uniform_(-bound, bound)
        self.register_buffer("vectors", drawn)
        self.register_buffer("usage", torch.full((config.codes,), bound))
        self.register_buffer("updates", torch.zeros((), dtype=torch.long))

    def similarity(self, encoded: Float[Tensor, "*rest D"]) -> Float[Tensor, "*rest V"]:
        """Inner product of each vector with each code."""
        return encoded @ self.vectors.t()

    def look_up(self, index: Int[Tensor, "*rest"]) -> Float[Tensor, "*rest D"]:
        """The vectors of codes."""
        return functional.embedding(index, self.vectors)

    @torch.no_grad()
    def update(self, encoded: Float[Tensor, "N K D"], index: Int[Tensor, "N K"]) -> None:
        """Turn the codes towards the mean direction of what was assigned to them.

        A code without any keeps its direction: only its length shrinks, and is restored.
        """
        if len(encoded) == 0:
            return
        flat = rearrange(encoded, "n k d -> (n k) d")
        hard = functional.one_hot(index.flatten(), self.config.codes).to(flat.dtype)
        counts = hard.sum(dim=0)
        means = (hard.t() @ flat) / counts.clamp_min(1.0).unsqueeze(-1)
        moved = self.vectors.lerp(functional.normalize(means, dim=-1), 1 - self.config.decay)
        self.vectors.copy_(functional.normalize(moved, dim=-1))
        self.usage.lerp_(counts / len(flat), 1 - self.config.usage_decay)
        if self._should_revive():
            self._revive(flat)
        self.updates += 1

    def entropy(self) -> Tensor:
        """Of the running shares of use, in bits."""
        return -torch.xlogy(self.usage, self.usage).sum() / math.log(2)

    def _should_revive(self) -> bool:
        config, entropy = self.config, float(self.entropy())
        early = config.revivals is None or int(self.updates) < config.revivals
        wanting = entropy < math.log2(config.codes) - config.spare
        return wanting and (early or entropy < config.collapsed)

    def _revive(self, flat: Float[Tensor, "N D"]) -> None:
        """Set expired codes, as many as there are vectors, on vectors drawn without repeats.

        Drawn on the processor, so that every device draws alike.
        """
        expired = (self.usage < self.config.expired / self.config.codes).nonzero().flatten()
        number = min(len(expired), len(flat))
        chosen = expired[torch.randperm(len(expired)).to(expired.device)[:number]]
        self.vectors[chosen] = flat[torch.randperm(len(flat)).to(flat.device)[:number]]
        self.usage[chosen] = 1 / self.config.codes
