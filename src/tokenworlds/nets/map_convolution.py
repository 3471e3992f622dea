"""Convolutions of small maps by way of their frequencies.

A convolution is a product at each frequency of maps that are padded by the reach of the kernel, so
that nothing wraps around. On 6x6 sites with a kernel of 5x5 that takes a sixth of the products.
It pays for maps of many channels: the way to the frequencies and back has its price.
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

from tokenworlds.nets.eager import plain_on_cpu

Grid = tuple[int, int]
Maps = Float[Tensor, "B C H W"]
Convolved = Float[Tensor, "B D H W"]
Convolve = Callable[[Maps], Convolved]
Spectrum = Float[Tensor, "two F C D"]
"""Of the kernels: the real parts, then the imaginary ones."""
MANY = 2**20
WORTHWHILE = 2.0
"""How many times as many products a plain convolution must take for the detour to pay."""


@dataclass(frozen=True, slots=True)
class Waves:
    """Maps to frequencies and back, as matrices; a frequency and its mirror image are one."""

    read: Float[Tensor, "q S"]
    """Real and imaginary part of each frequency, then the same of i times the map."""
    taps: Float[Tensor, "p K"]
    write: Float[Tensor, "S p"]
    count: int


@cache
def frequencies(grid: Grid, kernel: int) -> tuple[Grid, ...]:
    """One of each pair that real maps cannot tell apart."""
    height, width = padded(grid, kernel)
    places = product(range(height), range(width))
    return tuple(at for at in places if at <= (-at[0] % height, -at[1] % width))


def padded(grid: Grid, kernel: int) -> Grid:
    """The smallest size at which a kernel on one border does not see the other."""
    return grid[0] + kernel // 2, grid[1] + kernel // 2


@cache
def waves(grid: Grid, kernel: int, dtype: torch.dtype, device: torch.device) -> Waves:
    """The matrices for maps and kernels of these sizes."""
    size, found = padded(grid, kernel), frequencies(grid, kernel)
    sites, taps = angles(found, size, grid, 0), angles(found, size, (kernel, kernel), kernel // 2)
    real, imaginary = sites.cos(), -sites.sin()
    # What is its own mirror image stands for one frequency, all others for two.
    alone = [all(2 * k % n == 0 for k, n in zip(at, size, strict=True)) for at in found]
    weight = (2 - torch.tensor(alone).double()).unsqueeze(-1) / (size[0] * size[1])
    read = torch.stack([real, imaginary, -imaginary, real]).unflatten(0, (2, 2))
    back = [weight * real, weight * imaginary]

    def finish(matrix: Tensor) -> Tensor:
        return matrix.to(device, dtype).contiguous()

    return Waves(
        read=finish(rearrange(read, "two part f s -> (two f part) s")),
        taps=finish(rearrange([taps.cos(), taps.sin()], "two f k -> (two f) k")),
        write=finish(rearrange(back, "part f s -> s (f part)")),
        count=len(found),
    )


def angles(found: Sequence[Grid], size: Grid, places: Grid, origin: int) -> Float[Tensor, "F S"]:
    """The angle of each frequency at each place, in double precision."""
    rows, columns = (torch.arange(n, dtype=torch.float64) - origin for n in places)
    turns = [
        rearrange(down * rows / size[0], "h -> h 1") + across * columns / size[1]
        for down, across in found
    ]
    return 2 * torch.pi * rearrange(turns, "f h w -> f (h w)")


class Ledger(list[tuple[Tensor, Tensor]]):
    """What kernels have read and what was wanted of them, of every use since they were made."""

    def close(self) -> tuple[Float[Tensor, "two F R C"], Float[Tensor, "F D R"]]:
        """All uses as one, which are then forgotten."""
        read, wanted = zip(*self, strict=True)
        self.clear()
        if len(read) == 1:
            return read[0], wanted[0].transpose(1, 2)
        return torch.cat(read, dim=2), torch.cat(wanted, dim=1).transpose(1, 2)


def transform(weight: Float[Tensor, "D C h w"], at: Waves) -> Spectrum:
    """The frequencies of kernels."""
    taps = rearrange(weight, "d c h w -> (h w) (c d)")
    return (at.taps @ taps).view(2, at.count, weight.shape[1], weight.shape[0])


def analyse(maps: Float[Tensor, "S B C"], at: Waves) -> Float[Tensor, "two F part_B C"]:
    """The frequencies of maps, twice: as the kernels' real parts read them, and their others."""
    return (at.read @ maps.flatten(1)).view(2, at.count, -1, maps.shape[-1])


def multiply(read: Tensor, spectrum: Spectrum, at: Waves) -> Float[Tensor, "B S D"]:
    """The maps that are written at all frequencies, map by map."""
    found = torch.bmm(read[0], spectrum[0]).baddbmm_(read[1], spectrum[1])
    maps = rearrange(found, "f (part b) d -> b (f part) d", part=2)
    return torch.bmm(at.write.expand(len(maps), -1, -1), maps)


class Transform(Function):
    """Kernels to frequencies; their gradient is made of all uses at once, when all are known."""

    @staticmethod
    def forward(ctx: Any, weight: Tensor, at: Waves, ledger: Ledger) -> Spectrum:
        """The spectrum."""
        ctx.at, ctx.ledger, ctx.shape = at, ledger, weight.shape
        ctx.set_materialize_grads(False)
        return transform(weight, at)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, nothing: None) -> tuple[Tensor, None, None]:
        """Products of what was read and what was wanted, back to taps."""
        read, wanted = ctx.ledger.close()
        # With outputs first the taps come out as the weights lie.
        spectrum = wanted.new_empty(2, *wanted.shape[:2], read.shape[-1])
        for part, out in zip(read, spectrum, strict=True):
            torch.bmm(wanted, part, out=out)
        taps = spectrum.view(2 * ctx.at.count, -1).t() @ ctx.at.taps
        return taps.view(ctx.shape), None, None


class Multiply(Function):
    """A convolution with kernels that were transformed; leaves their gradient to the ledger."""

    @staticmethod
    def forward(
        ctx: Any, maps: Float[Tensor, "S B C"], spectrum: Spectrum, at: Waves, ledger: Ledger
    ) -> Float[Tensor, "B S D"]:
        """The convolved maps."""
        read = analyse(maps, at)
        ctx.save_for_backward(read, spectrum)
        ctx.at, ctx.ledger = at, ledger
        return multiply(read, spectrum, at)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, wanted: Tensor) -> tuple[Tensor | None, None, None, None]:
        """The gradient of the maps."""
        read, spectrum = ctx.saved_tensors
        at = ctx.at
        by_site = rearrange(wanted, "b s d -> s (b d)")
        found = (at.write.t() @ by_site).view(at.count, -1, wanted.shape[-1])
        if ctx.needs_input_grad[1]:
            ctx.ledger.append((read, found))
        if not ctx.needs_input_grad[0]:
            return None, None, None, None
        back = torch.stack([torch.bmm(found, part.transpose(1, 2)) for part in spectrum])
        maps = at.read.t() @ back.view(4 * at.count, -1)
        return maps.view(-1, len(wanted), back.shape[-1]), None, None, None


def convolve(
    maps: Maps, spectrum: Spectrum, bias: Float[Tensor, " D"] | None, at: Waves, ledger: Ledger
) -> Convolved:
    """Maps with the channels of a site side by side in memory."""
    height = maps.shape[2]
    sites = rearrange(maps, "b c h w -> (h w) b c").contiguous()
    found = cast(Tensor, Multiply.apply(sites, spectrum, at, ledger))  # type: ignore[no-untyped-call]
    rows = found if bias is None else found + bias
    return rearrange(rows, "b (h w) d -> b d h w", h=height)


class MapConvolution(nn.Conv2d):
    """Keeps the size of maps; goes by their frequencies where that pays."""

    def __init__(self, inputs: int, outputs: int, kernel: int, *, bias: bool = False) -> None:
        super().__init__(inputs, outputs, kernel, padding=kernel // 2, bias=bias)

    def prepare(self, grid: Grid, number: int = MANY) -> Convolve:
        """The convolution with the present weights, for so many maps of this size."""
        kernel, weight = self.kernel_size[0], self.weight
        sizes = (grid, kernel, self.in_channels, self.out_channels)
        if not (pays(*sizes, number) and plain_on_cpu(weight)):
            return super().forward
        at, ledger = waves(grid, kernel, weight.dtype, weight.device), Ledger()
        spectrum = cast(Tensor, Transform.apply(weight, at, ledger))  # type: ignore[no-untyped-call]
        return partial(convolve, spectrum=spectrum, bias=self.bias, at=at, ledger=ledger)

    def forward(self, maps: Maps) -> Convolved:
        """One use."""
        number, _, height, width = maps.shape
        return self.prepare((height, width), number)(maps)


def pays(grid: Grid, kernel: int, inputs: int, outputs: int, number: int) -> bool:
    """Whether products at all frequencies, and on the way there and back, are few enough for this
    number of maps, which share the way of the kernels."""
    if number == 0:
        return False
    sites, parts = grid[0] * grid[1], 2 * len(frequencies(grid, kernel))
    plain = inputs * outputs * prod(meetings(length, kernel) for length in grid)
    detour = parts * (2 * inputs * outputs + 2 * sites * inputs + sites * outputs)
    kernels = parts * kernel**2 * inputs * outputs
    return WORTHWHILE * (detour + kernels / number) < plain


def meetings(length: int, kernel: int) -> int:
    """How often a tap of a line meets a site of it, and not the padding."""
    offsets = range(-(kernel // 2), kernel // 2 + 1)
    return sum(max(length - abs(offset), 0) for offset in offsets)


def beside(*maps: Float[Tensor, "*rest _ H W"]) -> Float[Tensor, "*rest C H W"]:
    """The channels of maps one after the other, those of a site side by side in memory."""
    return torch.cat([each.movedim(-3, -1) for each in maps], dim=-1).movedim(-1, -3)
