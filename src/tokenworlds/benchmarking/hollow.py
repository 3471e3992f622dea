"""Run operations on tensors that have shapes but no numbers.

Torch's meta tensors do this for most operations. What depends on numbers is made up: a number that
the host reads is 1, a truth value False, a mask selects everything, and `nonzero` finds nothing.
"""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_map

aten = torch.ops.aten
META = torch.device("meta")
MASKED = {aten.index.Tensor, aten.index_put_.default, aten.index_put.default}


def run_hollow(func: Any, args: Any, kwargs: Mapping[str, Any]) -> Any:
    """The result of an operation on meta tensors; on the CPU where `device` asks for it."""
    target = kwargs.get("device")
    if func is aten._local_scalar_dense.default:
        return args[0].dtype != torch.bool and (1.0 if args[0].is_floating_point() else 1)
    if func is aten.equal.default:
        return True
    args, kwargs = tree_map(hollow_out, (args, dict(kwargs)))
    if target is not None and torch.device(target).type == "cpu":
        return torch.zeros(args[0].shape, dtype=kwargs.get("dtype") or args[0].dtype)
    if target is not None:
        kwargs = {**kwargs, "device": META}
    if func in MASKED:
        args = (args[0], [place for index in args[1] for place in places(index)], *args[2:])
    if func is aten.nonzero.default:
        return args[0].new_empty((0, args[0].dim()), dtype=torch.long)
    if func is aten.masked_select.default:
        return args[0].new_empty(args[0].numel())
    return func(*args, **kwargs)


def hollow_out(value: Any) -> Any:
    """A tensor without its numbers; generators are for numbers only."""
    if isinstance(value, Tensor):
        return value.to(META)
    return None if isinstance(value, torch.Generator) else value


def places(index: Tensor | None) -> list[Tensor | None]:
    """The indices that a mask stands for if all of it is set."""
    if index is None or index.dtype != torch.bool:
        return [index]
    return [index.new_empty(index.numel(), dtype=torch.long) for _ in range(index.dim())]


def wrap(kind: type[Tensor], held: Tensor, device: torch.device) -> Any:
    """A tensor of a wrapper class, which has the layout of the held tensor on a claimed device."""
    wrapper: Any = torch.Tensor._make_wrapper_subclass(
        kind,
        held.shape,
        strides=held.stride(),
        storage_offset=held.storage_offset(),
        dtype=held.dtype,
        device=device,
    )
    wrapper.held = held
    return wrapper
