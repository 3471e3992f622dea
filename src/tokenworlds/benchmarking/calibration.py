"""The unit `cal`: what a fixed workload takes on this machine, at this moment, in this process.

It is a convolution forward and backward and some products of matrices, which is what most of the
time of an update is spent on. Seconds move with the machine and its other users, cal hardly does.
"""

import statistics
from dataclasses import dataclass
from time import perf_counter

import torch
from torch import nn

from tokenworlds.benchmarking.timing import Clock, summarise, time_once

REPEATS = 5
BATCH, SIDE = 64, 32
INPUTS, OUTPUTS, KERNEL, STRIDE = 64, 128, 5, 2
MATMULS, WIDTH = 20, 1024
SITES = ((SIDE - KERNEL) // STRIDE + 1) ** 2
# Forward, and back to the weights; the input is data and asks for no gradient.
CONVOLUTION_FLOPS = 2 * 2 * BATCH * SITES * OUTPUTS * INPUTS * KERNEL**2
MATMUL_FLOPS = MATMULS * 2 * WIDTH**3


@dataclass(frozen=True, slots=True)
class Calibration:
    """The seconds of one cal, and what the machine reached: operations in a second, by kind.

    `spread` is half the distance of the quartiles, as a share of the seconds.
    """

    seconds: float
    spread: float
    matmul: float
    convolution: float


def join(before: Calibration, after: Calibration) -> Calibration:
    """Of what was computed between the two: a machine that others share is now fast, now slow.

    How far the two are apart is part of the spread.
    """
    both = (before, after)
    seconds = statistics.mean(each.seconds for each in both)
    apart = abs(after.seconds - before.seconds) / 2 / seconds
    return Calibration(
        seconds=seconds,
        spread=max(apart, *(each.spread for each in both)),
        matmul=statistics.harmonic_mean([each.matmul for each in both]),
        convolution=statistics.harmonic_mean([each.convolution for each in both]),
    )


class Workload:
    """The tensors that are computed with."""

    def __init__(self) -> None:
        self.layer = nn.Conv2d(INPUTS, OUTPUTS, KERNEL, stride=STRIDE)
        self.image = torch.randn(BATCH, INPUTS, SIDE, SIDE)
        self.left, self.right = torch.randn(WIDTH, WIDTH), torch.randn(WIDTH, WIDTH)

    def convolve(self) -> None:
        """Forward and backward."""
        self.layer.zero_grad(set_to_none=True)
        self.layer(self.image).sum().backward()

    def multiply(self) -> None:
        """Each product is thrown away."""
        for _ in range(MATMULS):
            torch.mm(self.left, self.right)


def calibrate(clock: Clock = perf_counter) -> Calibration:
    """Time the workload, as the median of five after one that does not count."""
    workload = Workload()
    workload.convolve()
    workload.multiply()
    times = [
        (time_once(workload.convolve, clock), time_once(workload.multiply, clock))
        for _ in range(REPEATS)
    ]
    convolution, matmul = (statistics.median(part) for part in zip(*times, strict=True))
    whole = summarise([sum(both) for both in times])
    return Calibration(
        seconds=whole.median,
        spread=whole.spread,
        matmul=MATMUL_FLOPS / matmul,
        convolution=CONVOLUTION_FLOPS / convolution,
    )
