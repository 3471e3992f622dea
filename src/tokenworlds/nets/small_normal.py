"""Small weights to begin with, as GPT-2 has them (Radford et al., 2019)."""

from typing import TypeVar

from torch import nn

SCALE = 0.02

Module = TypeVar("Module", bound=nn.Module)


def small_normal(module: Module) -> Module:
    """Draw every linear layer and embedding of a module from N(0, 0.02), with biases of zero."""
    for part in module.modules():
        if isinstance(part, nn.Linear | nn.Embedding):
            nn.init.normal_(part.weight, std=SCALE)
        if isinstance(part, nn.Linear) and part.bias is not None:
            nn.init.zeros_(part.bias)
    return module
