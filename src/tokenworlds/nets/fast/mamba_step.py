"""One step of a Mamba-2 layer in few operations, for devices on which each is a launch.

`Mamba2Layer.step` in sequence/mamba2.py is the plain form. The three projections of the input are
one, the taps of the convolution are one operation, and the output is added to the layer's input by
its own matrix product.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional

from tokenworlds.core.precision import full_precision, widen


@dataclass(frozen=True, slots=True)
class MambaWeights:
    """A layer's weights in the layout of its steps.

    `projection` makes gate, convolved channels and step sizes; `rate` is negative.
    """

    projection: Float[Tensor, "D outputs"]
    bias: Float[Tensor, " outputs"]
    sizes: tuple[int, int, int]
    kernel: Float[Tensor, "channels 1 length"]
    kernel_bias: Float[Tensor, " channels"]
    delta_bias: Float[Tensor, " heads"]
    rate: Float[Tensor, " heads"]
    skip: Float[Tensor, " heads"]
    state: int


def mix_step(
    x: Float[Tensor, "B D"],
    taps: Float[Tensor, "B taps channels"],
    memory: Float[Tensor, "B heads state size"],
    weights: MambaWeights,
) -> tuple[Float[Tensor, "B inner"], Float[Tensor, "B taps channels"], Tensor]:
    """The gated output of a normed input, before its own norm; the taps and the memory after it."""
    # In low precision the product would round the sum: the bias is added after it.
    rough = torch.is_autocast_enabled(x.device.type)
    projected = (
        x @ weights.projection if rough else torch.addmm(weights.bias, x, weights.projection)
    )
    gate, entered, delta = projected.split(weights.sizes, -1)
    with full_precision(x):
        window = torch.cat([taps, entered.to(taps.dtype)[:, None]], 1)
        mixed = functional.conv1d(
            window.mT, weights.kernel, weights.kernel_bias, groups=window.shape[2]
        )
        mixed = functional.silu(widen(mixed.squeeze(2)))
        inner, write, read = mixed.split([gate.shape[1], weights.state, weights.state], -1)
        values = inner.unflatten(1, (memory.shape[1], -1))
        delta = functional.softplus(widen(delta) + weights.delta_bias if rough else delta)
        batch, heads, state, size = memory.shape
        # With the state before the heads, one product reads all of them.
        after = memory.new_empty(batch, state, heads, size)
        decay = (delta * weights.rate).exp()[:, None, :, None]
        torch.mul(memory.transpose(1, 2), decay, out=after)
        after.addcmul_(write[:, :, None, None], (values * delta[..., None])[:, None])
        y = (read[:, None] @ after.flatten(2)).view(batch, heads, size)
        y = torch.addcmul(y, values, weights.skip[:, None])
    gated = functional.silu(gate) * y.flatten(1).to(x.dtype)
    return gated, window[:, 1:], after.transpose(1, 2)
