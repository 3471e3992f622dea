"""A context in which tensors of the CPU have no numbers, and the bytes that they would take count.

Code takes the branches of the CPU. Nothing is computed, so that an update of any size takes the
time of its Python calls.
"""

import weakref
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode, return_and_correct_aliasing
from torch.utils._pytree import tree_leaves, tree_map_only
from torch.utils.weak import WeakIdKeyDictionary

from tokenworlds.benchmarking.hollow import run_hollow, wrap

Module = TypeVar("Module", bound=nn.Module)
aten = torch.ops.aten
FLASH = 1
"""Torch's number for attention as one operation, which the CPU would choose."""


class HollowTensor(torch.Tensor):
    """Claims to be on the CPU; `held` is the meta tensor of its shape."""

    held: Tensor

    @staticmethod
    def __new__(cls, held: Tensor) -> "HollowTensor":
        wrapper: HollowTensor = wrap(cls, held, torch.device("cpu"))
        return wrapper

    def __init__(self, held: Tensor) -> None:
        pass

    def __repr__(self, **kwargs: Any) -> str:  # type: ignore[override]
        return f"hollow({list(self.shape)}, {self.dtype})"

    def tolist(self) -> Any:
        nothing: Any = 0 if self.dtype in (torch.long, torch.int32) else 0.0
        for size in reversed(self.shape):
            nothing = [nothing] * size
        return nothing

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]
        cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        return run(func, args, kwargs or {})


class HollowCPU(TorchDispatchMode):
    """Tensors made inside are hollow. `most` is the most bytes that were alive at once."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.now = self.most = 0
        self._known = WeakIdKeyDictionary()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = run(func, args, kwargs or {})
        for made in tree_leaves(result):
            if isinstance(made, HollowTensor):
                self._count(made.held.untyped_storage())
        return result

    def know(self, tensors: Iterable[Tensor]) -> None:
        """Do not count tensors that were made before, when they are written to."""
        for each in tensors:
            if isinstance(each, HollowTensor):
                self._known[each.held.untyped_storage()] = 0

    def _count(self, storage: torch.UntypedStorage) -> None:
        if storage in self._known:
            return
        size = self._known[storage] = storage.nbytes()
        self.now += size
        self.most = max(self.most, self.now)
        weakref.finalize(storage, self._free, size)

    def _free(self, size: int) -> None:
        self.now -= size


def run(func: Any, args: Any, kwargs: Mapping[str, Any]) -> Any:
    if func is aten._fused_sdp_choice.default:
        return FLASH
    # Nothing leaves the CPU here: a `device` is always this one.
    given = {name: value for name, value in kwargs.items() if name != "device"}
    makes = "device" in {argument.name for argument in func._schema.arguments}
    if makes:
        given["device"] = torch.device("meta")
    inner = tree_map_only(HollowTensor, lambda x: x.held, (args, given))
    result = run_hollow(func, *inner)
    wrapped = tree_map_only(Tensor, HollowTensor, result)
    hollow = any(isinstance(each, HollowTensor) for each in tree_leaves((args, kwargs)))
    return return_and_correct_aliasing(func, args, dict(kwargs), wrapped) if hollow else wrapped


def hollow_module(module: Module) -> Module:
    """A module built on the meta device, with hollow parameters and buffers in its place."""
    made: dict[int, Tensor] = {}

    def hollow(tensor: Tensor) -> Tensor:
        if id(tensor) not in made:
            made[id(tensor)] = HollowTensor(tensor.detach())
        return made[id(tensor)]

    for part in module.modules():
        for name, parameter in part._parameters.items():
            if parameter is not None:
                learns = parameter.requires_grad
                part._parameters[name] = nn.Parameter(hollow(parameter), requires_grad=learns)
        for name, buffer in part._buffers.items():
            part._buffers[name] = None if buffer is None else hollow(buffer)
    return module
