"""Group norm and SiLU as one step, which keeps for its gradient what it was given, and no more."""

from math import prod
from typing import Any, cast

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

aten = torch.ops.aten
group_norm: Any = aten.native_group_norm


class NormedSiLU(nn.GroupNorm):
    """SiLU of a group norm.

    Autograd would keep the map between the two, a third of the memory that a stack of
    convolutions learns with; computing it once more takes a hundredth of an update's time.
    """

    def forward(self, input: Float[Tensor, "B C H W"]) -> Float[Tensor, "B C H W"]:
        """A map of the same size."""
        if torch.is_grad_enabled() and not torch.is_autocast_enabled(input.device.type):
            weights = (self.weight, self.bias, self.num_groups, self.eps)
            maps = in_one_piece(input)
            return cast(Tensor, Recomputed.apply(maps, *weights))  # type: ignore[no-untyped-call]
        return functional.silu(super().forward(input), inplace=not torch.is_grad_enabled())


def in_one_piece(maps: Float[Tensor, "B C H W"]) -> Float[Tensor, "B C H W"]:
    """In either order, and copied if in none; other devices than CPUs may know of one only."""
    if maps.device.type != "cpu":
        return maps.contiguous()
    orders = (torch.contiguous_format, torch.channels_last)
    whole = any(maps.is_contiguous(memory_format=order) for order in orders)
    return maps if whole else maps.contiguous()


class Recomputed(torch.autograd.Function):
    """The norm's map is made again when gradients are asked for."""

    @staticmethod
    def forward(
        ctx: Any, maps: Tensor, weight: Tensor, bias: Tensor, groups: int, epsilon: float
    ) -> Tensor:
        """Keep the map, its means and its deviations."""
        sizes = (*maps.shape[:2], prod(maps.shape[2:]), groups)
        normed, mean, deviation = group_norm(maps, weight, bias, *sizes, epsilon)
        ctx.save_for_backward(maps, weight, bias, mean, deviation)
        ctx.sizes, ctx.epsilon = sizes, epsilon
        return functional.silu(normed, inplace=True)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, Tensor, None, None]:
        """Of the map, the weight and the bias."""
        maps, weight, bias, mean, deviation = ctx.saved_tensors
        normed, *_ = group_norm(maps, weight, bias, *ctx.sizes, ctx.epsilon)
        # In the order of the map: a mix of two orders takes several times as long.
        inner = torch.empty_like(normed)
        aten.silu_backward.grad_input(grad, normed, grad_input=inner)
        known = (maps, mean, deviation, weight, *ctx.sizes)
        grads = aten.native_group_norm_backward(inner, *known, [True, True, True])
        return (*grads, None, None)
