"""Causal attention with dropout of its weights, for learning on a CPU.

Torch computes all weights, those ahead too, and passes over all of them with each operation. Here
they are computed block by block, as many as stay in the cache, and few of those that lie ahead.
"""

from collections.abc import Iterator
from typing import Any

import torch
from einops import rearrange
from jaxtyping import Float
from torch import Tensor
from torch.autograd import Function

from tokenworlds.nets.dropout import Coins

STEPS = 68
"""In a block, about: it reaches as far ahead as its last step sees, and products want many."""
WEIGHTS = 2**19
"""In a block of several rows, at most."""

Joint = Float[Tensor, "B T 3 heads size"]
Heads = Float[Tensor, "3 N T size"]
Weights = list[tuple[Float[Tensor, "N _ _"], Float[Tensor, "N _ _"]]]
"""Of each block, whole and dropped."""


def attend_with_dropout(
    joint: Joint, bias: Float[Tensor, "rows 1 T T"], share: float
) -> Float[Tensor, "B T heads size"]:
    """What each step sees, by queries, keys and values, and a bias that hides all that is ahead."""
    seen: Tensor = DroppedAttention.apply(joint, bias, share)  # type: ignore[no-untyped-call]
    return seen


class DroppedAttention(Function):
    """Some rows at a time; the weights are kept for the way back."""

    @staticmethod
    def forward(ctx: Any, joint: Tensor, bias: Tensor, share: float) -> Tensor:
        """Values are larger by what dropout takes, in place of the weights."""
        coins, seen, kept = Coins(share), torch.empty_like(joint[:, :, 0]), []
        bias = bias.expand(len(joint), joint.shape[3], -1, -1)
        for rows in rows_of(joint):
            heads = scaled(heads_of(joint[rows]), share)
            found, weights = look(heads, bias[rows], coins)
            seen[rows] = rearrange(found, "(b h) t p -> b t h p", h=joint.shape[3])
            kept += [each for pair in weights for each in pair]
        ctx.save_for_backward(joint, seen, *kept)
        ctx.share = share
        return seen

    @staticmethod
    def backward(ctx: Any, *given: Tensor) -> tuple[Tensor, None, None]:
        """Written out: of a softmax, and of the products around it."""
        joint, seen, *kept = ctx.saved_tensors
        gradient, number = torch.empty_like(joint), len(list(steps_of(joint.shape[1])))
        pairs = list(zip(kept[::2], kept[1::2], strict=True))
        for index, rows in enumerate(rows_of(joint)):
            heads = scaled(heads_of(joint[rows]), ctx.share)
            slopes, found = heads_of(given[0][rows, :, None])[0], heads_of(seen[rows, :, None])[0]
            weights = pairs[index * number : (index + 1) * number]
            parts = scaled(look_back(heads, slopes, found, weights), ctx.share)
            gradient[rows] = rearrange(parts, "n (b h) t p -> b t n h p", h=joint.shape[3])
        return gradient, None, None


def look(
    heads: Heads, bias: Float[Tensor, "B heads T T"], coins: Coins
) -> tuple[Float[Tensor, "N T size"], Weights]:
    """What is seen, and the weights by which."""
    query, key, value = heads
    seen, weights = torch.empty_like(query), []
    for now, past in steps_of(query.shape[1]):
        score = torch.bmm(query[:, now], key[:, past].mT)
        score.view(*bias.shape[:2], *score.shape[1:]).add_(bias[:, :, now, past])
        weight = score.softmax(-1)
        dropped = coins.toss(score).mul_(weight)
        seen[:, now] = torch.bmm(dropped, value[:, past])
        weights.append((weight, dropped))
    return seen, weights


def look_back(
    heads: Heads,
    slope: Float[Tensor, "N T size"],
    seen: Float[Tensor, "N T size"],
    weights: Weights,
) -> Heads:
    """Gradients of queries, keys and values, given that of what was seen."""
    query, key, value = heads
    mean = (slope * seen).sum(-1, keepdim=True)
    parts = torch.zeros_like(heads)
    for (now, past), (weight, dropped) in zip(steps_of(query.shape[1]), weights, strict=True):
        score = torch.bmm(slope[:, now], value[:, past].mT).mul_(dropped)
        score.addcmul_(weight, mean[:, now], value=-1)
        parts[0, :, now] = torch.bmm(score, key[:, past])
        parts[1, :, past] += torch.bmm(score.mT, query[:, now])
        parts[2, :, past] += torch.bmm(dropped.mT, slope[:, now])
    return parts


def heads_of(joint: Float[Tensor, "B T n heads size"]) -> Float[Tensor, "n N T size"]:
    """Each head of each row by itself, in one piece."""
    return rearrange(joint, "b t n h p -> n (b h) t p").contiguous()


def scaled(heads: Heads, share: float) -> Heads:
    """Queries by the root of their size, values by what dropout takes; in place."""
    heads[0] *= heads.shape[-1] ** -0.5
    heads[2] /= 1 - share
    return heads


def rows_of(joint: Joint) -> Iterator[slice]:
    """Blocks of rows."""
    batch, steps, _, heads, _ = joint.shape
    size = max(1, WEIGHTS // (heads * min(STEPS, steps) * steps))
    return (slice(start, start + size) for start in range(0, batch, size))


def steps_of(steps: int) -> Iterator[tuple[slice, slice]]:
    """Blocks of steps of about the same length, and all that each may look at."""
    size = -(-steps // max(1, round(steps / STEPS)))
    starts = range(0, steps, size)
    return ((slice(s, s + size), slice(0, min(s + size, steps))) for s in starts)
