"""Group norm and SiLU as one step, which keeps for its gradient what it was given, and no more."""

from typing import Any, cast

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional


class NormedSiLU(nn.GroupNorm):
    """SiLU of a group norm.

    Autograd would keep the map between the two, a third of the memory that a stack of
    convolutions learns with; computing it once more takes a hundredth of an update's time.
    """

    def forward(self, input: Float[Tensor, "B C *sites"]) -> Float[Tensor, "B C *sites"]:
        """A map of the same size."""
        if torch.is_grad_enabled() and not torch.is_autocast_enabled(input.device.type):
            weights = (self.weight, self.bias, self.num_groups, self.eps)
            return cast(Tensor, Recomputed.apply(input, *weights))  # type: ignore[no-untyped-call]
        return functional.silu(super().forward(input), inplace=not torch.is_grad_enabled())


class Recomputed(torch.autograd.Function):
    """The norm's map is made again when gradients are asked for."""

    @staticmethod
    def forward(
        ctx: Any, maps: Tensor, weight: Tensor, bias: Tensor, groups: int, epsilon: float
    ) -> Tensor:
        """Keep the map, its means and its deviations."""
        sizes = (*maps.shape[:2], maps[0, 0].numel(), groups)
        normed, mean, deviation = torch.native_group_norm(maps, weight, bias, *sizes, epsilon)
        ctx.save_for_backward(maps, weight, bias, mean, deviation)
        ctx.sizes, ctx.epsilon = sizes, epsilon
        return functional.silu(normed, inplace=True)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, Tensor, None, None]:
        """Of the map, the weight and the bias."""
        maps, weight, bias, mean, deviation = ctx.saved_tensors
        normed, *_ = torch.native_group_norm(maps, weight, bias, *ctx.sizes, ctx.epsilon)
        # In the order of the map: a mix of two orders takes several times as long.
        inner = torch.empty_like(normed)
        torch.ops.aten.silu_backward.grad_input(grad, normed, grad_input=inner)
        statistics = (mean, deviation, weight)
        grads = torch.ops.aten.native_group_norm_backward(
            inner, maps, *statistics, *ctx.sizes, [True, True, True]
        )
        return (*grads, None, None)
