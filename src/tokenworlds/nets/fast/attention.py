"""Dropout, and causal attention with dropout of its weights, for training on CPUs.

Torch computes all attention weights, the masked ones included, and passes over all of them with
each operation. Here they are computed in blocks that stay in the cache and skip most masked ones.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from einops import rearrange
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.autograd import Function
from torch.nn import functional

from tokenworlds.core.sharing import draw, is_shared, share_here
from tokenworlds.nets.fast import eager_on_cpu

CHUNK = 2**17
"""Random numbers made at a time: few enough to be in the cache when they are used."""
WORDS = 2**32
BLOCK_STEPS = 68
"""Steps in a block, about: it covers all keys up to its last step, and long products are fast."""
BLOCK_WEIGHTS = 2**19
"""Weights in a block of several rows, at most."""

Joint = Float[Tensor, "B T 3 heads size"]
"""Queries, keys and values."""
Heads = Float[Tensor, "3 N T size"]
"""The same with batch and heads as one axis."""
Weights = list[tuple[Float[Tensor, "N _ _"], Float[Tensor, "N _ _"]]]
"""Attention weights of each block, before and after dropout."""


class KeepMasks:
    """Random zeros and ones, seeded by torch's global generator but five times as fast."""

    def __init__(self, dropout: float) -> None:
        seed = int(torch.randint(2**62, ()))
        self.generator = np.random.Generator(np.random.SFC64(seed))
        self.least = min(round(dropout * WORDS), WORDS - 1) - WORDS // 2

    def fill(self, result: Float[Tensor, "*some"]) -> Float[Tensor, "*some"]:
        """Overwrite a contiguous tensor."""
        for chunk in result.view(-1).split(CHUNK):
            pairs = self.generator.integers(0, 2**64, (len(chunk) + 1) // 2, dtype=np.uint64)
            words = torch.from_numpy(pairs.view(np.int32))[: len(chunk)]
            torch.ge(words, self.least, out=chunk)
        return result

    def fill_part(
        self, result: Float[Tensor, "N *some"], before: int, after: int
    ) -> Float[Tensor, "N *some"]:
        """The same, with rows of other ranks before and after."""
        if not before + after:
            return self.fill(result)
        whole = self.fill(result.new_empty((before + len(result) + after, *result.shape[1:])))
        return result.copy_(whole[before : before + len(result)])


class Dropout(nn.Module):
    def __init__(self, dropout: float) -> None:
        super().__init__()
        self.dropout = dropout

    def forward(self, x: Float[Tensor, "*some"]) -> Float[Tensor, "*some"]:
        if not self.training or self.dropout == 0.0:
            return x
        if not eager_on_cpu(x):
            return plain_dropout(x, self.dropout)
        kept = draw(KeepMasks(self.dropout).fill, torch.empty(x.shape, dtype=x.dtype))
        return x * kept.div_(1 - self.dropout)


def plain_dropout(x: Float[Tensor, "*some"], dropout: float) -> Float[Tensor, "*some"]:
    """Equal in distribution: the random numbers differ."""
    if is_shared():
        return x * draw(partial(functional.dropout, p=dropout), torch.ones_like(x))
    return functional.dropout(x, dropout)


class PlainDropout(nn.Dropout):
    """Torch's own dropout."""

    def forward(self, input: Float[Tensor, "*some"]) -> Float[Tensor, "*some"]:
        return plain_dropout(input, self.p) if self.training else input


def attend_with_dropout(
    joint: Joint, bias: Float[Tensor, "rows 1 T T"], dropout: float
) -> Float[Tensor, "B T heads size"]:
    """`bias` must be minus infinity for all future steps."""
    attended: Tensor = DroppedAttention.apply(joint, bias, dropout)  # type: ignore[no-untyped-call]
    return attended


def plain_attend_with_dropout(
    joint: Joint,
    bias: Float[Tensor, "rows 1 T T"],
    dropout: float,
    kept: Bool[Tensor, "B heads T T"],
) -> Float[Tensor, "B T heads size"]:
    """The same with the weights given that dropout keeps."""
    query, key, value = rearrange(joint, "b t n h p -> n b h t p")
    weight = (query @ key.mT / joint.shape[-1] ** 0.5 + bias).softmax(-1)
    attended: Tensor = (weight * kept / (1 - dropout)) @ value
    return rearrange(attended, "b h t p -> b t h p")


class DroppedAttention(Function):
    """Some rows at a time; the weights are saved for the backward pass."""

    @staticmethod
    def forward(ctx: Any, joint: Tensor, bias: Tensor, dropout: float) -> Tensor:
        masks, attended, saved = KeepMasks(dropout), torch.empty_like(joint[:, :, 0]), []
        bias = bias.expand(len(joint), joint.shape[3], -1, -1)
        ctx.blocks = list(row_blocks(joint))
        for block in ctx.blocks:
            rows, heads = block.rows, scale(split_heads(joint[block.rows]), dropout)
            found, weights = attend_blocks(heads, bias[rows], masks, block)
            attended[rows] = rearrange(found, "(b h) t p -> b t h p", h=joint.shape[3])
            saved += [each for pair in weights for each in pair]
        ctx.save_for_backward(joint, attended, *saved)
        ctx.dropout = dropout
        return attended

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None]:
        joint, attended, *saved = ctx.saved_tensors
        gradient, number = torch.empty_like(joint), len(list(step_blocks(joint.shape[1])))
        pairs = list(zip(saved[::2], saved[1::2], strict=True))
        for index, block in enumerate(ctx.blocks):
            rows = block.rows
            heads = scale(split_heads(joint[rows]), ctx.dropout)
            grad = split_heads(grads[0][rows, :, None])[0]
            found = split_heads(attended[rows, :, None])[0]
            weights = pairs[index * number : (index + 1) * number]
            parts = scale(backward_blocks(heads, grad, found, weights), ctx.dropout)
            gradient[rows] = rearrange(parts, "n (b h) t p -> b t n h p", h=joint.shape[3])
        return gradient, None, None


def attend_blocks(
    heads: Heads, bias: Float[Tensor, "B heads T T"], masks: KeepMasks, block: "RowBlock"
) -> tuple[Float[Tensor, "N T size"], Weights]:
    query, key, value = heads
    attended, weights = torch.empty_like(query), []
    others = (block.before * bias.shape[1], block.after * bias.shape[1])
    for now, past in step_blocks(query.shape[1]):
        score = torch.bmm(query[:, now], key[:, past].mT)
        score.view(*bias.shape[:2], *score.shape[1:]).add_(bias[:, :, now, past])
        weight = score.softmax(-1)
        dropped = masks.fill_part(score, *others).mul_(weight)
        attended[:, now] = torch.bmm(dropped, value[:, past])
        weights.append((weight, dropped))
    return attended, weights


def backward_blocks(
    heads: Heads,
    grad: Float[Tensor, "N T size"],
    attended: Float[Tensor, "N T size"],
    weights: Weights,
) -> Heads:
    """Gradients of queries, keys and values from that of the attended values."""
    query, key, value = heads
    mean = (grad * attended).sum(-1, keepdim=True)
    parts = torch.zeros_like(heads)
    for (now, past), (weight, dropped) in zip(step_blocks(query.shape[1]), weights, strict=True):
        score = torch.bmm(grad[:, now], value[:, past].mT).mul_(dropped)
        score.addcmul_(weight, mean[:, now], value=-1)
        parts[0, :, now] = torch.bmm(score, key[:, past])
        parts[1, :, past] += torch.bmm(score.mT, query[:, now])
        parts[2, :, past] += torch.bmm(dropped.mT, grad[:, now])
    return parts


def split_heads(joint: Float[Tensor, "B T n heads size"]) -> Float[Tensor, "n N T size"]:
    split = rearrange(joint, "b t n h p -> n (b h) t p")
    # A copy always: what is scaled in place must not be a view of the input, as of no rows.
    return split.contiguous() if len(joint) else torch.empty_like(split)


def scale(heads: Heads, dropout: float) -> Heads:
    """Scale queries by the root of their size, and values in place of the weights that are kept."""
    heads[0] *= heads.shape[-1] ** -0.5
    heads[2] /= 1 - dropout
    return heads


@dataclass(frozen=True, slots=True)
class RowBlock:
    """Rows that are computed at a time, and how many of the same block other ranks have."""

    rows: slice
    before: int = 0
    after: int = 0


def row_blocks(joint: Joint) -> Iterator[RowBlock]:
    """The blocks of the whole batch: those of other ranks have no row here, but random numbers."""
    batch, steps, _, heads, _ = joint.shape
    size = max(1, BLOCK_WEIGHTS // (heads * min(BLOCK_STEPS, steps) * steps))
    share = share_here(batch)
    for first in range(0, share.total, size):
        last = min(first + size, share.total)
        part = share.within(first, last)
        begin = max(first + part.start - share.start, 0)
        yield RowBlock(slice(begin, begin + len(part)), part.start, last - first - part.stop)


def step_blocks(steps: int) -> Iterator[tuple[slice, slice]]:
    """Blocks of steps of about the same length, each with the keys up to its last step."""
    size = -(-steps // max(1, round(steps / BLOCK_STEPS)))
    starts = range(0, steps, size)
    return ((slice(s, s + size), slice(0, min(s + size, steps))) for s in starts)
