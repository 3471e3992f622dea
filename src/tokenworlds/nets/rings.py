"""What attention remembers: a ring of cached steps, where new ones go, and what they may see."""

import math
from dataclasses import dataclass

import torch
from einops import rearrange
from jaxtyping import Bool, Float, Int
from torch import Tensor

from tokenworlds.nets.eager import eager_on_cpu


@dataclass(frozen=True, slots=True)
class Ring:
    """Which step each slot holds (-1: none), and the number of the next step, row by row."""

    places: Int[Tensor, "B slots"]
    position: Int[Tensor, " B"]

    def is_blank(self) -> bool:
        """Whether it is known to hold nothing."""
        return eager_on_cpu(self.places) and not bool((self.places >= 0).any())


@dataclass(frozen=True, slots=True)
class Landing:
    """Where new steps are written, and what they then may look at.

    Only the first `filled` slots hold anything. All of it is seen where there is no `mask`. Rows of
    the same age write to the same slots, which are a slice then.
    """

    position: Int[Tensor, "B T"]
    slot: Int[Tensor, "B T"] | slice
    filled: int
    mask: Bool[Tensor, "B 1 T filled"] | None
    ring: Ring


def land(ring: Ring, steps: int) -> Landing:
    """For the next steps; more than one must find room."""
    slots = ring.places.shape[1]
    position = ring.position[:, None] + torch.arange(steps, device=ring.position.device)
    slot = position % slots
    places = ring.places.scatter(1, slot, position)
    after = Ring(places, ring.position + steps)
    if not eager_on_cpu(places):
        return Landing(position, slot, slots, sight_of(places, position), after)
    numbers = ring.position.tolist()
    first, stop = min(numbers), max(numbers) + steps
    alike = first + steps == stop <= slots
    filled = min(slots, stop)
    held = places[:, :filled]
    mask = None if steps == 1 and bool((held >= 0).all()) else sight_of(held, position)
    return Landing(position, slice(first, stop) if alike else slot, filled, mask, after)


def sight_of(
    places: Int[Tensor, "B filled"], position: Int[Tensor, "B T"]
) -> Bool[Tensor, "B 1 T filled"]:
    """All that is held and not ahead, for there are no more slots than steps in a window."""
    seen = (places >= 0)[:, None] & (places[:, None] <= position[..., None])
    return rearrange(seen, "b t s -> b 1 t s")


@dataclass(frozen=True, slots=True)
class Sight:
    """What the steps of a scan may look at, and what is cached of them.

    `bias` is 0 where they may and minus infinity where not, over the slots and then the new steps;
    rows that see alike may share one. `source` says for each slot which of the same it is to hold,
    and `ring` how things stand then. If the cache is `blank`, there are new steps only.
    """

    bias: Float[Tensor, "rows 1 T slots_and_steps"]
    source: Int[Tensor, "B slots"]
    ring: Ring
    blank: bool


def look_ahead(ring: Ring, reset: Bool[Tensor, "B T"], window: int, dtype: torch.dtype) -> Sight:
    """Resets hide what was before them from the steps of the scan and from those after it."""
    segment, blank = reset.long().cumsum(1), ring.is_blank()
    seen = among_new(segment, window)
    if not blank:
        cached = among_cached(ring, segment, window)
        seen = torch.cat([cached, seen.expand(len(cached), -1, -1)], -1)
    bias = torch.zeros(seen.shape, dtype=dtype, device=seen.device)
    bias = rearrange(bias.masked_fill_(~seen, -math.inf), "b t s -> b 1 t s")
    source, after = last_steps(ring, segment)
    if blank:
        source = (source - ring.places.shape[1]).clamp_min(0)
    return Sight(bias, source, after, blank)


def among_new(segment: Int[Tensor, "B T"], window: int) -> Bool[Tensor, "rows T T"]:
    """Which new steps each of them sees; one row stands for all if nothing is reset on the way."""
    step = torch.arange(segment.shape[1], device=segment.device)
    lag = step[:, None] - step
    near = ((lag >= 0) & (lag < window))[None]
    if eager_on_cpu(segment) and bool((segment[:, -1] == segment[:, 0]).all()):
        return near
    return near & (segment[..., None] == segment[:, None])


def among_cached(ring: Ring, segment: Int[Tensor, "B T"], window: int) -> Bool[Tensor, "B T slots"]:
    """Which cached steps each new one sees."""
    step = torch.arange(segment.shape[1], device=segment.device)
    age = (ring.position[:, None] + step)[..., None] - ring.places[:, None]
    return (ring.places >= 0)[:, None] & (age < window) & (segment == 0)[..., None]


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
