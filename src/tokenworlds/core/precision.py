"""In how many digits is computed: few where a device is made for it, float32 where they count."""

from contextlib import AbstractContextManager, nullcontext
from typing import Any, Literal

import torch
from jaxtyping import Shaped
from torch import Tensor

from tokenworlds.core.errors import UserError
from tokenworlds.core.process import tiles_are_misreported

Precision = Literal["float32", "bfloat16"]
"""Of matrix products and convolutions; weights, optimisers and losses are in float32 always."""


def computing(device: torch.device, precision: Precision) -> AbstractContextManager[Any]:
    """What is computed inside is in this precision, but for what asks for `full_precision`.

    No weight is kept in bfloat16 for its next use: one that was cast in a dream has no gradient,
    and the lesson drawn from the dream would not move it.
    """
    if precision == "float32":
        return nullcontext()
    return torch.autocast(device.type, torch.bfloat16, cache_enabled=False)


def full_precision(like: Tensor) -> torch.autocast:
    """What is computed inside keeps the precision of its inputs, which are to be widened."""
    return torch.autocast(like.device.type, enabled=False)


def widest(dtype: torch.dtype) -> torch.dtype:
    """At least single precision."""
    return torch.promote_types(dtype, torch.float32)


def widen(x: Shaped[Tensor, "*rest"]) -> Shaped[Tensor, "*rest"]:
    """The same numbers in at least single precision."""
    return x.to(widest(x.dtype))


def best_precision(device: str) -> Precision:
    """What `auto` stands for: bfloat16 on CUDA devices that have it, float32 on all others."""
    return "bfloat16" if device.startswith("cuda") and cuda_has_bfloat16(device) else "float32"


def insist_on_precision(precision: Precision, device: str) -> None:
    """Refuse what a device cannot compute in."""
    if precision == "bfloat16" and (reason := lack_of_bfloat16(device)):
        raise UserError(f"precision 'bfloat16' is not to be had: {reason}; choose float32")


def lack_of_bfloat16(device: str) -> str:
    """Why a device does not compute in bfloat16; nothing if it does."""
    if device.startswith("cuda"):
        return "" if cuda_has_bfloat16(device) else f"{device} has no bfloat16"
    if device != "cpu":
        return f"it is computed on cuda and cpu, not on {device}"
    if tiles_are_misreported():
        return "this processor misreports its tile registers, and using them ends the process"
    return ""


def cuda_has_bfloat16(device: str) -> bool:
    """Whether a CUDA device computes in bfloat16, and not by way of float32."""
    return torch.cuda.get_device_capability(device) >= (8, 0)
