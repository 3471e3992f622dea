"""Maps and frames to vectors for policies without memory: the networks of SWM and of DQN."""

import math
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from einops import rearrange
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from tokenworlds.core.config import Component, ConfigOf
from tokenworlds.core.errors import UserError
from tokenworlds.nets.fast.map_convolution import MapConvolution

Shape = tuple[int, int, int]


@runtime_checkable
class PolicyNetwork(Protocol):
    """Built from the `shape` of what it reads: channels, height, width."""

    width: int

    def __call__(self, x: Float[Tensor, "B C H W"]) -> Float[Tensor, "B D"]:
        """A vector for each map."""
        ...


class MapNorm(nn.LayerNorm):
    """A norm over the whole of a map, the channels of whose sites lie side by side."""

    def forward(self, maps: Float[Tensor, "B C H W"]) -> Float[Tensor, "B C H W"]:
        """A map that lies in memory as it did."""
        scale, shift = (each.movedim(0, -1).contiguous() for each in (self.weight, self.bias))
        sites = maps.movedim(1, -1)
        normed = functional.layer_norm(sites, scale.shape, scale, shift, self.eps)
        return normed.movedim(-1, 1)


class GridNetwork(nn.Module, Component):
    """Two convolutions that keep the map, then a linear layer (Smaller World Models).

    On a map of one site, with a kernel of 1, all layers are linear.
    """

    @dataclass(frozen=True, kw_only=True, slots=True)
    class Config(ConfigOf["GridNetwork"]):
        """Choices; the kernel is that of the second convolution, the first has 1."""

        filters: int = 64
        kernel: int = 5
        width: int = 512

    def __init__(self, config: Config, *, shape: Shape) -> None:
        super().__init__()
        if config.kernel % 2 == 0:
            raise UserError(f"kernel={config.kernel} moves the map: it takes an odd number")
        self.width = config.width
        channels, *grid = shape
        filters = config.filters
        self.layers = nn.Sequential()
        for before, kernel in ((channels, 1), (filters, config.kernel)):
            layer = MapConvolution(before, filters, kernel)
            self.layers.extend([layer, MapNorm([filters, *grid]), nn.LeakyReLU(inplace=True)])
        flat = filters * math.prod(grid)
        self.output = nn.Sequential(nn.Linear(flat, config.width), nn.LeakyReLU())

    def forward(self, x: Float[Tensor, "B C H W"]) -> Float[Tensor, "B D"]:
        """A vector for each map."""
        read: Tensor = self.output(rearrange(self.layers(x), "b c h w -> b (c h w)"))
        return read


class FrameNetwork(nn.Module, Component):
    """Strided convolutions, then a linear layer (Mnih et al., 2015)."""

    @dataclass(frozen=True, kw_only=True, slots=True)
    class Config(ConfigOf["FrameNetwork"]):
        """Choices, layer by layer. `orthogonal` weights, with biases of 0, are the habit of PPO."""

        filters: tuple[int, ...] = (32, 64, 64)
        kernels: tuple[int, ...] = (8, 4, 3)
        strides: tuple[int, ...] = (4, 2, 1)
        width: int = 512
        orthogonal: bool = True

        def __post_init__(self) -> None:
            if not len(self.filters) == len(self.kernels) == len(self.strides):
                raise UserError(
                    f"filters={self.filters}, kernels={self.kernels} and strides={self.strides} "
                    "take one number for each layer"
                )

    def __init__(self, config: Config, *, shape: Shape) -> None:
        super().__init__()
        self.width = config.width
        height, width = size_left(config, shape)
        self.layers = nn.Sequential()
        before = shape[0]
        for layer in zip(config.filters, config.kernels, config.strides, strict=True):
            self.layers.extend([nn.Conv2d(before, *layer), nn.ReLU()])
            before = layer[0]
        self.output = nn.Sequential(nn.Linear(before * height * width, config.width), nn.ReLU())
        if config.orthogonal:
            self.apply(make_orthogonal)

    def forward(self, x: Float[Tensor, "B C H W"]) -> Float[Tensor, "B D"]:
        """A vector for each frame in [0, 1]."""
        read: Tensor = self.output(rearrange(self.layers(x), "b c h w -> b (c h w)"))
        return read


def size_left(config: FrameNetwork.Config, shape: Shape) -> tuple[int, int]:
    """Height and width of the map that convolutions leave of a frame."""
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
    """Weights that keep lengths through a ReLU, and no biases."""
    if isinstance(module, nn.Conv2d | nn.Linear):
        nn.init.orthogonal_(module.weight, math.sqrt(2.0))
        if module.bias is not None:
            nn.init.zeros_(module.bias)
