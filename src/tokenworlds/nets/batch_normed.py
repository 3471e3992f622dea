"""A convolution and the batch norm behind it, which are one while nothing learns."""

from typing import cast

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.utils.fusion import fuse_conv_bn_weights


class BatchNormed(nn.Module):
    """Convolution, batch norm and activation.

    Outside of training the norm is a linear map of each channel: two linear maps in a row are one,
    which takes a pass over the map less.
    """

    def __init__(self, convolution: nn.Conv2d, activation: nn.Module) -> None:
        super().__init__()
        self.convolution = convolution
        self.norm = nn.BatchNorm2d(convolution.out_channels)
        self.activation = activation

    def forward(self, maps: Float[Tensor, "B C H W"]) -> Float[Tensor, "B D h w"]:
        """A map."""
        if self.training or torch.is_grad_enabled():
            return cast(Tensor, self.activation(self.norm(self.convolution(maps))))
        weight, bias = self._joined()
        return cast(Tensor, self.activation(self.convolution._conv_forward(maps, weight, bias)))

    def _joined(self) -> tuple[Tensor, Tensor]:
        layer, norm = self.convolution, self.norm
        mean, variance = cast(Tensor, norm.running_mean), cast(Tensor, norm.running_var)
        scale = (norm.eps, norm.weight, norm.bias)
        return fuse_conv_bn_weights(layer.weight, layer.bias, mean, variance, *scale)
