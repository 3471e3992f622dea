"""Causal multi-head attention with a KV cache: slots, masks, rotary positions.

A cache has a fixed number of slots. Step n goes to slot n modulo that number, so that a full cache
is overwritten from the oldest step on.
"""

import math
from dataclasses import dataclass
from typing import cast

import torch
from einops import rearrange
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional

from tokenworlds.core.sharing import is_shared
from tokenworlds.nets.fast import eager_on_cpu, eager_without_autocast
from tokenworlds.nets.fast.attention import attend_with_dropout, plain_dropout

Cached = Float[Tensor, "B heads slots size"]
Steps = Float[Tensor, "B T heads size"]

ROTARY_BASE = 10_000.0
TURN = 2**24
"""Parts of a full turn. Angles are whole numbers of parts, and exact at any position."""


@dataclass(frozen=True, slots=True)
class KVCache:
    """Keys (rotated, if positions are rotary) and values of one layer."""

    keys: Cached
    values: Cached


@dataclass(frozen=True, slots=True)
class Slots:
    """The number of the step in each slot (-1: empty) and of the next step, which layers share."""

    held: Int[Tensor, "B slots"]
    next: Int[Tensor, " B"]

    def known_empty(self) -> bool:
        """Whether no slot holds a step; False where reading values is not free."""
        return eager_on_cpu(self.held) and not bool((self.held >= 0).any())


@dataclass(frozen=True, slots=True)
class SlotWrite:
    """The slots that new steps go to, and what these steps attend to afterwards.

    Only the first `filled` slots hold steps. Without a `mask` all of them are attended to. `slot`
    is a slice if all rows write to the same slots.
    """

    step: Int[Tensor, "B T"]
    slot: Int[Tensor, "B T"] | slice
    filled: int
    mask: Bool[Tensor, "B 1 T filled"] | None
    slots: Slots


def plan_write(slots: Slots, count: int, number: int | None = None) -> SlotWrite:
    """For the next `count` steps; more than one must not overwrite any other step.

    `number` is the next step of all rows, where it is known without reading the slots.
    """
    size = slots.held.shape[1]
    step = slots.next[:, None] + torch.arange(count, device=slots.next.device)
    slot = step % size
    held = slots.held.scatter(1, slot, step)
    after = Slots(held, slots.next + count)
    if number is not None and number + count <= size:
        stop = number + count
        shown = mask_held(held[:, :stop], step)
        return SlotWrite(step, slice(number, stop), stop, shown, after)
    if not eager_on_cpu(held):
        return SlotWrite(step, slot, size, mask_held(held, step), after)
    numbers = slots.next.tolist()
    first, stop = min(numbers), max(numbers) + count
    same_slots = first + count == stop <= size
    filled = min(size, stop)
    held = held[:, :filled]
    mask = None if count == 1 and bool((held >= 0).all()) else mask_held(held, step)
    return SlotWrite(step, slice(first, stop) if same_slots else slot, filled, mask, after)


def mask_held(
    held: Int[Tensor, "B filled"], step: Int[Tensor, "B T"]
) -> Bool[Tensor, "B 1 T filled"]:
    """All held steps but those in the future; there are no more slots than a window has steps."""
    visible = (held >= 0)[:, None] & (held[:, None] <= step[..., None])
    return rearrange(visible, "b t s -> b 1 t s")


@dataclass(frozen=True, slots=True)
class ScanPlan:
    """What the steps of a scan attend to, and which of them stay in the cache.

    `bias` is 0 or minus infinity over the slots and then the new steps; equal rows may share one.
    `source` is the index among the same of the step that each slot holds afterwards. If the cache
    was `empty`, both cover the new steps only.
    """

    bias: Float[Tensor, "rows 1 T slots_and_steps"]
    source: Int[Tensor, "B slots"]
    slots: Slots
    empty: bool


def plan_scan(
    slots: Slots, reset: Bool[Tensor, "B T"], window: int, dtype: torch.dtype
) -> ScanPlan:
    """A reset hides all earlier steps, from the later steps of the scan and from those after it."""
    episode, empty = reset.long().cumsum(1), slots.known_empty()
    visible = mask_new(episode, window)
    if not empty:
        cached = mask_cached(slots, episode, window)
        visible = torch.cat([cached, visible.expand(len(cached), -1, -1)], -1)
    bias = torch.zeros(visible.shape, dtype=dtype, device=visible.device)
    bias = rearrange(bias.masked_fill_(~visible, -math.inf), "b t s -> b 1 t s")
    source, after = keep_last(slots, episode)
    if empty:
        source = (source - slots.held.shape[1]).clamp_min(0)
    return ScanPlan(bias, source, after, empty)


def mask_new(episode: Int[Tensor, "B T"], window: int) -> Bool[Tensor, "rows T T"]:
    """Which new steps each new step attends to; one row for all if there is no reset."""
    step = torch.arange(episode.shape[1], device=episode.device)
    lag = step[:, None] - step
    near = ((lag >= 0) & (lag < window))[None]
    if eager_on_cpu(episode) and bool((episode[:, -1] == episode[:, 0]).all()):
        return near
    return near & (episode[..., None] == episode[:, None])


def mask_cached(
    slots: Slots, episode: Int[Tensor, "B T"], window: int
) -> Bool[Tensor, "B T slots"]:
    """Which cached steps each new step attends to."""
    step = torch.arange(episode.shape[1], device=episode.device)
    lag = (slots.next[:, None] + step)[..., None] - slots.held[:, None]
    return (slots.held >= 0)[:, None] & (lag < window) & (episode == 0)[..., None]


def keep_last(slots: Slots, episode: Int[Tensor, "B T"]) -> tuple[Int[Tensor, "B slots"], Slots]:
    """The source of each slot after a scan, and the slots without the steps before a reset."""
    size, steps = slots.held.shape[1], episode.shape[1]
    slot = torch.arange(size, device=episode.device)
    last = slots.next[:, None] + steps - 1
    number = last - (last - slot) % size
    step = number - slots.next[:, None]
    is_new = step >= 0
    source = torch.where(is_new, size + step, slot)
    episodes = torch.cat([torch.zeros_like(slots.held), episode], 1)
    alive = episodes.gather(1, source) == episode[:, -1:]
    held = torch.where(is_new, number, slots.held)
    return source, Slots(torch.where(alive, held, -1), slots.next + steps)


@dataclass(frozen=True, slots=True)
class Rotation:
    """Rotary positions (Su et al., 2021): pairs of features are turned by these angles."""

    cosine: Float[Tensor, "*batch 1 1 half"]
    sine: Float[Tensor, "*batch 1 1 half"]

    def __call__(
        self, x: Float[Tensor, "*batch parts heads size"]
    ) -> Float[Tensor, "*batch parts heads size"]:
        first, second = x.chunk(2, -1)
        turned = first * self.cosine - second * self.sine
        return torch.cat([turned, second * self.cosine + first * self.sine], -1)


def rotate_to(position: Int[Tensor, "*batch"], size: int, dtype: torch.dtype) -> Rotation:
    """The rotation at each position, for heads of this size."""
    exponent = torch.arange(0, size, 2, device=position.device, dtype=torch.float32) / size
    speed = (ROTARY_BASE**-exponent * (TURN / math.tau)).round().long()
    parts = (position % TURN)[..., None, None, None] * speed % TURN
    angle = parts.to(torch.promote_types(dtype, torch.float32)) * (math.tau / TURN)
    return Rotation(angle.cos().to(dtype), angle.sin().to(dtype))


class Attention(nn.Module):
    """Attention of new steps to a KV cache and to each other; `dropout` acts on the weights."""

    def __init__(
        self, width: int, heads: int, dropout: float = 0.0, *, biased: bool = False
    ) -> None:
        super().__init__()
        self.width, self.heads, self.dropout = width, heads, dropout
        self.input = nn.Linear(width, 3 * width, bias=biased)
        self.output = nn.Linear(width, width, bias=biased)

    def initial(self, batch: int, slots: int) -> KVCache:
        shape = (batch, self.heads, slots, self.width // self.heads)
        return KVCache(self.input.weight.new_zeros(shape), self.input.weight.new_zeros(shape))

    def extend(
        self, x: Float[Tensor, "B T D"], cache: KVCache, plan: SlotWrite, rotation: Rotation | None
    ) -> tuple[Float[Tensor, "B T D"], KVCache]:
        """Write a few steps to their slots, then attend to the filled ones."""
        query, key, value = self._project(x, rotation).unbind(2)
        slot, filled = plan.slot, slice(plan.filled)
        cache = KVCache(write(cache.keys, slot, key), write(cache.values, slot, value))
        read = KVCache(cache.keys[:, :, filled], cache.values[:, :, filled])
        return self._finish(self._attend(query, read, plan.mask)), cache

    def step(
        self, x: Float[Tensor, "B 1 D"], cache: KVCache, slot: int, mask: Tensor | None
    ) -> Float[Tensor, "B 1 D"]:
        """`extend` by one step without autograd: it writes to the cache that it is given."""
        batch, heads = len(x), self.heads
        joint = self.input(x).view(batch, 3, heads, 1, self.width // heads)
        query, key, value = joint.unbind(1)
        cache.keys.narrow(2, slot, 1).copy_(key)
        cache.values.narrow(2, slot, 1).copy_(value)
        keys, values = cache.keys.narrow(2, 0, slot + 1), cache.values.narrow(2, 0, slot + 1)
        attended = functional.scaled_dot_product_attention(query, keys, values, attn_mask=mask)
        return cast(Tensor, self.output(attended.reshape(batch, 1, self.width)))

    def scan(
        self, x: Float[Tensor, "B T D"], cache: KVCache, plan: ScanPlan, rotation: Rotation | None
    ) -> tuple[Float[Tensor, "B T D"], KVCache]:
        joint = self._project(x, rotation)
        query, key, value = joint.unbind(2)
        read = KVCache(by_head(key), by_head(value))
        if not plan.empty:
            keys, values = [cache.keys, read.keys], [cache.values, read.values]
            read = KVCache(torch.cat(keys, 2), torch.cat(values, 2))
        kept = KVCache(pick(read.keys, plan.source), pick(read.values, plan.source))
        drops = self.training and self.dropout > 0.0
        if drops and plan.empty and eager_without_autocast(joint):
            return self._finish(attend_with_dropout(joint, plan.bias, self.dropout)), kept
        return self._finish(self._attend(query, read, plan.bias)), kept

    def _project(
        self, x: Float[Tensor, "B T D"], rotation: Rotation | None
    ) -> Float[Tensor, "B T 3 heads size"]:
        """Queries, keys and values; the first two rotated."""
        joint: Tensor = rearrange(self.input(x), "b t (n h p) -> b t n h p", n=3, h=self.heads)
        if rotation is None:
            return joint
        turned, value = torch.split(joint, [2, 1], 2)
        return torch.cat([rotation(turned), value], 2)

    def _attend(self, query: Steps, cache: KVCache, mask: Tensor | None) -> Steps:
        if self.training and self.dropout > 0.0 and is_shared():
            return self._attend_shared(query, cache, mask)
        attended = functional.scaled_dot_product_attention(
            by_head(query),
            cache.keys,
            cache.values,
            attn_mask=mask,
            dropout_p=self.dropout if self.training else 0.0,
        )
        return rearrange(attended, "b h t p -> b t h p")

    def _attend_shared(self, query: Steps, cache: KVCache, bias: Tensor | None) -> Steps:
        """The same, with weights dropped as one process would drop those of the whole batch."""
        score = by_head(query) @ cache.keys.mT / query.shape[-1] ** 0.5
        weight = (score if bias is None else score + bias).softmax(-1)
        return rearrange(plain_dropout(weight, self.dropout) @ cache.values, "b h t p -> b t h p")

    def _finish(self, attended: Steps) -> Float[Tensor, "B T D"]:
        return cast(Tensor, self.output(rearrange(attended, "b t h p -> b t (h p)")))


def by_head(steps: Steps) -> Float[Tensor, "B heads T size"]:
    return rearrange(steps, "b t h p -> b h t p")


def pick(
    steps: Float[Tensor, "B heads slots_and_steps size"], source: Int[Tensor, "B slots"]
) -> Cached:
    row, head = row_and_head(steps)
    return steps[row[..., None], head[..., None], source[:, None]]


def write(cached: Cached, slot: Int[Tensor, "B T"] | slice, steps: Steps) -> Cached:
    """Write steps to slots: in place, unless autograd may need the old content."""
    values = by_head(steps).to(cached.dtype)
    needed = torch.is_grad_enabled() or cached.requires_grad
    target = cached.clone() if needed else cached
    if isinstance(slot, slice):
        target[:, :, slot] = values
        return target
    row, head = row_and_head(cached)
    return target.index_put_((row[..., None], head[..., None], slot[:, None]), values)


def row_and_head(
    cached: Float[Tensor, "B heads *rest"],
) -> tuple[Int[Tensor, "B 1"], Int[Tensor, "1 heads"]]:
    """Indices that broadcast over rows and heads."""
    row = torch.arange(cached.shape[0], device=cached.device)
    return row[:, None], torch.arange(cached.shape[1], device=cached.device)[None]
