"""Causal attention over a cache and new steps, with rotary positions or none."""

from dataclasses import dataclass
from typing import cast

import torch
from einops import rearrange
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional

from tokenworlds.nets.dropped_attention import attend_with_dropout
from tokenworlds.nets.eager import plain_on_cpu
from tokenworlds.nets.rings import Landing, Sight
from tokenworlds.nets.rotary import Rotation

Slots = Float[Tensor, "B heads slots size"]
Steps = Float[Tensor, "B T heads size"]


@dataclass(frozen=True, slots=True)
class Cache:
    """Keys, rotated if that is how positions are told, and values of the steps that one layer can
    still see. The slots of a head lie side by side, for a step reads all of them."""

    keys: Slots
    values: Slots


class Attention(nn.Module):
    """Multi-head attention over a cache and new steps; `dropout` is of its weights, in training."""

    def __init__(
        self, width: int, heads: int, dropout: float = 0.0, *, biased: bool = False
    ) -> None:
        super().__init__()
        self.width, self.heads, self.dropout = width, heads, dropout
        self.input = nn.Linear(width, 3 * width, bias=biased)
        self.output = nn.Linear(width, width, bias=biased)

    def initial(self, batch: int, slots: int) -> Cache:
        """An empty cache."""
        shape = (batch, self.heads, slots, self.width // self.heads)
        return Cache(self.input.weight.new_zeros(shape), self.input.weight.new_zeros(shape))

    def extend(
        self, x: Float[Tensor, "B T D"], rotation: Rotation | None, cache: Cache, landing: Landing
    ) -> tuple[Float[Tensor, "B T D"], Cache]:
        """Some steps, written to their slots before they are looked at."""
        query, key, value = self._project(x, rotation).unbind(2)
        slot, filled = landing.slot, slice(landing.filled)
        cache = Cache(write(cache.keys, slot, key), write(cache.values, slot, value))
        held = Cache(cache.keys[:, :, filled], cache.values[:, :, filled])
        return self._finish(self._attend(query, held, landing.mask)), cache

    def scan(
        self, x: Float[Tensor, "B T D"], rotation: Rotation | None, cache: Cache, sight: Sight
    ) -> tuple[Float[Tensor, "B T D"], Cache]:
        """All steps at once."""
        joint = self._project(x, rotation)
        query, key, value = joint.unbind(2)
        new = Cache(by_head(key), by_head(value))
        known = new if sight.blank else append(cache, new)
        kept = Cache(keep(known.keys, sight.source), keep(known.values, sight.source))
        if sight.blank and self._drops(joint):
            return self._finish(attend_with_dropout(joint, sight.bias, self.dropout)), kept
        return self._finish(self._attend(query, known, sight.bias)), kept

    def _project(
        self, x: Float[Tensor, "B T D"], rotation: Rotation | None
    ) -> Float[Tensor, "B T 3 heads size"]:
        """Queries, keys and values of each head, the first two turned to their position."""
        joint: Tensor = rearrange(self.input(x), "b t (n h p) -> b t n h p", n=3, h=self.heads)
        if rotation is None:
            return joint
        turned, value = torch.split(joint, [2, 1], 2)
        return torch.cat([rotation(turned), value], 2)

    def _attend(self, query: Steps, cache: Cache, mask: Tensor | None) -> Steps:
        """Look at the steps of a cache."""
        seen = functional.scaled_dot_product_attention(
            by_head(query),
            cache.keys,
            cache.values,
            attn_mask=mask,
            dropout_p=self.dropout if self.training else 0.0,
        )
        return rearrange(seen, "b h t p -> b t h p")

    def _drops(self, joint: Tensor) -> bool:
        """Whether dropout is to be had that is faster than torch's."""
        wanted = self.training and self.dropout > 0.0
        return wanted and plain_on_cpu(joint)

    def _finish(self, seen: Steps) -> Float[Tensor, "B T D"]:
        return cast(Tensor, self.output(rearrange(seen, "b t h p -> b t (h p)")))


def by_head(steps: Steps) -> Float[Tensor, "B heads T size"]:
    """As a cache has them."""
    return rearrange(steps, "b t h p -> b h t p")


def append(cache: Cache, new: Cache) -> Cache:
    """New steps behind the cached ones."""
    keys, values = [cache.keys, new.keys], [cache.values, new.values]
    return Cache(torch.cat(keys, 2), torch.cat(values, 2))


def keep(
    steps: Float[Tensor, "B heads slots_and_steps size"], source: Int[Tensor, "B slots"]
) -> Slots:
    """The steps that are to be cached, slot by slot."""
    row, head = grid(steps)
    return steps[row[..., None], head[..., None], source[:, None]]


def write(slots: Slots, slot: Int[Tensor, "B T"] | slice, steps: Steps) -> Slots:
    """Put steps in their slots: in place unless autograd may need the old content."""
    values = by_head(steps).to(slots.dtype)
    needed = torch.is_grad_enabled() or slots.requires_grad
    target = slots.clone() if needed else slots
    if isinstance(slot, slice):
        target[:, :, slot] = values
        return target
    row, head = grid(slots)
    return target.index_put_((row[..., None], head[..., None], slot[:, None]), values)


def grid(
    slots: Float[Tensor, "B heads *rest"],
) -> tuple[Int[Tensor, "B 1"], Int[Tensor, "1 heads"]]:
    """Numbers of rows and heads, to index with."""
    row = torch.arange(slots.shape[0], device=slots.device)
    return row[:, None], torch.arange(slots.shape[1], device=slots.device)[None]
