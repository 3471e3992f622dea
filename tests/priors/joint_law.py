"""Frames whose tokens hang together in one of two ways, and the history tells in which."""

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
    """Frames of so many tokens; `pure` says of each of two laws which frames it allows.

    A share of chance is mixed in, so that what a token may be is known in sight of any others, and
    revisions can go from every frame to every other. `rows` is how many frames to learn from.
    """

    tokens: int
    vocabulary: int
    pure: tuple[Callable[..., bool], Callable[..., bool]]
    rows: int

    @property
    def facts(self) -> dict[str, int]:
        """What a prior is built with."""
        return {"width": 2 * self.tokens, "tokens": self.tokens, "vocabulary": self.vocabulary}

    @cached_property
    def frames(self) -> Tensor:
        """All there are, in the order of their numbers."""
        return torch.tensor(list(itertools.product(range(self.vocabulary), repeat=self.tokens)))

    @cached_property
    def uniform(self) -> Tensor:
        """Every frame alike: the best that tokens can do which know nothing of each other."""
        return torch.full((len(self.frames),), 1 / len(self.frames))

    @cached_property
    def chances(self) -> Tensor:
        """Of each frame, for each of the two histories."""
        allowed = [[float(law(*frame)) for frame in self.frames.tolist()] for law in self.pure]
        pure = [torch.tensor(each) / sum(each) for each in allowed]
        return torch.stack([(1 - NOISE) * each + NOISE * self.uniform for each in pure])

    def history(self, law: Tensor) -> Tensor:
        """A feature that tells which law holds."""
        return (2.0 * law.float() - 1.0).unsqueeze(-1).expand(*law.shape, self.facts["width"])

    def certain(self, index: Tensor) -> Codes:
        """Codes sure of themselves."""
        hard = torch.nn.functional.one_hot(index, self.vocabulary).float()
        return Codes(index, hard.clamp_min(1e-8).log(), hard, hard, hard)

    def train(self, prior: Any, updates: int, rate: float) -> Any:
        """Fit a prior to the laws, all frames of both at once and as often as they say."""
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

    def sampled(self, prior: Any, law: int, draws: int = 16_000) -> Tensor:
        """How often a prior draws each frame."""
        feature = self.history(torch.full((draws,), law))
        index = prior.sample(feature, torch.Generator().manual_seed(law))
        powers = self.vocabulary ** torch.arange(self.tokens - 1, -1, -1)
        return torch.bincount((index * powers).sum(1), minlength=len(self.frames)) / draws


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
    """Total variation."""
    return 0.5 * (left - right).abs().sum().item()
