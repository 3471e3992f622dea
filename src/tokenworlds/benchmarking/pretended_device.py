"""A second device that computes on the CPU, and refuses operations that mix both devices.

Its tensors are CPU tensors in a wrapper that claims another device. Operations with wrappers, and
calls that make tensors on the device, are redirected to the CPU; a tensor made without `device=`
stays an ordinary CPU tensor, and fails where it meets a wrapper. Code takes the branches of a
device that is not the CPU. Torch keeps a device until the process ends.

A `hollow` device computes nothing: its tensors have shapes but no numbers (hollow.py), so that
batches of any size take no time and no memory.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor
from torch.nn import functional
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode, return_and_correct_aliasing
from torch.utils._pytree import tree_leaves, tree_map_only
from torch.utils.backend_registration import (
    _DummyBackendModule,
    _setup_privateuseone_for_python_backend,
)

from tokenworlds.benchmarking.hollow import run_hollow, wrap
from tokenworlds.core.constants import forget_constants
from tokenworlds.nets import optimisers

NAME = "pretended"
aten = torch.ops.aten
TRANSFERS = {aten.copy_.default, aten._to_copy.default}
"""Operations that may read one device and write the other."""
READ_BY_HOST = {aten._local_scalar_dense.default, aten.equal.default}
"""Operations whose result is no tensor."""


class Watch:
    """Hears of each operation of the device."""

    def operation(self, func: Any, args: Any, kwargs: Mapping[str, Any]) -> None:
        """An operation of torch and its arguments."""

    def fused(self, name: str) -> None:
        """A call that is one operation on a card, and several here, which are not reported."""


class MixedDevices(RuntimeError):
    """An operation got tensors or generators of both devices."""


class PretendedTensor(torch.Tensor):
    """Claims the pretended device; `held` is the CPU tensor with the numbers, or a meta tensor."""

    held: Tensor

    @staticmethod
    def __new__(cls, held: Tensor) -> "PretendedTensor":
        wrapper: PretendedTensor = wrap(cls, held, torch.device(NAME, 0))
        return wrapper

    def __init__(self, held: Tensor) -> None:
        pass

    def __repr__(self, **kwargs: Any) -> str:  # type: ignore[override]
        return f"pretended({self.held!r})"

    def tolist(self) -> Any:
        return self.cpu().tolist()

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]
        cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        return redirect(func, args, kwargs or {})


class PretendedGenerator(torch.Generator):
    """A CPU generator that may claim the pretended device. It replaces `torch.Generator`."""

    claims: bool

    def __new__(cls, device: Any = "cpu") -> "PretendedGenerator":
        claims = torch.device(device).type == NAME
        generator = super().__new__(cls, "cpu" if claims else device)  # type: ignore[call-arg]
        generator.claims = claims
        return generator

    def __init__(self, device: Any = "cpu") -> None:
        pass

    @property
    def device(self) -> torch.device:  # type: ignore[override]
        return torch.device(NAME, 0) if self.claims else torch.device("cpu")


class Redirection(TorchDispatchMode):
    """Sees all operations, those that make tensors from nothing included."""

    def __init__(self, watch: Watch, hollow: bool) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.watch, self.hollow = watch, hollow

    @contextmanager
    def fusing(self, name: str) -> Iterator[None]:
        """Report what follows as one operation."""
        watch, self.watch = self.watch, Watch()
        try:
            yield
        finally:
            self.watch = watch
        watch.fused(name)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return redirect(func, args, kwargs or {}, self.watch, self.hollow)


class Calls(TorchFunctionMode):
    """Sees what no operation sees: which generator was given, `torch.tensor`, and calls that torch
    writes out for a device that it does not know."""

    def __init__(self, redirection: Redirection) -> None:
        super().__init__()
        self.redirection = redirection

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        if func in (torch.tensor, torch.as_tensor):
            target = kwargs.pop("device", None)
            made = func(*args, **kwargs)
            return made if target is None else made.to(target)
        if func in FUSED and any(isinstance(each, PretendedTensor) for each in args):
            with self.redirection.fusing(func.__name__):
                return FUSED[func](*args, **kwargs)
        result = func(*args, **kwargs)
        for each in (*args, *kwargs.values()):
            if isinstance(each, PretendedGenerator) and isinstance(result, Tensor):
                check_generator(func, each, result)
        return result


def lstm_cell(
    x: Tensor, state: tuple[Tensor, Tensor], w_x: Tensor, w_h: Tensor, b_x: Tensor, b_h: Tensor
) -> tuple[Tensor, Tensor]:
    """Written out: the CPU lacks the fused cell that torch uses on other devices."""
    hidden, cell = state
    gates = functional.linear(x, w_x, b_x) + functional.linear(hidden, w_h, b_h)
    enter, keep, candidate, leave = gates.chunk(4, -1)
    cell = keep.sigmoid() * cell + enter.sigmoid() * candidate.tanh()
    return leave.sigmoid() * cell.tanh(), cell


FUSED: dict[Any, Callable[..., Any]] = {
    functional.scaled_dot_product_attention: functional.scaled_dot_product_attention,
    functional.rms_norm: functional.rms_norm,
    torch.lstm_cell: lstm_cell,
}
"""Calls that are one operation on a card, and how they are computed here. Their backward passes are
reported as they are computed."""


def check_generator(func: Any, generator: PretendedGenerator, result: Tensor) -> None:
    if generator.device.type != result.device.type:
        name = getattr(func, "__name__", func)
        raise MixedDevices(f"{name}: {result.device} draws from a generator of {generator.device}")


class Backend(_DummyBackendModule):
    """What torch asks of a device's module."""

    def get_amp_supported_dtype(self) -> list[torch.dtype]:
        return [torch.bfloat16]


@cache
def register() -> None:
    """Give this process the pretended device; cannot be undone."""
    _setup_privateuseone_for_python_backend(NAME, Backend())


@contextmanager
def pretended_device(watch: Watch | None = None, *, hollow: bool = False) -> Iterator[str]:
    """Where the device can be used; gives its name. Optimisers are fused, as on CUDA."""
    register()
    generators = patch.object(torch, "Generator", PretendedGenerator)
    fused = patch.object(optimisers, "FUSED", (*optimisers.FUSED, NAME))
    redirection = Redirection(watch or Watch(), hollow)
    forget_constants()
    try:
        with generators, fused, Calls(redirection), redirection:
            yield NAME
    finally:
        forget_constants()


def redirect(
    func: Any,
    args: Any,
    kwargs: Mapping[str, Any],
    watch: Watch | None = None,
    hollow: bool = False,
) -> Any:
    """Run an operation on the CPU; its results are on the device that a real one would use."""
    on_device = any(isinstance(each, PretendedTensor) for each in tree_leaves((args, kwargs)))
    target = kwargs.get("device")
    lands = on_device if target is None else torch.device(target).type == NAME
    if not on_device and not lands:
        return func(*args, **kwargs)
    if on_device and func not in TRANSFERS:
        check_tensors(func, args, kwargs)
    if watch is not None:
        watch.operation(func, args, kwargs)
    inner = tree_map_only(PretendedTensor, lambda x: x.held, (args, dict(kwargs)))
    result = run_hollow(func, *inner) if hollow else run_on_cpu(func, *inner)
    if func in READ_BY_HOST or not lands:
        return result
    if func is aten.copy_.default and not isinstance(args[0], PretendedTensor):
        return args[0]
    wrapped = tree_map_only(Tensor, PretendedTensor, result)
    return return_and_correct_aliasing(func, args, dict(kwargs), wrapped) if on_device else wrapped


def run_on_cpu(func: Any, args: Any, kwargs: Mapping[str, Any]) -> Any:
    moved = {"device": torch.device("cpu")} if kwargs.get("device") is not None else {}
    return func(*args, **{**kwargs, **moved})


def check_tensors(func: Any, args: Any, kwargs: Mapping[str, Any]) -> None:
    """Like CUDA, accept a CPU tensor beside one of the device only if it is a single number.

    Unlike CUDA, refuse indices on the CPU: they are copied at each call.
    """
    for argument, value in named_arguments(func, args, kwargs):
        single = isinstance(value, Tensor)
        for each in tree_leaves(value):
            if not isinstance(each, Tensor) or isinstance(each, PretendedTensor):
                continue
            written = argument.alias_info is not None and argument.alias_info.is_write
            if each.dim() or written or not single:
                raise MixedDevices(
                    f"{func}: {argument.name} of shape {list(each.shape)} is on {each.device}"
                )


def named_arguments(
    func: Any, args: Any, kwargs: Mapping[str, Any]
) -> Iterator[tuple[torch.Argument, Any]]:
    """Each given value with its place in the operation's signature."""
    yield from zip(func._schema.arguments, args, strict=False)
    for argument in func._schema.arguments:
        if argument.name in kwargs:
            yield argument, kwargs[argument.name]
