"""Lookup-free quantisation (Yu et al., 2023, MAGVIT-v2): a code is the signs of a few numbers.

Two entropies replace the codebook's learning: each cell should be sure of its code, and all codes
should be in use.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn import functional

from tokenworlds.core.config import Component, ConfigOf
from tokenworlds.core.sharing import joint_total, total
from tokenworlds.core.types import Codes, Context, FrameShape, Losses
from tokenworlds.nets.codebooks import (
    code_histogram,
    straight_through,
    usage_metrics,
)
from tokenworlds.nets.distributions import mix_uniform
from tokenworlds.nets.grid_maps import FixedCodebook, GridConfig, pixel_error

SCALES = {"reconstruction": 1.0, "commitment": 0.25, "certainty": 0.1, "usage": 0.1}


class LFQ(FixedCodebook, Component):
    """One code per cell: `bits` signs, the first the most significant."""

    @dataclass(frozen=True, kw_only=True, slots=True)
    class Config(GridConfig, ConfigOf["LFQ"]):
        """The vocabulary is 2^`bits`. `sharpness` is beta of the posterior
        softmax(2 beta x.c) over the codes c, whose bits are independent; it is mixed with the
        uniform distribution by `unimix`."""

        bits: int = 6
        sharpness: float = 4.0
        unimix: float = 0.01

        def __post_init__(self) -> None:
            if not 1 <= self.bits <= 16:
                raise ValueError(f"bits={self.bits} takes 1 to 16")

    def __init__(self, config: Config, *, frame_shape: FrameShape) -> None:
        super().__init__(config, frame_shape=frame_shape, codes=sign_codes(config.bits))
        self.config = config

    def encode(self, frames: Float[Tensor, "*rest C H W"], context: Context | None = None) -> Codes:
        """The signs of each cell; all codes have one length, so distances are inner products."""
        vectors = self.to_cells(frames)
        raw = self._raw_logits(vectors)
        index = raw.argmax(dim=-1)
        logits = mix_uniform(raw, self.config.unimix)
        return straight_through(index, logits, vectors, self.token_vectors(index))

    def _raw_logits(self, vectors: Float[Tensor, "*rest K D"]) -> Float[Tensor, "*rest K V"]:
        return 2 * self.config.sharpness * vectors @ self.codebook.t()

    def losses(
        self,
        frames: Float[Tensor, "B T C H W"],
        codes: Codes,
        mask: Bool[Tensor, "B T"],
        context: Context | None = None,
    ) -> Losses:
        """`certainty` is the entropy of each cell's posterior, `usage` the negative entropy of the
        mean posterior; like the commitment they are sums over cells."""
        log_probs = functional.log_softmax(self._raw_logits(codes.encoded), dim=-1)
        probs = log_probs.exp()
        quantised = self.token_vectors(codes.index)
        usage = -self.tokens * entropy(mean_probs(probs, mask))
        terms = {
            "reconstruction": pixel_error(self.decode(codes), frames),
            "commitment": (codes.encoded - quantised).square().sum(dim=(-2, -1)),
            "certainty": -(probs * log_probs).sum(dim=(-2, -1)),
            "usage": usage.expand(mask.shape),
        }
        metrics = usage_metrics(code_histogram(codes.index, mask, self.vocabulary))
        return Losses(terms, dict.fromkeys(terms, mask), metrics, scales=SCALES)


def sign_codes(bits: int) -> Float[Tensor, "V D"]:
    """Row i holds the binary digits of i as -1 and 1."""
    place = torch.arange(bits - 1, -1, -1)
    digits = torch.arange(2**bits).unsqueeze(-1) >> place & 1
    return 2.0 * digits - 1.0


def mean_probs(probs: Float[Tensor, "B T K V"], mask: Bool[Tensor, "B T"]) -> Float[Tensor, " V"]:
    """The mean over the cells of all steps where the mask is set."""
    weight = mask.to(probs.dtype)
    cells = total(weight.sum()).clamp_min(1.0) * probs.shape[-2]
    return joint_total(torch.einsum("btkv,bt->v", probs, weight)) / cells


def entropy(probs: Float[Tensor, " V"]) -> Float[Tensor, ""]:
    """In nats."""
    return -(probs * probs.clamp_min(1e-12).log()).sum()
