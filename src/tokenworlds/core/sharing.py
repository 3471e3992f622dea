"""Arithmetic on a batch whose rows are spread over the ranks of a group.

Inside `sharing`, each rank computes with its own rows, and these functions make the result that of
the whole batch: means and sums cover all rows, and random numbers are drawn for all rows, of which
each rank keeps its own. Elsewhere, and in a run of one process, the rows here are the whole batch.

Losses are the same number on all ranks. The gradient that a rank computes is the part of it that
flows through its own rows; `sum_gradients` adds the parts.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any, cast

import torch
from jaxtyping import Bool
from torch import Generator, Tensor

from tokenworlds.core.errors import UserError
from tokenworlds.core.group import Group


@dataclass(frozen=True, slots=True)
class Share:
    """The rows of a batch from `start` to `stop`, of `total`."""

    start: int
    stop: int
    total: int

    def __len__(self) -> int:
        return self.stop - self.start

    @property
    def rows(self) -> slice:
        return slice(self.start, self.stop)

    def within(self, first: int, last: int) -> "Share":
        """The part of this share that lies in some rows of the batch, as a share of those."""
        start, stop = (min(max(row, first), last) - first for row in (self.start, self.stop))
        return Share(start, stop, last - first)


@dataclass(frozen=True, slots=True)
class Shared:
    """A batch that is spread over a group."""

    group: Group
    share: Share


_shared: Shared | None = None


def share_of(group: Group, rows: int) -> Share:
    """The rows of this rank: shares are consecutive and differ by at most one row."""
    return Share(rows * group.rank // group.size, rows * (group.rank + 1) // group.size, rows)


def check_shares(group: Group, rows: int, what: str) -> None:
    """Raise `UserError` if a rank would have no row."""
    if rows < group.size:
        raise UserError(f"{what}={rows} is too small for {group.size} ranks: each needs a row")


@contextmanager
def sharing(group: Group, share: Share) -> Iterator[None]:
    """Within the block, batches hold this share of the rows."""
    global _shared
    before, _shared = _shared, None if group.size == 1 else Shared(group, share)
    try:
        yield
    finally:
        _shared = before


def is_shared() -> bool:
    return _shared is not None


def first_rows(count: int, here: int) -> int:
    """How many of the rows here are among the first `count` of the batch."""
    return min(count, here) if _shared is None else len(_shared.share.within(0, count))


def all_rows(here: int) -> int:
    """How many rows the batch has, of which some are here."""
    return here if _shared is None else _shared.share.total


def share_here(rows: int) -> Share:
    """Where the rows of a tensor are in that of the whole batch.

    Each row of the batch may be several of the tensor, which folds later axes into its first.
    """
    if _shared is None:
        return Share(0, rows, rows)
    share = _shared.share
    each = rows // len(share) if len(share) else 1
    if each * len(share) != rows:
        raise ValueError(f"{rows} rows do not belong to {len(share)} rows of a batch")
    return Share(each * share.start, each * share.stop, each * share.total)


def among(first: int, last: int) -> AbstractContextManager[None]:
    """Within the block, work on those rows of the batch alone."""
    if _shared is None:
        return nullcontext()
    return sharing(_shared.group, _shared.share.within(first, last))


def among_chosen(chosen: Bool[Tensor, "*rest"]) -> AbstractContextManager[None]:
    """Within the block, work on the chosen entries, whose number differs between ranks."""
    if _shared is None:
        return nullcontext()
    group, here = _shared.group, chosen.sum().reshape(1)
    counts = cast(list[int], group.concatenate(here).tolist())
    start = sum(counts[: group.rank])
    return sharing(group, Share(start, start + counts[group.rank], sum(counts)))


def any_row(chosen: Bool[Tensor, "*rest"]) -> bool:
    """Whether any entry is set, here or on another rank."""
    return bool(total(chosen.any().float()) > 0 if is_shared() else chosen.any())


def total(value: Tensor) -> Tensor:
    """The sum over all ranks of a number that each computed from its rows.

    All ranks then compute the same with it, so its gradient is also that of each rank's part.
    """
    if _shared is None:
        return value
    found: Tensor = Total.apply(value, _shared.group)  # type: ignore[no-untyped-call]
    return found


class Total(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, value: Tensor, group: Group) -> Tensor:
        return group.sum(value)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        return grads[0], None


def joint_total(value: Tensor) -> Tensor:
    """The same for statistics that each rank applies to its own rows, as batch norms do.

    The gradient of the loss is then spread over the ranks, and summed.
    """
    if _shared is None:
        return value
    found: Tensor = JointTotal.apply(value, _shared.group)  # type: ignore[no-untyped-call]
    return found


class JointTotal(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, value: Tensor, group: Group) -> Tensor:
        ctx.group = group
        return group.sum(value)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        return ctx.group.sum(grads[0]), None


def mean(values: Tensor) -> Tensor:
    """The mean over all entries of the batch."""
    if _shared is None:
        return values.mean()
    count = values.new_tensor(float(values.numel()))
    summed, count = total(torch.stack([values.sum(), count])).unbind()
    return summed / count


def gathered(rows: Tensor, axis: int = 0) -> Tensor:
    """The rows of all ranks, without gradients."""
    if _shared is None:
        return rows
    return _shared.group.concatenate(rows.movedim(axis, 0)).movedim(0, axis)


def own_part(rows: Tensor) -> Tensor:
    """This rank's part of rows that all ranks have, such as the indices of a minibatch."""
    return rows if _shared is None else rows[share_of(_shared.group, len(rows)).rows]


def draw(random: Callable[[Tensor], Tensor], like: Tensor) -> Tensor:
    """Apply a random function to the whole batch, and keep this rank's rows.

    The first axis of `like` is that of the batch, alone or with later axes folded into it. The
    function sees zeros in the place of rows that are not here.
    """
    if _shared is None:
        return random(like)
    share = share_here(len(like))
    whole = like.new_zeros((share.total, *like.shape[1:]))
    whole[share.rows] = like.detach()
    return random(whole)[share.rows]


def rand(
    shape: Sequence[int],
    *,
    generator: Generator | None = None,
    dtype: torch.dtype | None = None,
    device: torch.device | None = None,
) -> Tensor:
    """`torch.rand` for the rows of this rank."""
    if _shared is None:
        return torch.rand(shape, generator=generator, dtype=dtype, device=device)
    return draw(
        lambda like: torch.rand(
            like.shape, generator=generator, dtype=like.dtype, device=like.device
        ),
        torch.empty(shape, dtype=dtype, device=device),
    )


def sum_gradients(parameters: Iterable[Tensor]) -> None:
    """Add the gradients of all ranks. A parameter that none has a gradient of keeps none."""
    if _shared is None:
        return
    named = list(parameters)
    present = named[0].new_tensor([float(each.grad is not None) for each in named])
    parts = [torch.zeros_like(each) if each.grad is None else each.grad for each in named]
    flat = _shared.group.sum(torch.cat([present, *(part.flatten() for part in parts)]))
    known, *sums = flat.split([len(named), *(each.numel() for each in named)])
    for parameter, found, has in zip(named, sums, known.tolist(), strict=True):
        if has:
            parameter.grad = torch.empty_like(parameter).copy_(found.view_as(parameter))
