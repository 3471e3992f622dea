"""What all causal transformers share: blocks, and a stack of them over KV caches."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import cast

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from tokenworlds.core.errors import UserError
from tokenworlds.core.trees import map_tensors, where_rows
from tokenworlds.core.types import Carry
from tokenworlds.nets.attention import Attention, KVCache, Slots, plan_scan, plan_write, rotate_to
from tokenworlds.nets.fast import eager_on_device, eager_without_autocast
from tokenworlds.nets.fast.attention import Dropout

Attend = Callable[[Attention, Tensor, KVCache], tuple[Tensor, KVCache]]


class KnownSlots:
    """What steps need to know about slots, kept so that they need not read them again.

    `number` is the next step of all rows. `full` is set if all slots before it hold a step. On a
    device, where reading waits, a carry knows its number from the start.
    """

    def __init__(self, slots: Slots, number: int, full: bool) -> None:
        self.slots, self.number, self.full = slots, number, full

    def after(self, slots: Slots, steps: int) -> "KnownSlots | None":
        """Known of the slots after some more steps of all rows; nothing once they wrap around."""
        if self.number + steps > slots.held.shape[1]:
            return None
        return KnownSlots(slots, self.number + steps, full=False)


@dataclass(frozen=True, slots=True)
class TransformerCarry:
    """The KV cache of each layer, the slots they share, and the length of each row's history.

    Every leaf has a row per batch. Without autograd a step writes into the caches it is given. The
    older carry stays valid until a slot that it needs is overwritten: it can be continued again,
    but two continuations cannot alternate, nor can it be used once the slots have wrapped around.
    """

    caches: tuple[KVCache, ...]
    slots: Slots
    length: Int[Tensor, " B"]
    known: KnownSlots | None = None

    @property
    def known_slots(self) -> KnownSlots | None:
        """What is known of these very slots."""
        known = self.known
        return known if known is not None and known.slots is self.slots else None

    def surely_fits(self, steps: int) -> bool:
        """Whether so many more steps fit, as far as is known without reading the slots."""
        known = self.known_slots
        return known is not None and known.number + steps <= self.slots.held.shape[1]


class PreNormBlock(nn.Module):
    """Attention and a feed-forward network, each reading a norm of its input and added to it."""

    def __init__(
        self,
        attention: Attention,
        feedforward: nn.Module,
        norm: Callable[[int], nn.Module],
        dropout: float,
    ) -> None:
        super().__init__()
        self.attention_norm = norm(attention.width)
        self.attention = attention
        self.feedforward_norm = norm(attention.width)
        self.feedforward = feedforward
        self.dropout = Dropout(dropout)

    def forward(
        self, x: Float[Tensor, "B T D"], cache: KVCache, attend: Attend
    ) -> tuple[Float[Tensor, "B T D"], KVCache]:
        attended, cache = attend(self.attention, self.attention_norm(x), cache)
        x = x + self.dropout(attended)
        return x + self.dropout(self.feedforward(self.feedforward_norm(x))), cache


class PostNormBlock(nn.Module):
    """Attention and a feed-forward network, each added to its input; the sums are normed."""

    def __init__(
        self,
        attention: Attention,
        feedforward: nn.Module,
        norm: Callable[[int], nn.Module],
        dropout: float,
    ) -> None:
        super().__init__()
        self.attention = attention
        self.attention_norm = norm(attention.width)
        self.feedforward = feedforward
        self.feedforward_norm = norm(attention.width)
        self.dropout = Dropout(dropout)

    def forward(
        self, x: Float[Tensor, "B T D"], cache: KVCache, attend: Attend
    ) -> tuple[Float[Tensor, "B T D"], KVCache]:
        attended, cache = attend(self.attention, x, cache)
        x = self.attention_norm(x + self.dropout(attended))
        return self.feedforward_norm(x + self.dropout(self.feedforward(x))), cache


class TransformerStack(nn.Module):
    """Blocks in which a step attends to itself and the `window - 1` steps before it.

    Members make the `blocks`, and override `embed` and `finish` for learned positions and norms at
    the ends. `rotary` is the size of heads with rotary positions.
    """

    blocks: nn.ModuleList

    def __init__(self, width: int, window: int, rotary: int | None = None) -> None:
        super().__init__()
        self.width, self.window, self.rotary = width, window, rotary

    def embed(self, x: Float[Tensor, "B T D"], length: Int[Tensor, "B T"]) -> Tensor:
        """The first block's input, given the number of steps before each in its history."""
        return x

    def finish(self, x: Float[Tensor, "B T D"]) -> Tensor:
        return x

    def initial(self, batch: int, steps: int | None = None) -> TransformerCarry:
        """With a slot for each of the steps to come, at most a window of them.

        If more steps come than announced, the cache holds the latest.
        """
        size = self.window if steps is None else max(1, min(self.window, steps))
        caches = tuple(block.attention.initial(batch, size) for block in self.stack())
        device = next(self.parameters()).device
        held = torch.full((batch, size), -1, dtype=torch.long, device=device)
        start = held.new_zeros(batch)
        slots = Slots(held, start)
        known = KnownSlots(slots, 0, full=True) if eager_on_device(held) else None
        return TransformerCarry(caches, slots, start.clone(), known)

    def step(
        self, x: Float[Tensor, "B D"], carry: TransformerCarry
    ) -> tuple[Float[Tensor, "B D"], TransformerCarry]:
        known = self._known(x, carry)
        y, carry = self.extend(x[:, None], carry) if known is None else self._step(x, carry, known)
        return y.squeeze(1), carry

    def _known(self, x: Float[Tensor, "B D"], carry: TransformerCarry) -> KnownSlots | None:
        """What is known of the slots, if a step may write to the next one without autograd."""
        learns = self.training or torch.is_grad_enabled()
        if learns or self.rotary is not None:
            return None
        known = carry.known_slots
        if not eager_on_device(x) and not eager_without_autocast(x):
            return None
        if known is None and not eager_on_device(x):
            known = know_slots(carry.slots)
        return known if known and known.number < carry.slots.held.shape[1] else None

    def _step(
        self, x: Float[Tensor, "B D"], carry: TransformerCarry, known: KnownSlots
    ) -> tuple[Float[Tensor, "B 1 D"], TransformerCarry]:
        """`extend` by one step, all rows of which go to the same slot, in fewer calls."""
        number, length = known.number, carry.length
        held = carry.slots.held.clone()
        held[:, number] = number
        mask = None if known.full else (held[:, : number + 1] >= 0)[:, None, None]

        def attend(attention: Attention, x: Tensor, cache: KVCache) -> tuple[Tensor, KVCache]:
            return attention.step(x, cache, number, mask), cache

        y, caches = self._run(self.embed(x[:, None], length[:, None]), carry.caches, attend)
        slots = Slots(held, carry.slots.next + 1)
        after = KnownSlots(slots, number + 1, known.full)
        return y, TransformerCarry(caches, slots, length + 1, after)

    def extend(
        self, x: Float[Tensor, "B T D"], carry: TransformerCarry
    ) -> tuple[Float[Tensor, "B T D"], TransformerCarry]:
        """Steps in one pass that copies no cache; more than one must fit into free slots."""
        steps, known = x.shape[1], carry.known_slots if eager_on_device(x) else None
        plan = plan_write(carry.slots, steps, None if known is None else known.number)
        rotation = None if self.rotary is None else rotate_to(plan.step, self.rotary, x.dtype)
        length = carry.length[:, None] + torch.arange(steps, device=x.device)

        def attend(attention: Attention, x: Tensor, cache: KVCache) -> tuple[Tensor, KVCache]:
            return attention.extend(x, cache, plan, rotation)

        y, caches = self._run(self.embed(x, length), carry.caches, attend)
        after = known and known.after(plan.slots, steps)
        return y, TransformerCarry(caches, plan.slots, carry.length + steps, after)

    def scan(
        self, x: Float[Tensor, "B T D"], reset: Bool[Tensor, "B T"], carry: TransformerCarry
    ) -> tuple[Float[Tensor, "B T D"], TransformerCarry]:
        plan = plan_scan(carry.slots, reset, self.window, x.dtype)
        step = carry.slots.next[:, None] + torch.arange(x.shape[1], device=x.device)
        rotation = None if self.rotary is None else rotate_to(step, self.rotary, x.dtype)
        length = steps_since_reset(reset, carry.length)

        def attend(attention: Attention, x: Tensor, cache: KVCache) -> tuple[Tensor, KVCache]:
            return attention.scan(x, cache, plan, rotation)

        y, caches = self._run(self.embed(x, length), carry.caches, attend)
        known = carry.known_slots if eager_on_device(x) else None
        after = known and known.after(plan.slots, x.shape[1])
        return y, TransformerCarry(caches, plan.slots, length[:, -1] + 1, after)

    def _run(
        self, x: Float[Tensor, "B T D"], caches: tuple[KVCache, ...], attend: Attend
    ) -> tuple[Float[Tensor, "B T D"], tuple[KVCache, ...]]:
        after = []
        for block, cache in zip(self.stack(), caches, strict=True):
            x, cache = block(x, cache, attend)
            after.append(cache)
        return self.finish(x), tuple(after)

    def stack(self) -> Iterable[PreNormBlock | PostNormBlock]:
        return cast(Iterable[PreNormBlock | PostNormBlock], self.blocks)


def know_slots(slots: Slots) -> KnownSlots | None:
    """None if rows are at different steps."""
    numbers = slots.next.tolist()
    if min(numbers, default=0) != max(numbers, default=1):
        return None
    full = bool((slots.held[:, : numbers[0]] >= 0).all())
    return KnownSlots(slots, numbers[0], full)


def forget(rows: Bool[Tensor, " B"], blank: Carry, carry: Carry) -> Carry:
    """The blank carry in some rows, the other one elsewhere.

    Rows of a transformer keep their number of steps: all rows go on writing to the same slot, and
    no cache is copied, unless a scan in low precision made it.
    """
    if not isinstance(carry, TransformerCarry):
        return where_rows(rows, blank, carry)
    caches = map_tensors(lambda made, empty: made.to(empty.dtype), carry.caches, blank.caches)
    slots = Slots(carry.slots.held.masked_fill(rows[:, None], -1), carry.slots.next)
    known = carry.known_slots if eager_on_device(rows) else None
    after = known and known.after(slots, 0)
    return TransformerCarry(caches, slots, carry.length.masked_fill(rows, 0), after)


def add_positions(
    x: Float[Tensor, "B T D"], length: Int[Tensor, "B T"], table: nn.Embedding
) -> Float[Tensor, "B T D"]:
    """Steps beyond the table share its last position."""
    return x + cast(Tensor, table(length.clamp(max=table.num_embeddings - 1)))


def steps_since_reset(reset: Bool[Tensor, "B T"], length: Int[Tensor, " B"]) -> Int[Tensor, "B T"]:
    """The number of steps before each in its history, which has `length` steps at the start."""
    step = torch.arange(reset.shape[1], device=reset.device)
    last = torch.where(reset, step, -1).cummax(1).values
    return torch.where(last >= 0, step - last, length[:, None] + step)


def check_heads(width: int, heads: int) -> None:
    if width % heads:
        raise UserError(f"heads={heads} of the transformer must divide its width {width}")
