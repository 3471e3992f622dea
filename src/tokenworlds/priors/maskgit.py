"""MaskGIT: masked tokens predicted from the visible ones and the history (GIT-STORM, section 3.2;
Chang et al., 2022), sampled by draft and revise (Lee et al., 2022)."""

import math
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, cast

import torch
from einops import pack, rearrange, unpack
from jaxtyping import Bool, Float, Int
from torch import Generator, Tensor, nn
from torch.nn import functional

from tokenworlds.core.config import Component, ConfigOf
from tokenworlds.core.errors import UserError
from tokenworlds.core.precision import widen
from tokenworlds.core.sharing import rand
from tokenworlds.core.types import Codes, Losses, masked_mean
from tokenworlds.nets.distributions import mix_uniform, mixed_probs, sample_from_probs
from tokenworlds.priors.factorised import BalanceConfig, Span, balance_losses, hits

INITIAL_STD = 0.02
BLOCK = 2**17
"""The numbers in a layer's input per block on a CPU: few enough for the activations to stay in its
cache, many enough to keep it busy."""


class MaskGIT(nn.Module, Component):
    """A bidirectional transformer over the tokens of one frame, some masked, and its history."""

    @dataclass(frozen=True, kw_only=True, slots=True)
    class Config(BalanceConfig, ConfigOf["MaskGIT"]):
        """A frame is sampled in `draft` rounds, then resampled `repetitions` times in `revise`
        rounds; a revision in a single round discards everything before it. `conditioning` gives
        each token its slice of the history, or the whole. `weighting` scales the masked tokens to
        count as a whole frame, or counts them as they are (the released code)."""

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
        free_bits_over: Span = "batch"

    def __init__(self, config: Config, *, width: int, tokens: int, vocabulary: int) -> None:
        super().__init__()
        check_config(config, width, tokens)
        self.config = config
        self.tokens, self.vocabulary = tokens, vocabulary
        size = config.embedding
        context = width // tokens if config.conditioning == "slices" else width
        self.table = nn.Parameter(INITIAL_STD * torch.randn(vocabulary + 1, size))
        self.positions = nn.Parameter(INITIAL_STD * torch.randn(tokens, size))
        self.input = nn.Linear(size + context, size)
        blocks = [BidirectionalBlock(config) for _ in range(config.layers)]
        self.net = nn.Sequential(
            OrderedDict(
                blocks=nn.Sequential(*blocks), summary=activated(size), head=activated(size)
            )
        )
        own = torch.empty(vocabulary, size).uniform_(-(size**-0.5), size**-0.5)
        self.readout = nn.Parameter(own) if config.logits == "mlp" else None
        self.bias = nn.Parameter(torch.zeros(vocabulary))

    def log_probs(
        self, feature: Float[Tensor, "*rest D"], index: Int[Tensor, "*rest K"]
    ) -> Float[Tensor, "*rest K V"]:
        """The prediction of each token given the others; an index of `vocabulary` is masked."""
        rows, lead = pack([feature], "* d")
        embedded = self._embed(rearrange(index, "... k -> (...) k"))
        (logits,) = unpack(self._logits(rows, embedded), lead, "* k v")
        return mix_uniform(logits, self.config.unimix)

    def score(
        self, feature: Float[Tensor, "*rest D"], index: Int[Tensor, "*rest K"]
    ) -> Float[Tensor, "*rest K V"]:
        """With every token masked: the first round of sampling, and with one round the only one."""
        return self.log_probs(feature, torch.full_like(index, self.vocabulary))

    def _embed(self, index: Int[Tensor, "*some K"]) -> Float[Tensor, "*some K embedding"]:
        """The input layer's share of tokens and positions; the table is mapped before the look-up,
        because it has fewer rows."""
        to_input = self.input.weight[:, : self.config.embedding]
        mapped = functional.linear(self.table, to_input, self.input.bias)
        return functional.embedding(index, mapped) + self.positions

    def _logits(
        self, feature: Float[Tensor, "N D"], embedded: Float[Tensor, "N K embedding"]
    ) -> Float[Tensor, "N K V"]:
        slices = self.tokens if self.config.conditioning == "slices" else 1
        context = rearrange(feature, "n (k d) -> n k d", k=slices)
        to_input = self.input.weight[:, self.config.embedding :]
        hidden = self.net(embedded + functional.linear(context, to_input))
        readout = self.table[: self.vocabulary] if self.readout is None else self.readout
        return widen(functional.linear(hidden, readout, self.bias))

    def losses(
        self, feature: Float[Tensor, "B T D"], codes: Codes, mask: Bool[Tensor, "B T"]
    ) -> Losses:
        """Balanced losses of the masked tokens, given the visible ones of the same frame."""
        masked = mask_tokens((*feature.shape[:2],), self.tokens, feature.device)
        prior = self.log_probs(feature, codes.index.masked_fill(masked, self.vocabulary))
        share = masked / masked.sum(dim=-1, keepdim=True)
        whole = self.config.weighting == "frame"
        weight = share * self.tokens if whole else masked.to(prior.dtype)
        accuracy = masked_mean((hits(prior, codes) * share).sum(dim=-1), mask)
        metrics = {"code_accuracy": accuracy}
        return balance_losses(self.config, prior, codes, mask, metrics, weight)

    @torch.no_grad()
    def sample(
        self, feature: Float[Tensor, "*rest D"], generator: Generator | None
    ) -> Int[Tensor, "*rest K"]:
        """Sample part by part, each given the current tokens of the other parts."""
        rows, lead = pack([feature], "* d")
        index = torch.full((self.tokens,), self.vocabulary, device=feature.device)
        for part in self._rounds(len(rows), generator, feature.device):
            visible = torch.where(part, self.vocabulary, index)
            index = torch.where(part, self._sample_all(rows, visible, generator), index)
        (sampled,) = unpack(index, lead, "* k")
        return sampled

    def _rounds(
        self, rows: int, generator: Generator | None, device: torch.device
    ) -> Iterator[Bool[Tensor, "*some K"]]:
        """The tokens to resample in each round. A round of the whole frame discards all earlier
        rounds, which are therefore skipped."""
        revisions = [self.config.revise] * self.config.repetitions
        for parts in [1] if 1 in revisions else [self.config.draft, *revisions]:
            if parts == 1:
                yield torch.ones(self.tokens, dtype=torch.bool, device=device)
            else:
                yield from partition(rows, self.tokens, parts, generator, device)

    def _sample_all(
        self,
        feature: Float[Tensor, "N D"],
        index: Int[Tensor, "*some K"],
        generator: Generator | None,
    ) -> Int[Tensor, "N K"]:
        """Every token independently, block by block; one `index` serves rows with equal masks."""
        rows = max(1, BLOCK // self.positions.numel())
        block = rows if feature.device.type == "cpu" else max(1, len(feature))
        embedded = self._embed(index).expand(len(feature), -1, -1)
        blocks = zip(feature.split(block), embedded.split(block), strict=True)
        logits = torch.cat([self._logits(*each) for each in blocks])
        probs = mixed_probs(logits, self.config.unimix)
        return sample_from_probs(probs, generator, self.config.temperature)


class BidirectionalBlock(nn.Module):
    """Self-attention and a feed-forward network, each with pre-norm and shortcut."""

    def __init__(self, config: MaskGIT.Config) -> None:
        super().__init__()
        embedding, feedforward = config.embedding, config.feedforward
        self.heads = config.heads
        self.attention_norm = nn.LayerNorm(embedding)
        self.input = nn.Linear(embedding, 3 * embedding)
        self.output = nn.Linear(embedding, embedding)
        self.feedforward_norm = nn.LayerNorm(embedding)
        self.feedforward = nn.Sequential(
            nn.Linear(embedding, feedforward), nn.GELU(), nn.Linear(feedforward, embedding)
        )

    def forward(self, x: Float[Tensor, "N K embedding"]) -> Float[Tensor, "N K embedding"]:
        x = x + self._attend(self.attention_norm(x))
        return cast(Tensor, x + self.feedforward(self.feedforward_norm(x)))

    def _attend(self, x: Float[Tensor, "N K embedding"]) -> Float[Tensor, "N K embedding"]:
        query, key, value = rearrange(
            self.input(x), "n k (three h p) -> three n h k p", three=3, h=self.heads
        )
        attended = functional.scaled_dot_product_attention(query, key, value)
        return cast(Tensor, self.output(rearrange(attended, "n h k p -> n k (h p)")))


def activated(embedding: int) -> nn.Sequential:
    """The layers after the blocks; the last one is the masked-token head."""
    return nn.Sequential(nn.Linear(embedding, embedding), nn.GELU(), nn.LayerNorm(embedding))


def masked_count(place: Float[Tensor, "*rest"], tokens: int) -> Int[Tensor, "*rest"]:
    """ceil(K cos(pi u / 2)), at least one and at most all (GIT-STORM, section 3.2)."""
    return (tokens * torch.cos(place * (math.pi / 2))).ceil().clamp(1, tokens).long()


def mask_tokens(
    rows: tuple[int, ...], tokens: int, device: torch.device
) -> Bool[Tensor, "*rest K"]:
    """Random tokens of each row, their number by the cosine schedule.

    Like dropout, this uses torch's global generator, which a run seeds and saves.
    """
    count = masked_count(rand(rows, device=device), tokens)
    rank = rand((*rows, tokens), device=device).argsort(dim=-1)
    return rank < count.unsqueeze(-1)


def partition(
    rows: int, tokens: int, parts: int, generator: Generator | None, device: torch.device
) -> Iterator[Bool[Tensor, "N K"]]:
    """Split the tokens of each row at random into parts whose sizes differ by at most one."""
    chance = rand((rows, tokens), generator=generator, device=device)
    part = chance.argsort(dim=-1) * parts // tokens
    yield from (part == number for number in range(parts))


def check_config(config: MaskGIT.Config, width: int, tokens: int) -> None:
    if config.embedding % config.heads:
        raise UserError(
            f"heads={config.heads} of MaskGIT must divide its embedding {config.embedding}"
        )
    if config.conditioning == "slices" and width % tokens:
        raise UserError(
            f"conditioning='slices' of MaskGIT cannot split a history of {width} into {tokens} "
            "equal slices, one per token; use conditioning='whole'"
        )
    for name, rounds in (("draft", config.draft), ("revise", config.revise)):
        if not 1 <= rounds <= tokens:
            raise UserError(
                f"{name}={rounds} of MaskGIT must be 1 to {tokens} rounds, because a frame has "
                f"{tokens} tokens"
            )
    if config.repetitions < 0:
        raise UserError(f"repetitions={config.repetitions} of MaskGIT must be 0 or more")
