"""Precision: bfloat16 on devices that have it, float32 where digits matter."""

from contextlib import AbstractContextManager, nullcontext
from typing import Any, Literal

import torch
from jaxtyping import Shaped
from torch import Tensor

from tokenworlds.core.errors import UserError
from tokenworlds.core.process import tiles_are_misreported

Precision = Literal["float32", "bfloat16"]
"""Of matrix products and convolutions; weights, optimisers and losses are always float32."""


def computing(device: torch.device, precision: Precision) -> AbstractContextManager[Any]:
    """Compute in this precision, except inside `full_precision`.

    Autocast's weight cache is off: a weight cast in a dream has no gradient, and the loss after
    the dream would reuse it.
    """
    if precision == "float32":
        return nullcontext()
    return torch.autocast(device.type, torch.bfloat16, cache_enabled=False)


def full_precision(like: Tensor) -> torch.autocast:
    """Compute in the precision of the inputs, which the caller widens."""
    return torch.autocast(like.device.type, enabled=False)


def widest(dtype: torch.dtype) -> torch.dtype:
    return torch.promote_types(dtype, torch.float32)


def widen(x: Shaped[Tensor, "*rest"]) -> Shaped[Tensor, "*rest"]:
    """Convert to at least float32."""
    return x.to(widest(x.dtype))


def best_precision(device: str) -> Precision:
    """The meaning of `auto`: bfloat16 on CUDA devices that have it, else float32."""
    return "bfloat16" if device.startswith("cuda") and cuda_has_bfloat16(device) else "float32"


def insist_on_precision(precision: Precision, device: str) -> None:
    if precision == "bfloat16" and (reason := lack_of_bfloat16(device)):
        raise UserError(f"precision 'bfloat16' is not available: {reason}; choose float32")


def lack_of_bfloat16(device: str) -> str:
    """Why a device has no bfloat16; empty if it has."""
    if device.startswith("cuda"):
        return "" if cuda_has_bfloat16(device) else f"{device} has no bfloat16"
    if device != "cpu":
        return f"it is computed on cuda and cpu, not on {device}"
    if tiles_are_misreported():
        return "this processor misreports its tile registers, and using them ends the process"
    return ""


def cuda_has_bfloat16(device: str) -> bool:
    return torch.cuda.get_device_capability(device) >= (8, 0)
