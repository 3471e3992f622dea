"""Weights in a quarter of the space: bytes with a scale for each row of a matrix or kernel."""

from collections.abc import Mapping

import torch
from torch import Tensor

SCALE = ".scale_of_rows"
SMALLEST, SMALLEST_KERNEL = 8192, 512
"""Tensors with fewer numbers stay as they are: biases, norms and codebooks need their precision.
Kernels of convolutions are small, and all of them together large."""


def compress(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Matrices and kernels as int8, rounded to 1/127 of the largest number of each row."""
    found: dict[str, Tensor] = {}
    for name, tensor in weights.items():
        smallest = SMALLEST_KERNEL if tensor.ndim > 2 else SMALLEST
        if tensor.dtype != torch.float32 or tensor.ndim < 2 or tensor.numel() < smallest:
            found[name] = tensor
            continue
        rows = tensor.reshape(len(tensor), -1)
        scale = rows.abs().amax(dim=1).clamp(min=1e-12) / 127
        found[name] = (rows / scale[:, None]).round().to(torch.int8).reshape(tensor.shape)
        found[name + SCALE] = scale
    return found


def expand(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The weights that `compress` rounded, as float32; others are returned as they are."""
    found: dict[str, Tensor] = {}
    for name, tensor in weights.items():
        scale = weights.get(name + SCALE)
        if name.endswith(SCALE) and name.removesuffix(SCALE) in weights:
            continue
        if scale is None or scale.shape != tensor.shape[:1]:
            found[name] = tensor
        else:
            rows = tensor.float().reshape(len(tensor), -1) * scale[:, None].float()
            found[name] = rows.reshape(tensor.shape)
    return found
