"""Wide convolutions of small maps in the frequency domain.

A convolution is a product at each frequency of maps that are padded by the reach of the kernel, so
that nothing wraps around. On 6x6 cells with a 5x5 kernel that takes a sixth of the products. It
pays for maps of many channels only, because the transforms have a cost of their own.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from itertools import product
from math import prod
from typing import Any, cast

import torch
from einops import rearrange
from jaxtyping import Float
from torch import Tensor, nn
from torch.autograd import Function
from torch.autograd.function import once_differentiable
from torch.nn import functional

from tokenworlds.nets.fast import eager_without_autocast

Grid = tuple[int, int]
Maps = Float[Tensor, "B C H W"]
Convolved = Float[Tensor, "B D H W"]
Convolve = Callable[[Maps], Convolved]
Spectrum = Float[Tensor, "two F C D"]
"""Kernels in the frequency domain: real parts, then imaginary ones."""
MANY = 2**20
MIN_SAVING = 2.0
"""How many times fewer products the frequency domain must take to be chosen."""


@dataclass(frozen=True, slots=True)
class Fourier:
    """Transforms of maps and kernels as matrices; each pair of mirrored frequencies is one."""

    maps: Float[Tensor, "q S"]
    """Real and imaginary part of each frequency, then the same of i times the map."""
    kernel: Float[Tensor, "p K"]
    inverse: Float[Tensor, "S p"]
    count: int


@cache
def frequencies(grid: Grid, kernel: int) -> tuple[Grid, ...]:
    """One frequency of each mirrored pair, which real maps cannot tell apart."""
    height, width = padded(grid, kernel)
    pairs = product(range(height), range(width))
    return tuple(at for at in pairs if at <= (-at[0] % height, -at[1] % width))


def padded(grid: Grid, kernel: int) -> Grid:
    """The smallest size at which a kernel on one border does not reach the other."""
    return grid[0] + kernel // 2, grid[1] + kernel // 2


@cache
def fourier(grid: Grid, kernel: int, dtype: torch.dtype, device: torch.device) -> Fourier:
    size, found = padded(grid, kernel), frequencies(grid, kernel)
    cells, taps = angles(found, size, grid, 0), angles(found, size, (kernel, kernel), kernel // 2)
    real, imaginary = cells.cos(), -cells.sin()
    # A frequency that is its own mirror image stands for one, all others for two.
    alone = [all(2 * k % n == 0 for k, n in zip(at, size, strict=True)) for at in found]
    weight = (2 - torch.tensor(alone).double()).unsqueeze(-1) / (size[0] * size[1])
    forward = torch.stack([real, imaginary, -imaginary, real]).unflatten(0, (2, 2))
    back = [weight * real, weight * imaginary]

    def finish(matrix: Tensor) -> Tensor:
        return matrix.to(device, dtype).contiguous()

    return Fourier(
        maps=finish(rearrange(forward, "two part f s -> (two f part) s")),
        kernel=finish(rearrange([taps.cos(), taps.sin()], "two f k -> (two f) k")),
        inverse=finish(rearrange(back, "part f s -> s (f part)")),
        count=len(found),
    )


def angles(found: Sequence[Grid], size: Grid, cells: Grid, origin: int) -> Float[Tensor, "F S"]:
    """The angle of each frequency at each cell, in double precision."""
    rows, columns = (torch.arange(n, dtype=torch.float64) - origin for n in cells)
    turns = [
        rearrange(down * rows / size[0], "h -> h 1") + across * columns / size[1]
        for down, across in found
    ]
    return 2 * torch.pi * rearrange(turns, "f h w -> f (h w)")


class Uses(list[tuple[Tensor, Tensor]]):
    """Input and output gradient, in the frequency domain, of every use of a transformed kernel."""

    def take(self) -> tuple[Float[Tensor, "two F R C"], Float[Tensor, "F D R"]]:
        """All uses as one batch; the list is empty afterwards."""
        inputs, gradients = zip(*self, strict=True)
        self.clear()
        if len(inputs) == 1:
            return inputs[0], gradients[0].transpose(1, 2)
        return torch.cat(inputs, dim=2), torch.cat(gradients, dim=1).transpose(1, 2)


class TransformKernel(Function):
    """Its backward pass makes the kernel's gradient from all uses at once."""

    @staticmethod
    def forward(ctx: Any, weight: Tensor, matrices: Fourier, uses: Uses) -> Spectrum:
        ctx.matrices, ctx.uses, ctx.shape = matrices, uses, weight.shape
        ctx.set_materialize_grads(False)
        taps = rearrange(weight, "d c h w -> (h w) (c d)")
        return (matrices.kernel @ taps).view(2, matrices.count, weight.shape[1], weight.shape[0])

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, nothing: None) -> tuple[Tensor, None, None]:
        inputs, gradients = ctx.uses.take()
        # With outputs first the taps come out in the layout of the weights.
        spectrum = gradients.new_empty(2, *gradients.shape[:2], inputs.shape[-1])
        for part, out in zip(inputs, spectrum, strict=True):
            torch.bmm(gradients, part, out=out)
        taps = spectrum.view(2 * ctx.matrices.count, -1).t() @ ctx.matrices.kernel
        return taps.view(ctx.shape), None, None


class Multiply(Function):
    """A convolution with a transformed kernel, whose gradient it leaves to `TransformKernel`."""

    @staticmethod
    def forward(
        ctx: Any, maps: Float[Tensor, "S B C"], spectrum: Spectrum, matrices: Fourier, uses: Uses
    ) -> Float[Tensor, "B S D"]:
        # Twice: as the real parts of kernels multiply the maps, and as the imaginary parts do.
        inputs = (matrices.maps @ maps.flatten(1)).view(2, matrices.count, -1, maps.shape[-1])
        ctx.save_for_backward(inputs, spectrum)
        ctx.matrices, ctx.uses = matrices, uses
        found = torch.bmm(inputs[0], spectrum[0]).baddbmm_(inputs[1], spectrum[1])
        back = rearrange(found, "f (part b) d -> b (f part) d", part=2)
        return torch.bmm(matrices.inverse.expand(len(back), -1, -1), back)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, None, None, None]:
        inputs, spectrum = ctx.saved_tensors
        matrices = ctx.matrices
        by_cell = rearrange(grad, "b s d -> s (b d)")
        found = (matrices.inverse.t() @ by_cell).view(matrices.count, -1, grad.shape[-1])
        if ctx.needs_input_grad[1]:
            ctx.uses.append((inputs, found))
        if not ctx.needs_input_grad[0]:
            return None, None, None, None
        back = torch.stack([torch.bmm(found, part.transpose(1, 2)) for part in spectrum])
        maps = matrices.maps.t() @ back.view(4 * matrices.count, -1)
        return maps.view(-1, len(grad), back.shape[-1]), None, None, None


def convolve_frequencies(
    maps: Maps,
    spectrum: Spectrum,
    bias: Float[Tensor, " D"] | None,
    matrices: Fourier,
    uses: Uses,
) -> Convolved:
    """The result is channels last in memory."""
    height = maps.shape[2]
    cells = rearrange(maps, "b c h w -> (h w) b c").contiguous()
    found = cast(Tensor, Multiply.apply(cells, spectrum, matrices, uses))  # type: ignore[no-untyped-call]
    rows = found if bias is None else found + bias
    return rearrange(rows, "b (h w) d -> b d h w", h=height)


class MapConvolution(nn.Conv2d):
    """A convolution that keeps the size of maps, in the frequency domain where that pays."""

    def __init__(self, inputs: int, outputs: int, kernel: int, *, bias: bool = False) -> None:
        super().__init__(inputs, outputs, kernel, padding=kernel // 2, bias=bias)

    def prepare(self, grid: Grid, number: int = MANY) -> Convolve:
        """The convolution with the present weights, for `number` maps of this size."""
        kernel, weight = self.kernel_size[0], self.weight
        sizes = (grid, kernel, self.in_channels, self.out_channels)
        if not (pays(*sizes, number) and eager_without_autocast(weight)):
            return partial(plain_map_convolution, self)
        matrices, uses = fourier(grid, kernel, weight.dtype, weight.device), Uses()
        spectrum = cast(Tensor, TransformKernel.apply(weight, matrices, uses))  # type: ignore[no-untyped-call]
        return partial(
            convolve_frequencies, spectrum=spectrum, bias=self.bias, matrices=matrices, uses=uses
        )

    def forward(self, maps: Maps) -> Convolved:
        number, _, height, width = maps.shape
        return self.prepare((height, width), number)(maps)


def plain_map_convolution(layer: nn.Conv2d, maps: Maps) -> Convolved:
    return functional.conv2d(maps, layer.weight, layer.bias, padding=layer.kernel_size[0] // 2)


def pays(grid: Grid, kernel: int, inputs: int, outputs: int, number: int) -> bool:
    """Whether transforms and products at all frequencies are few enough for this number of maps,
    which share the transform of the kernel."""
    if number == 0:
        return False
    cells, parts = grid[0] * grid[1], 2 * len(frequencies(grid, kernel))
    plain = inputs * outputs * prod(overlaps(length, kernel) for length in grid)
    fast = parts * (2 * inputs * outputs + 2 * cells * inputs + cells * outputs)
    kernels = parts * kernel**2 * inputs * outputs
    return MIN_SAVING * (fast + kernels / number) < plain


def overlaps(length: int, kernel: int) -> int:
    """How many pairs of a tap and a cell of a line do not fall on the padding."""
    offsets = range(-(kernel // 2), kernel // 2 + 1)
    return sum(max(length - abs(offset), 0) for offset in offsets)


def concat_channels(*maps: Float[Tensor, "*rest _ H W"]) -> Float[Tensor, "*rest C H W"]:
    """Concatenate maps along the channels, channels last in memory."""
    return torch.cat([each.movedim(-3, -1) for each in maps], dim=-1).movedim(-1, -3)
