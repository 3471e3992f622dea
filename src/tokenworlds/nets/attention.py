"""Causal attention in a sliding window, with rotary positions and a ring of cached steps."""

import math
from dataclasses import dataclass

import torch
from einops import rearrange
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional

ROTARY_BASE = 10_000.0
TURNS = 2**24
"""Parts of a full turn. Angles are whole numbers of parts, hence exact however long a run is."""


@dataclass(frozen=True, slots=True)
class Cache:
    """Rotated keys, and values, of the steps that one layer can still see."""

    keys: Float[Tensor, "B slots heads size"]
    values: Float[Tensor, "B slots heads size"]


@dataclass(frozen=True, slots=True)
class Ring:
    """Which step each slot holds (-1: none), and the number of the next step, for each row."""

    places: Int[Tensor, "B slots"]
    position: Int[Tensor, " B"]

    def slot(self) -> Int[Tensor, " B"]:
        """Where the next step goes."""
        return self.position % self.places.shape[1]

    def advance(self) -> "Ring":
        """The ring after one more step."""
        places = self.places.scatter(1, self.slot()[:, None], self.position[:, None])
        return Ring(places, self.position + 1)


@dataclass(frozen=True, slots=True)
class Rotation:
    """Cosines and sines of the angles at some positions."""

    cosine: Float[Tensor, "*rest 1 half"]
    sine: Float[Tensor, "*rest 1 half"]

    def __call__(self, x: Float[Tensor, "*rest heads size"]) -> Float[Tensor, "*rest heads size"]:
        """Turn each pair of features by its angle."""
        first, second = x.chunk(2, -1)
        return torch.cat(
            [
                first * self.cosine - second * self.sine,
                second * self.cosine + first * self.sine,
            ],
            -1,
        )


def rotate_to(position: Int[Tensor, "*rest"], size: int, dtype: torch.dtype) -> Rotation:
    """The rotation at each position, for heads of this size."""
    exponent = torch.arange(0, size, 2, device=position.device, dtype=torch.float32) / size
    speed = (ROTARY_BASE**-exponent * (TURNS / math.tau)).round().long()
    parts = (position % TURNS)[..., None, None] * speed % TURNS
    angle = parts.to(dtype) * (math.tau / TURNS)
    return Rotation(angle.cos(), angle.sin())


def visible(
    ring: Ring, reset: Bool[Tensor, "B T"], window: int
) -> Bool[Tensor, "B 1 T slots_and_steps"]:
    """Which of the cached steps, then of the new ones, each new step may look at."""
    steps = torch.arange(reset.shape[1], device=reset.device)
    segment = reset.long().cumsum(1)
    age = (ring.position[:, None] + steps)[..., None] - ring.places[:, None]
    cached = (ring.places >= 0)[:, None] & (age < window) & (segment == 0)[..., None]
    lag = steps[:, None] - steps
    near = (lag >= 0) & (lag < window)
    new = near & (segment[..., None] == segment[:, None])
    return torch.cat([cached, new], -1).unsqueeze(1)


def last_steps(ring: Ring, reset: Bool[Tensor, "B T"]) -> tuple[Int[Tensor, "B slots"], Ring]:
    """For each slot its source among the cached, then the new steps; and the ring that results."""
    slots, steps = ring.places.shape[1], reset.shape[1]
    slot = torch.arange(slots, device=reset.device)
    last = (ring.position + steps - 1)[:, None]
    place = last - (last - slot) % slots
    step = place - ring.position[:, None]
    source = torch.where(step >= 0, slots + step, slot)
    forgotten = torch.where(reset, steps_of(reset), -1).amax(1, keepdim=True)
    kept = torch.where(step >= 0, place, ring.places)
    alive = torch.where(step >= 0, step >= forgotten, forgotten < 0)
    return source, Ring(torch.where(alive, kept, -1), ring.position + steps)


def steps_of(reset: Bool[Tensor, "B T"]) -> Int[Tensor, " T"]:
    """The number of each step of a scan."""
    return torch.arange(reset.shape[1], device=reset.device)


class Attention(nn.Module):
    """Multi-head attention over a cache and the new steps."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.input = nn.Linear(width, 3 * width, bias=False)
        self.output = nn.Linear(width, width, bias=False)

    def initial(self, batch: int, slots: int) -> Cache:
        """An empty cache."""
        width = self.input.in_features
        shape = (batch, slots, self.heads, width // self.heads)
        return Cache(self.input.weight.new_zeros(shape), self.input.weight.new_zeros(shape))

    def project(
        self, x: Float[Tensor, "*rest D"], rotation: Rotation
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Queries, keys and values of each head, the first two turned to their position."""
        query, key, value = (
            part.unflatten(-1, (self.heads, -1)) for part in self.input(x).chunk(3, -1)
        )
        return rotation(query), rotation(key), value

    def attend(
        self,
        query: Float[Tensor, "B T heads size"],
        cache: Cache,
        mask: Bool[Tensor, "B 1 T slots"],
    ) -> Float[Tensor, "B T D"]:
        """Look at the steps of a cache."""
        parts = (rearrange(x, "b t h p -> b h t p") for x in (query, cache.keys, cache.values))
        seen = functional.scaled_dot_product_attention(*parts, attn_mask=mask)
        result: Tensor = self.output(rearrange(seen, "b h t p -> b t (h p)"))
        return result

    def step(
        self,
        x: Float[Tensor, "B D"],
        rotation: Rotation,
        cache: Cache,
        slot: Int[Tensor, " B"],
        mask: Bool[Tensor, "B 1 1 slots"],
    ) -> tuple[Float[Tensor, "B D"], Cache]:
        """One step, written to its slot before it is looked at."""
        query, key, value = self.project(x, rotation)
        cache = Cache(write(cache.keys, slot, key), write(cache.values, slot, value))
        return self.attend(query[:, None], cache, mask)[:, 0], cache

    def scan(
        self,
        x: Float[Tensor, "B T D"],
        rotation: Rotation,
        cache: Cache,
        source: Int[Tensor, "B slots"],
        mask: Bool[Tensor, "B 1 T slots_and_steps"],
    ) -> tuple[Float[Tensor, "B T D"], Cache]:
        """All steps at once, and the cache filled from the source of each slot."""
        query, key, value = self.project(x, rotation)
        both = Cache(torch.cat([cache.keys, key], 1), torch.cat([cache.values, value], 1))
        rows = torch.arange(len(x), device=x.device)[:, None]
        kept = Cache(both.keys[rows, source], both.values[rows, source])
        return self.attend(query, both, mask), kept


def write(
    slots: Float[Tensor, "B slots heads size"],
    slot: Int[Tensor, " B"],
    step: Float[Tensor, "B heads size"],
) -> Float[Tensor, "B slots heads size"]:
    """Put a step in its slot: in place unless autograd may need the old content."""
    rows = torch.arange(len(step), device=step.device)
    if torch.is_grad_enabled() or slots.requires_grad:
        return slots.index_put((rows, slot), step)
    return slots.index_put_((rows, slot), step)
