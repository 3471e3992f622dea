"""A causal convolution of each channel on its own, whose taps can be cut off step by step."""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn


class CausalConvolution(nn.Module):
    """The weighted sum of the present and of the last few steps ("taps"), oldest first."""

    def __init__(self, channels: int, length: int) -> None:
        super().__init__()
        bound = length**-0.5
        self.weight = nn.Parameter(torch.empty(length, channels).uniform_(-bound, bound))
        self.bias = nn.Parameter(torch.empty(channels).uniform_(-bound, bound))

    def initial(self, batch: int) -> Float[Tensor, "B taps D"]:
        """Taps of no history."""
        length, channels = self.weight.shape
        return self.weight.new_zeros(batch, length - 1, channels)

    def scan(
        self,
        x: Float[Tensor, "B T D"],
        taps: Float[Tensor, "B taps D"],
        kept: Float[Tensor, "B T taps"],
    ) -> tuple[Float[Tensor, "B T D"], Float[Tensor, "B past D"]]:
        """All steps, each tap times its factor; the second result is taps and inputs in one."""
        extended = torch.cat([taps, x], 1)
        y: Tensor = MaskedConvolution.apply(extended, self.weight, self.bias, kept)  # type: ignore[no-untyped-call]
        return y, extended

    def step(
        self, x: Float[Tensor, "B D"], taps: Float[Tensor, "B taps D"]
    ) -> tuple[Float[Tensor, "B D"], Float[Tensor, "B taps D"]]:
        """One step."""
        y = torch.addcmul(self.bias, x, self.weight[-1])
        for tap, weight in zip(taps.unbind(1), self.weight, strict=False):
            y.addcmul_(tap, weight)
        return y, torch.cat([taps[:, 1:], x[:, None]], 1) if taps.shape[1] else taps


class MaskedConvolution(torch.autograd.Function):
    """Shifted products with a gradient of their own, which needs half of autograd's temporaries."""

    @staticmethod
    def forward(ctx: Any, extended: Tensor, weight: Tensor, bias: Tensor, kept: Tensor) -> Tensor:
        """The present step, then each tap."""
        ctx.save_for_backward(extended, weight, kept)
        steps, taps = kept.shape[1:]
        y = torch.addcmul(bias, extended[:, taps:], weight[-1])
        for tap in range(taps):
            y.addcmul_(extended[:, tap : tap + steps] * kept[..., tap, None], weight[tap])
        return y

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, Tensor, None]:
        """Of the joined input, the weight and the bias."""
        extended, weight, kept = ctx.saved_tensors
        steps, taps = kept.shape[1:]
        to_extended, to_weight = torch.zeros_like(extended), torch.empty_like(weight)
        for tap in range(taps + 1):
            seen = grad * (kept[..., tap, None] if tap < taps else 1.0)
            to_extended[:, tap : tap + steps].addcmul_(seen, weight[tap])
            to_weight[tap] = seen.mul_(extended[:, tap : tap + steps]).sum((0, 1))
        return to_extended, to_weight, grad.sum((0, 1)), None
