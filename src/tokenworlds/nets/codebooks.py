"""Codebooks of vector quantisers, the straight-through estimator and statistics of code usage.

Codebooks follow the encoder by moving averages, without gradients.
"""

import math
from dataclasses import dataclass
from typing import Literal

import torch
from einops import rearrange, repeat
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional

from tokenworlds.core.config import Component, ConfigOf
from tokenworlds.core.precision import full_precision, widen
from tokenworlds.core.sharing import gathered, is_shared, mean, total
from tokenworlds.core.types import Codes, one_hots


class CodeVectors(nn.Module):
    """What all codebooks share: vectors without gradients, looked up by index."""

    vectors: Tensor

    def distance(self, encoded: Float[Tensor, "*rest D"]) -> Float[Tensor, "*rest V"]:
        """Squared, of each vector to each code."""
        return squared_distance(encoded, self.vectors).clamp_min(0.0)

    def look_up(self, index: Int[Tensor, "*rest"]) -> Float[Tensor, "*rest D"]:
        return functional.embedding(index, self.vectors)

    def update(self, encoded: Float[Tensor, "N K D"], index: Int[Tensor, "N K"]) -> None:
        """Move the codes towards the vectors assigned to them."""
        raise NotImplementedError

    def learn(self, codes: Codes, mask: Bool[Tensor, "B T"]) -> None:
        """Update with the codes of the steps where the mask is set."""
        self.update(codes.encoded.detach()[mask], codes.index[mask])


class Codebook(CodeVectors, Component):
    """Code vectors with running counts and sums (van den Oord et al., 2017, appendix A).

    `error` is the running mean of the squared distance of a vector to its code.
    """

    counts: Tensor
    sums: Tensor
    seeded: Tensor
    error: Tensor

    @dataclass(frozen=True, kw_only=True, slots=True)
    class Config(ConfigOf["Codebook"]):
        """A code whose running count falls below `revive_below` is moved onto a vector that no
        code stands for, as long as there is one."""

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
        self.register_buffer("error", torch.ones(()))

    @torch.no_grad()
    def update(self, encoded: Float[Tensor, "N K D"], index: Int[Tensor, "N K"]) -> None:
        """Move the codes towards their assigned vectors; the first call places them on data."""
        flat = rearrange(encoded, "n k d -> (n k) d")
        if not count_all(flat):
            return
        if not self.seeded:
            self._place(torch.ones_like(self.counts, dtype=torch.bool), gathered(flat))
            self.error.copy_(mean(self.distance(flat).amin(dim=-1)))
            self.seeded.fill_(True)
            return
        error = mean((flat - self.look_up(index.flatten())).square().sum(dim=-1))
        self.error.lerp_(error, 1 - self.config.decay)
        hard = functional.one_hot(index.flatten(), self.config.codes).to(flat.dtype)
        self.counts.lerp_(total(hard.sum(dim=0)), 1 - self.config.decay)
        self.sums.lerp_(total(hard.t() @ flat), 1 - self.config.decay)
        self._revive(flat)
        means = self.sums / smooth(self.counts, self.config.smoothing).unsqueeze(-1)
        # Smoothing would draw a code without vectors to the origin, past the vectors of others.
        waiting = self.counts.unsqueeze(-1) < self.config.revive_below
        self.vectors.copy_(torch.where(waiting, self.vectors, means))

    def _revive(self, flat: Float[Tensor, "N D"]) -> None:
        dead = self.counts < self.config.revive_below
        if self.config.revive_below > 0 and dead.any():
            rows = gathered(flat)
            self._place(dead, rows[lacks_code(rows, self.vectors, ~dead)])

    def _place(self, which: Tensor, flat: Float[Tensor, "N D"]) -> None:
        which = place_apart(self.vectors, which, flat)
        self.sums[which] = self.vectors[which]
        self.counts[which] = 1.0


class AveragedCodebook(CodeVectors, Component):
    """Code vectors with bias-corrected moving averages of counts and sums (Smaller World Models).

    A code that was never chosen is at the origin after the first update, which is the centre of
    batch-normalised vectors: from there codes come into use one by one.
    """

    counts: Tensor
    sums: Tensor
    updates: Tensor

    @dataclass(frozen=True, kw_only=True, slots=True)
    class Config(ConfigOf["AveragedCodebook"]):
        """`corrected`: the averages whose bias towards their start at zero is corrected. The
        released code corrects only the sums, which makes its first vectors 1 / (1 - decay) times
        too long."""

        codes: int = 128
        width: int = 32
        decay: float = 0.99
        smoothing: float = 1e-5
        corrected: Literal["both", "sums"] = "both"

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        bound = (3 / config.codes) ** 0.5
        initial = torch.empty(config.codes, config.width).uniform_(-bound, bound)
        self.register_buffer("vectors", initial)
        self.register_buffer("counts", torch.zeros(config.codes))
        self.register_buffer("sums", torch.zeros(config.codes, config.width))
        self.register_buffer("updates", torch.zeros((), dtype=torch.long))

    @torch.no_grad()
    def update(self, encoded: Float[Tensor, "N K D"], index: Int[Tensor, "N K"]) -> None:
        """Move each code to the average of its assigned vectors."""
        if not count_all(encoded):
            return
        flat = rearrange(encoded, "n k d -> (n k) d").float()
        hard = functional.one_hot(index.flatten(), self.config.codes).to(flat.dtype)
        self.counts.lerp_(total(hard.sum(dim=0)), 1 - self.config.decay)
        self.sums.lerp_(total(hard.t() @ flat), 1 - self.config.decay)
        self.updates += 1
        begun = 1 - self.config.decay ** int(self.updates)
        counts = self.counts / begun if self.config.corrected == "both" else self.counts
        smoothed = smooth(counts, self.config.smoothing)
        self.vectors.copy_(self.sums / begun / smoothed.unsqueeze(-1))


class UnitCodebook(CodeVectors, Component):
    """Code vectors with running shares of use; their length is 1 from the first update on (Δ-IRIS,
    appendix)."""

    usage: Tensor
    updates: Tensor

    @dataclass(frozen=True, kw_only=True, slots=True)
    class Config(ConfigOf["UnitCodebook"]):
        """Codes whose share is below `expired` of an even one are moved onto the data while the
        entropy of use is at least `spare` bits below its maximum; after `revivals` updates (None:
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
        initial = torch.empty(config.codes, config.width).uniform_(-bound, bound)
        self.register_buffer("vectors", initial)
        self.register_buffer("usage", torch.full((config.codes,), bound))
        self.register_buffer("updates", torch.zeros((), dtype=torch.long))

    def similarity(self, encoded: Float[Tensor, "*rest D"]) -> Float[Tensor, "*rest V"]:
        return encoded @ self.vectors.t()

    @torch.no_grad()
    def update(self, encoded: Float[Tensor, "N K D"], index: Int[Tensor, "N K"]) -> None:
        """Turn the codes towards the mean direction of their assigned vectors.

        A code without any keeps its direction: only its length shrinks, and is restored.
        """
        if not count_all(encoded):
            return
        flat = rearrange(encoded, "n k d -> (n k) d")
        hard = functional.one_hot(index.flatten(), self.config.codes).to(flat.dtype)
        counts = total(hard.sum(dim=0))
        means = total(hard.t() @ flat) / counts.clamp_min(1.0).unsqueeze(-1)
        moved = self.vectors.lerp(functional.normalize(means, dim=-1), 1 - self.config.decay)
        self.vectors.copy_(functional.normalize(moved, dim=-1))
        self.usage.lerp_(counts / count_all(flat), 1 - self.config.usage_decay)
        if self._should_revive():
            self._revive(gathered(flat))
        self.updates += 1

    def entropy(self) -> Tensor:
        """The entropy of the running shares of use, in bits."""
        return -torch.xlogy(self.usage, self.usage).sum() / math.log(2)

    def _should_revive(self) -> bool:
        config, entropy = self.config, float(self.entropy())
        early = config.revivals is None or int(self.updates) < config.revivals
        narrow = entropy < math.log2(config.codes) - config.spare
        return narrow and (early or entropy < config.collapsed)

    def _revive(self, flat: Float[Tensor, "N D"]) -> None:
        """Move expired codes onto vectors sampled without repeats, at most one code per vector.

        The permutations are made on the CPU, so that every device samples the same.
        """
        expired = (self.usage < self.config.expired / self.config.codes).nonzero().flatten()
        number = min(len(expired), len(flat))
        chosen = expired[torch.randperm(len(expired)).to(expired.device)[:number]]
        self.vectors[chosen] = flat[torch.randperm(len(flat)).to(flat.device)[:number]]
        self.usage[chosen] = 1 / self.config.codes


def count_all(rows: Float[Tensor, "N *rest"]) -> int:
    """The rows of all ranks."""
    return int(total(torch.tensor(len(rows), device=rows.device))) if is_shared() else len(rows)


def smooth(counts: Float[Tensor, " V"], smoothing: float) -> Float[Tensor, " V"]:
    """Laplace smoothing that keeps the total: no count is zero."""
    whole = counts.sum()
    return (counts + smoothing) / (whole + len(counts) * smoothing) * whole


def squared_distance(
    encoded: Float[Tensor, "*rest D"], codes: Float[Tensor, "V D"]
) -> Float[Tensor, "*rest V"]:
    """In full precision, because it is a small difference of large numbers."""
    with full_precision(encoded):
        encoded, codes = widen(encoded), widen(codes)
        squares = encoded.square().sum(dim=-1, keepdim=True)
        return squares - 2 * encoded @ codes.t() + codes.square().sum(dim=-1)


@torch.no_grad()
def lacks_code(
    flat: Float[Tensor, "N D"], codes: Float[Tensor, "V D"], live: Bool[Tensor, " V"]
) -> Bool[Tensor, " N"]:
    """Whether a vector lies farther from its code than half the usual distance of two live codes.

    A second code for what has one would split it: its cells change between the two, and no prior
    can predict which. If one code stands for everything, every vector lacks one.
    """
    if int(live.sum()) < 2:
        return torch.ones_like(flat[:, 0], dtype=torch.bool)
    spacing = squared_distance(codes[live], codes[live]).fill_diagonal_(torch.inf)
    return squared_distance(flat, codes).amin(dim=-1) > spacing.amin(dim=-1).median() / 4


@torch.no_grad()
def place_apart(
    codes: Float[Tensor, "V D"], which: Bool[Tensor, " V"], flat: Float[Tensor, "N D"]
) -> Bool[Tensor, " V"]:
    """Move some codes onto data, one by one, each likely far from the others (k-means++).

    Uniform sampling would put most codes on the background of a frame. Returns the moved codes: as
    many as there are vectors, at most.
    """
    which = which & (which.cumsum(0) <= len(flat))
    taken = ~which
    for code in which.nonzero().flatten():
        weight = torch.ones_like(flat[:, 0])
        if taken.any():
            weight = squared_distance(flat, codes[taken]).amin(dim=-1).clamp_min(0.0)
        codes[code] = flat[torch.multinomial(weight + 1e-8, 1)[0]]
        taken[code] = True
    return which


def straight_through(
    index: Int[Tensor, "*rest K"],
    logits: Float[Tensor, "*rest K V"],
    encoded: Float[Tensor, "*rest K D"],
    quantised: Float[Tensor, "*rest K D"],
) -> Codes:
    """Codes whose sample has the gradient of the posterior, and whose vector has the encoder's
    (Bengio et al., 2013)."""
    probs = logits.exp()
    hard = one_hots(index, logits.shape[-1], probs.dtype)
    return Codes(
        index=index,
        logits=logits,
        sample=hard + (probs - probs.detach()),
        vector=encoded + (quantised - encoded).detach(),
        encoded=encoded,
    )


def certain(
    index: Int[Tensor, "*rest K"], vector: Float[Tensor, "*rest K D"], vocabulary: int
) -> Codes:
    """Codes with a one-hot posterior."""
    hard = one_hots(index, vocabulary)
    return Codes(index, hard.clamp_min(1e-8).log(), hard, vector, vector)


def code_histogram(
    index: Int[Tensor, "B T K"], mask: Bool[Tensor, "B T"], vocabulary: int
) -> Float[Tensor, " V"]:
    """How often each code occurs where the mask is set, computed without device synchronisation."""
    counted = repeat(mask.float(), "b t -> (b t k)", k=index.shape[-1])
    blank = torch.zeros(vocabulary, device=index.device)
    return total(blank.scatter_add(0, rearrange(index, "b t k -> (b t k)"), counted))


def usage_metrics(histogram: Float[Tensor, " V"]) -> dict[str, Tensor]:
    """The share of codes in use, and the perplexity of their distribution."""
    share = histogram / histogram.sum().clamp_min(1.0)
    entropy = -(share * share.clamp_min(1e-12).log()).sum()
    return {"code_usage": (histogram > 0).float().mean(), "code_perplexity": entropy.exp()}
