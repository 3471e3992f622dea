"""Convolution stacks: memory layout, group norm with SiLU, batch norm folded at inference."""

from math import prod
from typing import Any, cast

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils.fusion import fuse_conv_bn_weights

from tokenworlds.core.sharing import is_shared, joint_total, total
from tokenworlds.nets.fast.narrow import NormChannels, tiles_narrow

Maps = Float[Tensor, "B C H W"]

CHUNK = 256
"""Maps convolved at a time at inference."""
aten = torch.ops.aten
group_norm: Any = aten.native_group_norm


def lay_out(maps: Maps, learning: torch.memory_format = torch.contiguous_format) -> Maps:
    """Copy the maps to the memory format that a CPU convolves fastest; layers keep that format.

    Channels last at inference. With gradients `learning` applies: the backward pass of a group norm
    is several times slower with channels last. Other devices choose for themselves.
    """
    if maps.device.type != "cpu":
        return maps
    layout = learning if torch.is_grad_enabled() else torch.channels_last
    return maps.contiguous(memory_format=layout)


def convolve(
    layers: nn.Module,
    maps: Maps,
    learning: torch.memory_format = torch.contiguous_format,
    chunk: int = CHUNK,
) -> Float[Tensor, "B D h w"]:
    """Run a stack in its fastest layout, at inference in chunks that bound the memory.

    In training mode a batch norm must see the whole batch.
    """
    if torch.is_grad_enabled() or layers.training or len(maps) <= chunk:
        return cast(Tensor, layers(lay_out(maps, learning)))
    return torch.cat([layers(lay_out(part)) for part in maps.split(chunk)])


def plain_convolve(layers: nn.Module, maps: Maps) -> Float[Tensor, "B D h w"]:
    return cast(Tensor, layers(maps))


class ConvolutionStack(nn.Module):
    """Layers that run in the memory format in which they learn fastest."""

    layers: nn.Sequential
    layout = torch.contiguous_format
    chunk = CHUNK

    def forward(self, maps: Maps) -> Float[Tensor, "B D h w"]:
        return convolve(self.layers, maps, self.layout, self.chunk)


class NormedSiLU(nn.GroupNorm):
    """Group norm and SiLU, recomputing the norm in the backward pass.

    Autograd would store the map between the two: a third of the memory of a convolution stack.
    Recomputing it takes a hundredth of the time of an update.
    """

    def forward(self, input: Maps) -> Maps:
        if torch.is_grad_enabled() and tiles_narrow(input, self.num_groups):
            affine = (self.weight, self.bias, self.eps)
            return cast(Tensor, NormChannels.apply(input, *affine))  # type: ignore[no-untyped-call]
        if torch.is_grad_enabled() and not torch.is_autocast_enabled(input.device.type):
            weights = (self.weight, self.bias, self.num_groups, self.eps)
            maps = make_dense(input)
            return cast(Tensor, RecomputedNorm.apply(maps, *weights))  # type: ignore[no-untyped-call]
        return functional.silu(super().forward(input), inplace=not torch.is_grad_enabled())


def plain_normed_silu(layer: nn.GroupNorm, maps: Maps) -> Maps:
    normed = functional.group_norm(maps, layer.num_groups, layer.weight, layer.bias, layer.eps)
    return functional.silu(normed)


def make_dense(maps: Maps) -> Maps:
    """Copy maps with gaps in memory; devices other than CPUs may support one layout only."""
    if maps.device.type != "cpu":
        return maps.contiguous()
    layouts = (torch.contiguous_format, torch.channels_last)
    dense = any(maps.is_contiguous(memory_format=layout) for layout in layouts)
    return maps if dense else maps.contiguous()


class RecomputedNorm(torch.autograd.Function):
    """Saves the input, its means and its deviations, but not the normed map."""

    @staticmethod
    def forward(
        ctx: Any, maps: Tensor, weight: Tensor, bias: Tensor, groups: int, epsilon: float
    ) -> Tensor:
        sizes = (*maps.shape[:2], prod(maps.shape[2:]), groups)
        normed, mean, deviation = group_norm(maps, weight, bias, *sizes, epsilon)
        ctx.save_for_backward(maps, weight, bias, mean, deviation)
        ctx.sizes, ctx.epsilon = sizes, epsilon
        return functional.silu(normed, inplace=True)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, Tensor, None, None]:
        maps, weight, bias, mean, deviation = ctx.saved_tensors
        normed, *_ = group_norm(maps, weight, bias, *ctx.sizes, ctx.epsilon)
        # In the layout of the map: mixing two layouts takes several times as long.
        inner = torch.empty_like(normed)
        aten.silu_backward.grad_input(grad, normed, grad_input=inner)
        saved = (maps, mean, deviation, weight, *ctx.sizes)
        grads = aten.native_group_norm_backward(inner, *saved, [True, True, True])
        return (*grads, None, None)


class BatchNorm(nn.BatchNorm2d):
    """A batch norm whose statistics are those of the whole batch, on all ranks."""

    def forward(self, input: Maps) -> Maps:
        if not (self.training and is_shared()):
            return super().forward(input)
        axes = (0, 2, 3)
        count = total(input.new_tensor(float(input.numel() // input.shape[1])))
        mean = joint_total(input.float().sum(axes)) / count
        centred = input.float() - mean.view(1, -1, 1, 1)
        variance = joint_total(centred.square().sum(axes)) / count
        with torch.no_grad():
            share = cast(float, self.momentum)
            cast(Tensor, self.num_batches_tracked).add_(1)
            cast(Tensor, self.running_mean).lerp_(mean, share)
            cast(Tensor, self.running_var).lerp_(variance * (count / (count - 1)), share)
        scale = self.weight * (variance + self.eps).rsqrt()
        normed = centred * scale.view(1, -1, 1, 1) + self.bias.view(1, -1, 1, 1)
        return normed.to(input.dtype)


class BatchNormed(nn.Module):
    """Convolution, batch norm and activation; at inference the norm is folded into the kernel."""

    def __init__(self, convolution: nn.Conv2d, activation: nn.Module) -> None:
        super().__init__()
        self.convolution = convolution
        self.norm = BatchNorm(convolution.out_channels)
        self.activation = activation

    def forward(self, maps: Maps) -> Float[Tensor, "B D h w"]:
        if self.training or torch.is_grad_enabled():
            return plain_batch_normed(self, maps)
        weight, bias = self._folded()
        return cast(Tensor, self.activation(self.convolution._conv_forward(maps, weight, bias)))

    def _folded(self) -> tuple[Tensor, Tensor]:
        layer, norm = self.convolution, self.norm
        mean, variance = cast(Tensor, norm.running_mean), cast(Tensor, norm.running_var)
        scale = (norm.eps, norm.weight, norm.bias)
        return fuse_conv_bn_weights(layer.weight, layer.bias, mean, variance, *scale)


def plain_batch_normed(layer: BatchNormed, maps: Maps) -> Float[Tensor, "B D h w"]:
    return cast(Tensor, layer.activation(layer.norm(layer.convolution(maps))))
