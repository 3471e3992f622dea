"""Frames with dependent tokens: the history says which of two joint distributions holds."""

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from tokenworlds.core.types import Codes

NOISE = 0.5


@dataclass(frozen=True)
class JointLaw:
    """Two distributions over frames of `tokens` tokens; `pure` says which frames each allows.

    Uniform noise is mixed in, so that every conditional is defined and revisions can reach every
    frame from every other. `rows` is the number of training frames per distribution.
    """

    tokens: int
    vocabulary: int
    pure: tuple[Callable[..., bool], Callable[..., bool]]
    rows: int

    @property
    def dimensions(self) -> dict[str, int]:
        """The build arguments of a prior."""
        return {"width": 2 * self.tokens, "tokens": self.tokens, "vocabulary": self.vocabulary}

    @cached_property
    def frames(self) -> Tensor:
        """All possible frames, in the order of their numbers."""
        return torch.tensor(list(itertools.product(range(self.vocabulary), repeat=self.tokens)))

    @cached_property
    def uniform(self) -> Tensor:
        """The uniform distribution: the best that independent tokens can do."""
        return torch.full((len(self.frames),), 1 / len(self.frames))

    @cached_property
    def chances(self) -> Tensor:
        """The probability of each frame, for each of the two histories."""
        allowed = [[float(law(*frame)) for frame in self.frames.tolist()] for law in self.pure]
        pure = [torch.tensor(each) / sum(each) for each in allowed]
        return torch.stack([(1 - NOISE) * each + NOISE * self.uniform for each in pure])

    def history(self, law: Tensor) -> Tensor:
        """A feature that identifies the distribution."""
        return (2.0 * law.float() - 1.0).unsqueeze(-1).expand(*law.shape, self.dimensions["width"])

    def certain(self, index: Tensor) -> Codes:
        """Codes with one-hot posteriors."""
        hard = torch.nn.functional.one_hot(index, self.vocabulary).float()
        return Codes(index, hard.clamp_min(1e-8).log(), hard, hard, hard)

    def train(self, prior: Any, updates: int, rate: float) -> Any:
        """Fit a prior to both distributions, each frame repeated by its probability."""
        optimiser = torch.optim.Adam(prior.parameters(), lr=rate)
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, updates)
        law, frame = [], []
        for number, chances in enumerate(self.chances):
            often = (self.rows * chances).round().long()
            frame.append(self.frames.repeat_interleave(often, dim=0))
            law.append(torch.full((len(frame[-1]), 1), number))
        feature, codes = self.history(torch.cat(law)), self.certain(torch.cat(frame).unsqueeze(1))
        mask = torch.ones(len(feature), 1, dtype=torch.bool)
        for _ in range(updates):
            loss = prior.losses(feature, codes, mask).means()["dynamics"]
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            schedule.step()
        return prior

    def sampled(self, prior: Any, law: int, count: int = 16_000) -> Tensor:
        """How often a prior samples each frame."""
        feature = self.history(torch.full((count,), law))
        index = prior.sample(feature, torch.Generator().manual_seed(law))
        powers = self.vocabulary ** torch.arange(self.tokens - 1, -1, -1)
        return torch.bincount((index * powers).sum(1), minlength=len(self.frames)) / count


TRIPLES = JointLaw(
    3,
    3,
    (lambda a, b, c: a == b == c, lambda a, b, c: len({a, b, c}) == 3),
    540,
)
"""Tokens are equal, or all different."""
SQUARES = JointLaw(
    4,
    3,
    (lambda a, b, c, d: (a, b) == (c, d), lambda a, b, c, d: (a, c) == (b, d)),
    162,
)
"""Rows are equal, or columns."""


def distance(left: Tensor, right: Tensor) -> float:
    """The total variation distance."""
    return 0.5 * (left - right).abs().sum().item()
