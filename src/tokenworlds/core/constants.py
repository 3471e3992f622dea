"""Tensors that depend on nothing but their size, made once for each device.

A dream of some hundred steps would make them anew at each. They must not be written to.
"""

from collections.abc import Callable
from functools import lru_cache, wraps
from typing import ParamSpec, cast

import torch
from jaxtyping import Float, Int
from torch import Tensor

Arguments = ParamSpec("Arguments")
FORGET: list[Callable[[], None]] = []


def once_per_device(make: Callable[Arguments, Tensor]) -> Callable[Arguments, Tensor]:
    """Keep the results of a function, except for a compiler, whose graph holds them anyway."""
    kept = lru_cache(maxsize=256)(make)
    FORGET.append(kept.cache_clear)
    cached = cast(Callable[Arguments, Tensor], kept)

    @wraps(make)
    def get(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Tensor:
        return (make if torch.compiler.is_compiling() else cached)(*args, **kwargs)

    return get


def forget_constants() -> None:
    for clear in FORGET:
        clear()


@once_per_device
def identity(size: int, device: torch.device) -> Float[Tensor, "size size"]:
    """The one-hots of all indices."""
    return torch.eye(size, device=device)


@once_per_device
def multiples(count: int, factor: int, device: torch.device) -> Int[Tensor, " count"]:
    """0, factor, 2 factor, ..."""
    return torch.arange(count, device=device) * factor


@once_per_device
def spaced(
    low: float, high: float, count: int, dtype: torch.dtype, device: torch.device
) -> Float[Tensor, " count"]:
    """Numbers at equal distances."""
    return torch.linspace(low, high, count, device=device, dtype=dtype)
