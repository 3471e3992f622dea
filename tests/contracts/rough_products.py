"""Autocast as a device with bfloat16 has it, on processors that take seconds for a convolution."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from torch.overrides import TorchFunctionMode

PRODUCTS: set[Callable[..., Any]] = {
    *(functional.linear, functional.conv2d, functional.conv_transpose2d),
    *(functional.scaled_dot_product_attention, torch.einsum),
    *(torch.matmul, torch.mm, torch.bmm, torch.addmm, torch.baddbmm),
    *(Tensor.matmul, Tensor.__matmul__, Tensor.__rmatmul__, Tensor.mm, Tensor.bmm),
}


class RoughProducts(TorchFunctionMode):
    """Where autocast is on, products read and return bfloat16, and are added up in float32."""

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        if func not in PRODUCTS or not torch.is_autocast_enabled("cpu"):
            return func(*args, **kwargs)
        with torch.autocast("cpu", enabled=False):
            rough = (roughen(arg) for arg in args)
            return func(*rough, **{k: roughen(v) for k, v in kwargs.items()}).bfloat16()


def roughen(value: Any) -> Any:
    """Numbers with the digits of bfloat16, be they in a list."""
    if isinstance(value, list | tuple):
        return type(value)(roughen(each) for each in value)
    if isinstance(value, Tensor) and value.is_floating_point():
        return value.bfloat16().float()
    return value
