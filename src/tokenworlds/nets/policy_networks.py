"""Networks of policies without memory, on maps and frames: those of SWM and of DQN."""

import math
from dataclasses import dataclass

import torch
from einops import rearrange
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from tokenworlds.core.config import Component, ConfigOf
from tokenworlds.core.errors import UserError
from tokenworlds.nets.fast import eager_on_cpu
from tokenworlds.nets.fast.map_convolution import MapConvolution

Shape = tuple[int, int, int]


class MapNorm(nn.LayerNorm):
    """A layer norm over whole maps that are channels last in memory, and stay so."""

    def forward(self, maps: Float[Tensor, "B C H W"]) -> Float[Tensor, "B C H W"]:
        scale, shift = (each.movedim(0, -1).contiguous() for each in (self.weight, self.bias))
        cells = maps.movedim(1, -1)
        normed = functional.layer_norm(cells, scale.shape, scale, shift, self.eps)
        return normed.movedim(-1, 1)


class MapLeakyReLU(nn.LeakyReLU):
    """A leaky ReLU of maps that are channels last in memory, as their gradients are: torch takes
    thirty times as long where the two differ.

    With autograd it does not overwrite the map, a view of the norm's output: the gradient of a
    view that has been overwritten is in the layout of what it views.
    """

    def forward(self, input: Float[Tensor, "B C H W"]) -> Float[Tensor, "B C H W"]:
        learns = torch.is_grad_enabled()
        maps = functional.leaky_relu(input, self.negative_slope, inplace=not learns)
        if maps.requires_grad and eager_on_cpu(maps):
            maps.register_hook(lambda grad: grad.contiguous(memory_format=torch.channels_last))
        return maps


class GridNetwork(nn.Module, Component):
    """Two convolutions that keep the size of the map, then a linear layer (Smaller World Models).

    On a map of a single cell, with a kernel of 1, all layers are linear.
    """

    @dataclass(frozen=True, kw_only=True, slots=True)
    class Config(ConfigOf["GridNetwork"]):
        """The `kernel` of the second convolution; that of the first is 1."""

        filters: int = 64
        kernel: int = 5
        width: int = 512

    def __init__(self, config: Config, *, shape: Shape) -> None:
        super().__init__()
        if config.kernel % 2 == 0:
            raise UserError(f"kernel={config.kernel} must be odd, so that maps keep their size")
        self.width = config.width
        channels, *grid = shape
        filters = config.filters
        self.layers = nn.Sequential()
        for before, kernel in ((channels, 1), (filters, config.kernel)):
            layer = MapConvolution(before, filters, kernel)
            self.layers.extend([layer, MapNorm([filters, *grid]), MapLeakyReLU()])
        flat = filters * math.prod(grid)
        self.output = nn.Sequential(nn.Linear(flat, config.width), nn.LeakyReLU())

    def forward(self, x: Float[Tensor, "B C H W"]) -> Float[Tensor, "B D"]:
        read: Tensor = self.output(rearrange(self.layers(x), "b c h w -> b (c h w)"))
        return read


class FrameNetwork(nn.Module, Component):
    """Strided convolutions, then a linear layer (Mnih et al., 2015)."""

    @dataclass(frozen=True, kw_only=True, slots=True)
    class Config(ConfigOf["FrameNetwork"]):
        """One number per layer. `orthogonal` weights with biases of 0 are usual for PPO."""

        filters: tuple[int, ...] = (32, 64, 64)
        kernels: tuple[int, ...] = (8, 4, 3)
        strides: tuple[int, ...] = (4, 2, 1)
        width: int = 512
        orthogonal: bool = True

        def __post_init__(self) -> None:
            if not len(self.filters) == len(self.kernels) == len(self.strides):
                raise UserError(
                    f"filters={self.filters}, kernels={self.kernels} and strides={self.strides} "
                    "must have one number for each layer"
                )

    def __init__(self, config: Config, *, shape: Shape) -> None:
        super().__init__()
        self.width = config.width
        height, width = output_size(config, shape)
        self.layers = nn.Sequential()
        before = shape[0]
        for layer in zip(config.filters, config.kernels, config.strides, strict=True):
            self.layers.extend([nn.Conv2d(before, *layer), nn.ReLU()])
            before = layer[0]
        self.output = nn.Sequential(nn.Linear(before * height * width, config.width), nn.ReLU())
        if config.orthogonal:
            self.apply(make_orthogonal)

    def forward(self, x: Float[Tensor, "B C H W"]) -> Float[Tensor, "B D"]:
        read: Tensor = self.output(rearrange(self.layers(x), "b c h w -> b (c h w)"))
        return read


def output_size(config: FrameNetwork.Config, shape: Shape) -> tuple[int, int]:
    """Height and width of the map after all convolutions."""
    _, height, width = shape
    for kernel, stride in zip(config.kernels, config.strides, strict=True):
        height, width = (height - kernel) // stride + 1, (width - kernel) // stride + 1
        if min(height, width) < 1:
            raise UserError(
                f"frames of {shape[1]}x{shape[2]} are too small for kernels={config.kernels} with "
                f"strides={config.strides}: choose fewer or smaller ones, or larger frames"
            )
    return height, width


def make_orthogonal(module: nn.Module) -> None:
    """Orthogonal weights, scaled to keep the norm of activations through a ReLU; biases of 0."""
    if isinstance(module, nn.Conv2d | nn.Linear):
        nn.init.orthogonal_(module.weight, math.sqrt(2.0))
        if module.bias is not None:
            nn.init.zeros_(module.bias)
