"""The processes (ranks) of one data-parallel run, which exchange values in lockstep.

All ranks hold the same weights, replay and generators, and make the same decisions. Rank 0 writes.
A run in one process is a group of one, for which nothing here does anything.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Generic, TypeVar, cast

import torch
from torch import Tensor, distributed

from tokenworlds.core.errors import UserError

Result = TypeVar("Result")
PATIENCE = timedelta(minutes=10)
"""How long another rank is waited for, unless its work may be long."""
LONGEST_WORK = timedelta(days=30)
"""How long rank 0 may work alone. A rank that dies meanwhile is noticed at once all the same."""
LAUNCHED = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
"""The variables that torchrun sets."""


class RankLost(Exception):
    """Another rank has died or does not answer. The run can be resumed."""


@dataclass(frozen=True, slots=True)
class Attempt(Generic[Result]):
    """What one rank's work gave, or the error that it raised."""

    result: Result | None = None
    error: Exception | None = None


@dataclass(frozen=True)
class Group:
    """The ranks of a run, seen from one of them."""

    rank: int = 0
    size: int = 1
    local_rank: int = 0
    quick: Any = None
    """The process group on which ranks exchange values."""
    patient: Any = None
    """The one on which they wait for work of unknown length."""

    @property
    def leads(self) -> bool:
        return self.rank == 0

    def lead(self, work: Callable[[], Result]) -> Result:
        """Rank 0 does the work, the others wait for its result or its error."""
        if self.size == 1:
            return work()
        own: Attempt[Result] = attempt(work) if self.leads else Attempt()
        message = Attempt(own.result, sendable(own.error))
        sent: Attempt[Result] = self._exchange(message, self.patient)[0]
        return self._outcome([own if self.leads else sent])[0]

    def all_do(self, work: Callable[[], Result], patiently: bool = False) -> list[Result]:
        """Every rank does its own work; returns all results. An error of one is raised on all."""
        if self.size == 1:
            return [work()]
        own = attempt(work)
        message = Attempt(own.result, sendable(own.error))
        attempts = self._exchange(message, self.patient if patiently else self.quick)
        attempts[self.rank] = own  # It has the cause of its error.
        return self._outcome(attempts)

    def agree(self, wish: bool) -> bool:
        """Whether any rank wishes it."""
        return (self.size > 1 and any(self._exchange(wish, self.quick))) or wish

    def check_same(self, value: Callable[[], str], what: str) -> None:
        """Raise unless all ranks have the same value: they must never drift apart."""
        if self.size > 1 and len(set(self._exchange(value(), self.quick))) > 1:
            raise RankLost(f"{what} differ between the {self.size} ranks, which stop")

    def place(self, device: str) -> str:
        """The device of this rank."""
        if self.size == 1 or not device.startswith("cuda"):
            return device
        if device != "cuda":
            raise UserError(f"--device {device} cannot be shared by {self.size} ranks: choose cuda")
        return f"cuda:{self.local_rank}"

    def sum(self, value: Tensor) -> Tensor:
        """The sum over all ranks, without gradients."""
        total = value.detach().clone(memory_format=torch.contiguous_format)
        with reporting_losses(self):
            distributed.all_reduce(total)
        return total

    def follow(self, value: Tensor) -> Tensor:
        """The tensor of rank 0."""
        if self.size == 1:
            return value
        told = value.clone(memory_format=torch.contiguous_format)
        with reporting_losses(self):
            distributed.broadcast(told, 0)
        return told

    def concatenate(self, rows: Tensor) -> Tensor:
        """The rows of all ranks, in the order of the ranks, which may have different numbers."""
        if self.size == 1:
            return rows
        lengths = [int(each) for each in self._gather(torch.tensor(len(rows), device=rows.device))]
        padded = rows.new_zeros((max(lengths), *rows.shape[1:]))
        padded[: len(rows)] = rows.detach()
        parts = self._gather(padded)
        return torch.cat([part[:length] for part, length in zip(parts, lengths, strict=True)])

    def _gather(self, value: Tensor) -> list[Tensor]:
        values = [torch.empty_like(value) for _ in range(self.size)]
        with reporting_losses(self):
            distributed.all_gather(values, value)
        return values

    def _exchange(self, value: Any, processes: Any) -> list[Any]:
        values = [None] * self.size
        with reporting_losses(self):
            distributed.all_gather_object(values, value, group=processes)
        return values

    def _outcome(self, attempts: list[Attempt[Result]]) -> list[Result]:
        for each in attempts:
            if each.error is not None:
                raise each.error
        return [cast(Result, each.result) for each in attempts]


ALONE = Group()
_joined = ALONE


def current_group() -> Group:
    """The group that this process has joined."""
    return _joined


@contextmanager
def joined() -> Iterator[Group]:
    """Join the group that torchrun started this process in, if it did."""
    global _joined
    if _joined.size > 1:
        yield _joined
        return
    if not all(name in os.environ for name in LAUNCHED) or int(os.environ["WORLD_SIZE"]) == 1:
        yield ALONE
        return
    try:
        _joined = meet(*(int(os.environ[name]) for name in ("RANK", "WORLD_SIZE")))
        yield _joined
    finally:
        _joined = ALONE
        if distributed.is_initialized():
            distributed.destroy_process_group()


def meet(rank: int, size: int) -> Group:
    """Connect to the other ranks; tensors on CUDA are exchanged by NCCL, all else by Gloo."""
    local, backend = int(os.environ.get("LOCAL_RANK", "0")), "gloo"
    if torch.cuda.is_available():
        torch.cuda.set_device(local)
        backend = "cpu:gloo,cuda:nccl"
    with reporting_losses(Group(rank, size)):
        distributed.init_process_group(backend, timeout=PATIENCE)
        waits = (PATIENCE, LONGEST_WORK)
        made = [distributed.new_group(backend="gloo", timeout=wait) for wait in waits]
    return Group(rank, size, local, *made)


def attempt(work: Callable[[], Result]) -> Attempt[Result]:
    try:
        return Attempt(work())
    except RankLost:
        raise
    except Exception as error:  # It is raised again, on all ranks.
        return Attempt(error=error)


def sendable(error: Exception | None) -> Exception | None:
    """The error, or its text if another process could not rebuild it from its arguments."""
    if error is None or isinstance(error, OSError):
        return error
    try:
        if type(error).__module__.startswith("tokenworlds.") and type(error)(*error.args):
            return error
    except TypeError:
        pass
    kind = UserError if isinstance(error, UserError) else RuntimeError
    return kind(str(error) if kind is UserError else f"{type(error).__name__}: {error}")


@contextmanager
def reporting_losses(group: Group) -> Iterator[None]:
    """Turn an error of the connection to other ranks into one sentence."""
    try:
        yield
    except RuntimeError as error:
        reason = " ".join(str(error).split())
        raise RankLost(
            f"rank {group.rank} of {group.size} has lost another rank, and stops ({reason[:160]})"
        ) from error
