"""Where it costs nothing to look at a tensor's content before the next operation is chosen."""

import torch
from torch import Tensor


def eager_on_cpu(x: Tensor) -> bool:
    """Whether operations on this run at once, here: no device to wait for, no graph to break."""
    return x.device.type == "cpu" and not torch.compiler.is_compiling()


def plain_on_cpu(x: Tensor) -> bool:
    """The same, in the precision of what is computed with: kernels of our own know no other."""
    return eager_on_cpu(x) and not torch.is_autocast_enabled("cpu")
