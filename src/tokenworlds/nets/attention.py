"""Causal attention in a sliding window, a ring of cached steps, and rotary positions or none."""

import math
from dataclasses import dataclass

import torch
from einops import rearrange
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional

ROTARY_BASE = 10_000.0
TURN = 2**24
"""Parts of a full turn. Angles are whole numbers of parts, hence exact however long a run is."""


@dataclass(frozen=True, slots=True)
class Cache:
    """Keys, rotated if that is how positions are told, and values of the steps that one layer can
    still see. The slots of a head lie side by side, for a step reads all of them."""

    keys: Float[Tensor, "B heads slots size"]
    values: Float[Tensor, "B heads slots size"]


@dataclass(frozen=True, slots=True)
class Ring:
    """Which step each slot holds (-1: none), and the number of the next step, row by row."""

    places: Int[Tensor, "B slots"]
    position: Int[Tensor, " B"]

    @property
    def slot(self) -> Int[Tensor, " B"]:
        """Where the next step goes."""
        return self.position % self.places.shape[1]

    def advance(self) -> "Ring":
        """The ring after one more step."""
        places = self.places.scatter(1, self.slot[:, None], self.position[:, None])
        return Ring(places, self.position + 1)

    def visible(self) -> Bool[Tensor, "B 1 1 slots"]:
        """What the latest step may look at: all that is held, for there are no more slots than
        steps in a window."""
        return rearrange(self.places >= 0, "b s -> b 1 1 s")


@dataclass(frozen=True, slots=True)
class Sight:
    """What the steps of a scan may look at, and what is cached of them.

    `mask` is over the slots and then the new steps, `source` says for each slot which of the same
    it is to hold, and `ring` how things stand then.
    """

    mask: Bool[Tensor, "B 1 T slots_and_steps"]
    source: Int[Tensor, "B slots"]
    ring: Ring


def look_ahead(ring: Ring, reset: Bool[Tensor, "B T"], window: int) -> Sight:
    """Resets hide what was before them from the steps of the scan and from those after it."""
    segment = reset.long().cumsum(1)
    fresh = segment == 0
    step = torch.arange(reset.shape[1], device=reset.device)
    age = (ring.position[:, None] + step)[..., None] - ring.places[:, None]
    cached = (ring.places >= 0)[:, None] & (age < window) & fresh[..., None]
    lag = step[:, None] - step
    new = (lag >= 0) & (lag < window) & (segment[..., None] == segment[:, None])
    mask = rearrange(torch.cat([cached, new], -1), "b t s -> b 1 t s")
    source, after = last_steps(ring, segment)
    return Sight(mask, source, after)


def last_steps(ring: Ring, segment: Int[Tensor, "B T"]) -> tuple[Int[Tensor, "B slots"], Ring]:
    """The source of each slot, and the ring without the steps that were forgotten."""
    slots, steps = ring.places.shape[1], segment.shape[1]
    slot = torch.arange(slots, device=segment.device)
    last = ring.position[:, None] + steps - 1
    place = last - (last - slot) % slots
    step = place - ring.position[:, None]
    is_new = step >= 0
    source = torch.where(is_new, slots + step, slot)
    segments = torch.cat([torch.zeros_like(ring.places), segment], 1)
    alive = segments.gather(1, source) == segment[:, -1:]
    places = torch.where(is_new, place, ring.places)
    return source, Ring(torch.where(alive, places, -1), ring.position + steps)


@dataclass(frozen=True, slots=True)
class Rotation:
    """Cosines and sines of the angles at some positions."""

    cosine: Float[Tensor, "*batch 1 1 half"]
    sine: Float[Tensor, "*batch 1 1 half"]

    def __call__(
        self, x: Float[Tensor, "*batch parts heads size"]
    ) -> Float[Tensor, "*batch parts heads size"]:
        """Turn each pair of features by its angle."""
        first, second = x.chunk(2, -1)
        turned = first * self.cosine - second * self.sine
        return torch.cat([turned, second * self.cosine + first * self.sine], -1)


def rotate_to(position: Int[Tensor, "*batch"], size: int, dtype: torch.dtype) -> Rotation:
    """The rotation at each position, for heads of this size (Su et al., 2021)."""
    exponent = torch.arange(0, size, 2, device=position.device, dtype=torch.float32) / size
    speed = (ROTARY_BASE**-exponent * (TURN / math.tau)).round().long()
    parts = (position % TURN)[..., None, None, None] * speed % TURN
    angle = parts.to(torch.promote_types(dtype, torch.float32)) * (math.tau / TURN)
    return Rotation(angle.cos().to(dtype), angle.sin().to(dtype))


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

    def project(
        self, x: Float[Tensor, "*batch D"], rotation: Rotation | None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Queries, keys and values of each head, the first two turned to their position."""
        joint = rearrange(self.input(x), "... (n h p) -> ... n h p", n=3, h=self.heads)
        if rotation is None:
            query, key, value = joint.unbind(-3)
            return query, key, value
        turned, value = torch.split(joint, [2, 1], -3)
        query, key = rotation(turned).unbind(-3)
        return query, key, value.squeeze(-3)

    def attend(
        self,
        query: Float[Tensor, "B T heads size"],
        cache: Cache,
        mask: Bool[Tensor, "B 1 T slots"],
    ) -> Float[Tensor, "B T D"]:
        """Look at the steps of a cache."""
        seen = functional.scaled_dot_product_attention(
            rearrange(query, "b t h p -> b h t p"),
            cache.keys,
            cache.values,
            attn_mask=mask,
            dropout_p=self.dropout if self.training else 0.0,
        )
        result: Tensor = self.output(rearrange(seen, "b h t p -> b t (h p)"))
        return result

    def step(
        self,
        x: Float[Tensor, "B D"],
        rotation: Rotation | None,
        cache: Cache,
        slot: Int[Tensor, " B"],
        mask: Bool[Tensor, "B 1 1 slots"],
    ) -> tuple[Float[Tensor, "B D"], Cache]:
        """One step, written to its slot before it is looked at."""
        query, key, value = self.project(x, rotation)
        cache = Cache(write(cache.keys, slot, key), write(cache.values, slot, value))
        return self.attend(query[:, None], cache, mask).squeeze(1), cache

    def extend(
        self,
        x: Float[Tensor, "B T D"],
        cache: Cache,
        slot: Int[Tensor, "B T"],
        mask: Bool[Tensor, "B 1 T slots"],
    ) -> tuple[Float[Tensor, "B T D"], Cache]:
        """Some steps without rotation, written to their slots before they are looked at."""
        query, key, value = self.project(x, None)
        cache = Cache(write_all(cache.keys, slot, key), write_all(cache.values, slot, value))
        return self.attend(query, cache, mask), cache

    def scan(
        self, x: Float[Tensor, "B T D"], rotation: Rotation | None, cache: Cache, sight: Sight
    ) -> tuple[Float[Tensor, "B T D"], Cache]:
        """All steps at once."""
        query, key, value = self.project(x, rotation)
        both = Cache(append(cache.keys, key), append(cache.values, value))
        kept = Cache(keep(both.keys, sight.source), keep(both.values, sight.source))
        return self.attend(query, both, sight.mask), kept


def append(
    slots: Float[Tensor, "B heads slots size"], steps: Float[Tensor, "B T heads size"]
) -> Float[Tensor, "B heads slots_and_steps size"]:
    """New steps behind the cached ones."""
    return torch.cat([slots, rearrange(steps, "b t h p -> b h t p")], 2)


def keep(
    steps: Float[Tensor, "B heads slots_and_steps size"], source: Int[Tensor, "B slots"]
) -> Float[Tensor, "B heads slots size"]:
    """The steps that are to be cached, slot by slot."""
    row, head = grid(steps)
    return steps[row[..., None], head[..., None], source[:, None]]


def write(
    slots: Float[Tensor, "B heads slots size"],
    slot: Int[Tensor, " B"],
    step: Float[Tensor, "B heads size"],
) -> Float[Tensor, "B heads slots size"]:
    """Put a step in its slot: in place unless autograd may need the old content."""
    place = (*grid(slots), slot[:, None])
    if torch.is_grad_enabled() or slots.requires_grad:
        return slots.index_put(place, step.to(slots.dtype))
    return slots.index_put_(place, step.to(slots.dtype))


def write_all(
    slots: Float[Tensor, "B heads slots size"],
    slot: Int[Tensor, "B T"],
    steps: Float[Tensor, "B T heads size"],
) -> Float[Tensor, "B heads slots size"]:
    """Put steps in their slots, as `write` does with one."""
    row, head = grid(slots)
    place = (row[..., None], head[..., None], slot[:, None])
    values = rearrange(steps, "b t h p -> b h t p").to(slots.dtype)
    if torch.is_grad_enabled() or slots.requires_grad:
        return slots.index_put(place, values)
    return slots.index_put_(place, values)


def grid(
    slots: Float[Tensor, "B heads *rest"],
) -> tuple[Int[Tensor, "B 1"], Int[Tensor, "1 heads"]]:
    """Numbers of rows and heads, to index with."""
    row = torch.arange(slots.shape[0], device=slots.device)
    return row[:, None], torch.arange(slots.shape[1], device=slots.device)[None]
