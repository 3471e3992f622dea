"""Codes that are filled in where they are masked, each in sight of the others (GIT-STORM, section
3.2; MaskGIT; sampled by draft and revise, Lee et al., 2022)."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import torch
from einops import pack, rearrange, unpack
from jaxtyping import Bool, Float, Int
from torch import Generator, Tensor, nn
from torch.nn import functional

from tokenworlds.core.config import Component, ConfigOf
from tokenworlds.core.errors import UserError
from tokenworlds.core.precision import widen
from tokenworlds.core.types import Codes, Losses, masked_mean
from tokenworlds.nets.distributions import draw_index, mix_uniform, mixed_probs
from tokenworlds.priors.balance import Balance, Objective, Span, hits, posterior_entropy
from tokenworlds.priors.bidirectional import Bidirectional
from tokenworlds.priors.masking import hide, partition

DEVIATION = 0.02
"""Of the first embeddings, as published."""
BLOCK = 2**17
"""Numbers in a layer's input when a CPU computes it: few enough for what is made of them to stay in
the cache, and enough to keep it busy."""


class MaskGIT(nn.Module, Component):
    """A bidirectional transformer over the codes of one frame, some masked, and its history."""

    @dataclass(frozen=True, kw_only=True, slots=True)
    class Config(ConfigOf["MaskGIT"]):
        """Choices. A frame is drawn in `draft` rounds, then `repetitions` times anew in `revise`
        rounds; a revision in one round makes void what came before it. `conditioning` gives each
        site its slice of the history, or the whole of it. `weighting` makes the masked sites count
        as a frame, or (the released code) as they are."""

        embedding: int = 128
        layers: int = 4
        heads: int = 8
        feedforward: int = 128
        logits: Literal["dot-product", "mlp"] = "dot-product"
        conditioning: Literal["slices", "whole"] = "slices"
        draft: int = 1
        revise: int = 1
        repetitions: int = 1
        weighting: Literal["frame", "masked"] = "frame"
        objective: Objective = "kl"
        free_bits: float = 1.0
        free_bits_over: Span = "batch"
        unimix: float = 0.01

    def __init__(self, config: Config, *, width: int, tokens: int, vocabulary: int) -> None:
        super().__init__()
        check(config, width, tokens)
        self.config = config
        self.tokens, self.vocabulary = tokens, vocabulary
        self.balance = Balance(config.objective, config.free_bits, config.free_bits_over)
        size = config.embedding
        context = width // tokens if config.conditioning == "slices" else width
        self.table = nn.Parameter(DEVIATION * torch.randn(vocabulary + 1, size))
        self.positions = nn.Parameter(DEVIATION * torch.randn(tokens, size))
        self.input = nn.Linear(size + context, size)
        self.net = Bidirectional(size, config.layers, config.heads, config.feedforward)
        own = torch.empty(vocabulary, size).uniform_(-(size**-0.5), size**-0.5)
        self.readout = nn.Parameter(own) if config.logits == "mlp" else None
        self.bias = nn.Parameter(torch.zeros(vocabulary))

    def log_probs(
        self, feature: Float[Tensor, "*rest D"], index: Int[Tensor, "*rest K"]
    ) -> Float[Tensor, "*rest K V"]:
        """The prediction at each site, given the codes; those equal to `vocabulary` are masked."""
        rows, lead = pack([feature], "* d")
        places = self._places(rearrange(index, "... k -> (...) k"))
        (logits,) = unpack(self._logits(rows, places), lead, "* k v")
        return mix_uniform(logits, self.config.unimix)

    def _places(self, index: Int[Tensor, "*some K"]) -> Float[Tensor, "*some K embedding"]:
        """What the net reads of codes and positions: the table is mapped, not what is read of it,
        for it has fewer rows."""
        to_input = self.input.weight[:, : self.config.embedding]
        mapped = functional.linear(self.table, to_input, self.input.bias)
        return functional.embedding(index, mapped) + self.positions

    def _logits(
        self, feature: Float[Tensor, "N D"], places: Float[Tensor, "N K embedding"]
    ) -> Float[Tensor, "N K V"]:
        sites = self.tokens if self.config.conditioning == "slices" else 1
        context = rearrange(feature, "n (k d) -> n k d", k=sites)
        to_input = self.input.weight[:, self.config.embedding :]
        known = self.net(places + functional.linear(context, to_input))
        readout = self.table[: self.vocabulary] if self.readout is None else self.readout
        return widen(functional.linear(known, readout, self.bias))

    def losses(
        self, feature: Float[Tensor, "B T D"], codes: Codes, mask: Bool[Tensor, "B T"]
    ) -> Losses:
        """`dynamics` moves the prediction of masked codes to them, `representation` them to it.

        What is visible is the rest of the same frame, as it is when a frame is drawn.
        """
        hidden = hide((*feature.shape[:2],), self.tokens, feature.device)
        prior = self.log_probs(feature, codes.index.masked_fill(hidden, self.vocabulary))
        share = hidden / hidden.sum(dim=-1, keepdim=True)
        whole = self.config.weighting == "frame"
        weight = share * self.tokens if whole else hidden.to(prior.dtype)
        terms = self.balance.terms(prior, codes, mask, weight)
        metrics = {
            "code_accuracy": masked_mean((hits(prior, codes) * share).sum(dim=-1), mask),
            "posterior_entropy": posterior_entropy(codes, mask),
        }
        return Losses(terms, dict.fromkeys(terms, mask), metrics)

    @torch.no_grad()
    def sample(
        self, feature: Float[Tensor, "*rest D"], generator: Generator | None
    ) -> Int[Tensor, "*rest K"]:
        """Draw a frame part by part, each part in sight of the others as they are by then."""
        rows, lead = pack([feature], "* d")
        index = torch.full((self.tokens,), self.vocabulary, device=feature.device)
        for part in self._rounds(len(rows), generator, feature.device):
            visible = torch.where(part, self.vocabulary, index)
            index = torch.where(part, self._draw(rows, visible, generator), index)
        (drawn,) = unpack(index, lead, "* k")
        return drawn

    def _rounds(
        self, rows: int, generator: Generator | None, device: torch.device
    ) -> Iterator[Bool[Tensor, "*some K"]]:
        """The sites to redraw in each round; what a round of the whole frame would make void is
        left out."""
        revisions = [self.config.revise] * self.config.repetitions
        for parts in [1] if 1 in revisions else [self.config.draft, *revisions]:
            if parts == 1:
                yield torch.ones(self.tokens, dtype=torch.bool, device=device)
            else:
                yield from partition(rows, self.tokens, parts, generator, device)

    def _draw(
        self,
        feature: Float[Tensor, "N D"],
        index: Int[Tensor, "*some K"],
        generator: Generator | None,
    ) -> Int[Tensor, "N K"]:
        """Every site by itself, block by block; where all rows are masked alike, `index` is one."""
        rows = max(1, BLOCK // self.positions.numel())
        block = rows if feature.device.type == "cpu" else max(1, len(feature))
        places = self._places(index).expand(len(feature), -1, -1)
        blocks = zip(feature.split(block), places.split(block), strict=True)
        logits = torch.cat([self._logits(*each) for each in blocks])
        return draw_index(mixed_probs(logits, self.config.unimix), generator)


def check(config: MaskGIT.Config, width: int, tokens: int) -> None:
    """Raise for choices that do not go together, or not with a frame of so many tokens."""
    if config.embedding % config.heads:
        raise UserError(
            f"heads={config.heads} of MaskGIT must divide its embedding {config.embedding}"
        )
    if config.conditioning == "slices" and width % tokens:
        raise UserError(
            f"conditioning='slices' of MaskGIT cuts a history of {width} into {tokens} slices, one "
            "a token, and they do not come out even; conditioning='whole' takes any width"
        )
    for name in ("draft", "revise"):
        rounds = getattr(config, name)
        if not 1 <= rounds <= tokens:
            raise UserError(
                f"{name}={rounds} of MaskGIT takes 1 to {tokens} rounds, for a frame has {tokens} "
                "tokens"
            )
    if config.repetitions < 0:
        raise UserError(f"repetitions={config.repetitions} of MaskGIT takes 0 or more")
