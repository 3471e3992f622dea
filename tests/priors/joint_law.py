"""Frames of three tokens of three classes that hang together in one of two ways."""

import itertools
from typing import Any

import torch
from torch import Tensor

from tokenworlds.core.types import Codes

TOKENS, VOCABULARY, WIDTH = 3, 3, 6
FRAMES = torch.tensor(list(itertools.product(range(VOCABULARY), repeat=TOKENS)))
NOISE = 0.5
UNIFORM = torch.full((len(FRAMES),), 1 / len(FRAMES))


def laws() -> Tensor:
    """Chance of each frame, for each of two histories: tokens are equal, or all different.

    A share of chance is mixed in, so that what a token may be is known in sight of any others, and
    revisions can go from every frame to every other.
    """
    kinds = torch.tensor([len(set(frame)) for frame in FRAMES.tolist()])
    pure = [(kinds == wanted).float() for wanted in (1, TOKENS)]
    return torch.stack([(1 - NOISE) * each / each.sum() + NOISE * UNIFORM for each in pure])


def history(law: Tensor) -> Tensor:
    """A feature that tells which law holds."""
    return (2.0 * law.float() - 1.0).unsqueeze(-1).expand(*law.shape, WIDTH)


def certain(index: Tensor) -> Codes:
    """Codes sure of themselves."""
    hard = torch.nn.functional.one_hot(index, VOCABULARY).float()
    return Codes(index, hard.clamp_min(1e-8).log(), hard, hard, hard)


def train(prior: Any, updates: int, rate: float) -> Any:
    """Fit a prior to the laws, all frames of both at once and as often as they say."""
    optimiser = torch.optim.Adam(prior.parameters(), lr=rate)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, updates)
    law, frame = [], []
    for number, chances in enumerate(laws()):
        frame.append(FRAMES.repeat_interleave((540 * chances).round().long(), dim=0))
        law.append(torch.full((len(frame[-1]), 1), number))
    feature, codes = history(torch.cat(law)), certain(torch.cat(frame).unsqueeze(1))
    mask = torch.ones(len(feature), 1, dtype=torch.bool)
    for _ in range(updates):
        loss = prior.losses(feature, codes, mask).means()["dynamics"]
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        schedule.step()
    return prior


def sampled(prior: Any, law: int, draws: int = 16_000) -> Tensor:
    """How often a prior draws each frame."""
    feature = history(torch.full((draws,), law))
    index = prior.sample(feature, torch.Generator().manual_seed(law))
    powers = VOCABULARY ** torch.arange(TOKENS - 1, -1, -1)
    return torch.bincount((index * powers).sum(1), minlength=len(FRAMES)) / draws


def distance(left: Tensor, right: Tensor) -> float:
    """Total variation."""
    return 0.5 * (left - right).abs().sum().item()
