"""Rewrites for speed, each beside the plain form (`plain_...`) that it must equal."""

import torch
from torch import Tensor


def eager_on_cpu(x: Tensor) -> bool:
    """Whether reading values of `x` is free: no device to wait for, no graph to break."""
    return x.device.type == "cpu" and not torch.compiler.is_compiling()


def eager_on_device(x: Tensor) -> bool:
    """Whether each operation is a launch on a device, and reading values of `x` waits for it."""
    return x.device.type != "cpu" and not torch.compiler.is_compiling()


def eager_without_autocast(x: Tensor) -> bool:
    """Whether the kernels written here apply: they run on CPUs, in the precision of their input."""
    return eager_on_cpu(x) and not torch.is_autocast_enabled("cpu")
