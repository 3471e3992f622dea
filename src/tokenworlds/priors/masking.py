"""Which sites of a frame are hidden: at random in training, part by part in sampling."""

import math
from collections.abc import Iterator

import torch
from jaxtyping import Bool, Float, Int
from torch import Generator, Tensor


def hidden_count(place: Float[Tensor, "*rest"], tokens: int) -> Int[Tensor, "*rest"]:
    """ceil(K cos(pi u / 2)), at least one and at most all (GIT-STORM, section 3.2)."""
    return (tokens * torch.cos(place * (math.pi / 2))).ceil().clamp(1, tokens).long()


def hide(rows: tuple[int, ...], tokens: int, device: torch.device) -> Bool[Tensor, "*rest K"]:
    """For each row a number of sites by the cosine schedule, and which ones by chance.

    Drawn, as dropout is, from torch's own generator, which a run seeds and saves.
    """
    count = hidden_count(torch.rand(rows, device=device), tokens)
    rank = torch.rand(*rows, tokens, device=device).argsort(dim=-1)
    return rank < count.unsqueeze(-1)


def partition(
    rows: int, tokens: int, parts: int, generator: Generator | None, device: torch.device
) -> Iterator[Bool[Tensor, "N K"]]:
    """The sites of each row dealt by chance to parts whose sizes differ by at most one."""
    chance = torch.rand(rows, tokens, generator=generator, device=device)
    part = chance.argsort(dim=-1) * parts // tokens
    yield from (part == number for number in range(parts))
