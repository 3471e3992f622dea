"""Floating-point operations of a piece of work, counted as it runs, forward and backward.

Products of matrices, convolutions and attention are counted; what goes by elements is not.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import torch
from torch.utils.flop_counter import FlopCounterMode

from tokenworlds.benchmarking.calibration import Calibration
from tokenworlds.benchmarking.timing import Act

Shape = Sequence[int]


@dataclass(frozen=True, slots=True)
class Flops:
    """Operations by kind; attention is made of products of matrices."""

    matmul: float
    convolution: float

    @property
    def total(self) -> float:
        """Of both kinds."""
        return self.matmul + self.convolution

    def scaled(self, factor: float) -> "Flops":
        """The same for so many times the work."""
        return Flops(self.matmul * factor, self.convolution * factor)

    def seconds(self, reach: Calibration) -> float:
        """What they would take at the pace of the calibration."""
        return self.matmul / reach.matmul + self.convolution / reach.convolution


def sum_flops(total: Shape, left: Shape, right: Shape, *_: Any, **__: Any) -> int:
    """A product of matrices for each of a batch, added to what is there."""
    return 2 * prod(left) * right[-1]


def attention_flops(
    query: Shape, key: Shape, value: Shape, *_: Any, out_shape: Any = None, **__: Any
) -> int:
    """Two products; what a mask hides is counted too."""
    return 2 * prod(query[:-1]) * key[-2] * (query[-1] + value[-1])


def attention_backward_flops(
    gradient: Shape, query: Shape, key: Shape, value: Shape, *_: Any, **__: Any
) -> int:
    """Five products: the weights anew, then the gradients of weights, query, key and value."""
    return 2 * prod(query[:-1]) * key[-2] * (3 * query[-1] + 2 * value[-1])


class Nowhere:
    """Stands in for the counter's watch over modules, whose hooks stumble over `no_grad`."""

    parents = frozenset({"Global"})

    def __enter__(self) -> None:
        """Nothing is watched."""

    def __exit__(self, *exception: object) -> None:
        """Nothing was watched."""


def count_flops(act: Act) -> Flops:
    """Act once, and count."""
    # The counter of torch knows attention on CUDA only, and no sums that are made in place.
    known = {
        torch.ops.aten.baddbmm_: sum_flops,
        torch.ops.aten._scaled_dot_product_flash_attention_for_cpu: attention_flops,
        torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward: (
            attention_backward_flops
        ),
    }
    counter = FlopCounterMode(display=False, custom_mapping=known)
    counter.mod_tracker = Nowhere()  # type: ignore[assignment]
    with counter:
        act()
    return by_kind({str(name): count for name, count in counter.flop_counts["Global"].items()})


def by_kind(counts: dict[str, int]) -> Flops:
    """Counts of single operations as those of the two kinds."""
    convolution = sum(count for name, count in counts.items() if "conv" in name)
    return Flops(float(sum(counts.values()) - convolution), float(convolution))
