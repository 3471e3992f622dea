"""Readout networks of IRIS's transformer (Micheli et al., 2023) and their GPT-2 initialisation."""

from typing import TypeVar, cast

from jaxtyping import Float
from torch import Tensor, nn

from tokenworlds.core.precision import widen

INITIAL_STD = 0.02

Module = TypeVar("Module", bound=nn.Module)


def small_normal(module: Module) -> Module:
    """Initialise linear layers and embeddings with N(0, 0.02), biases with 0 (GPT-2)."""
    for part in module.modules():
        if isinstance(part, nn.Linear | nn.Embedding):
            nn.init.normal_(part.weight, std=INITIAL_STD)
        if isinstance(part, nn.Linear) and part.bias is not None:
            nn.init.zeros_(part.bias)
    return module


class Readout(nn.Module):
    """Linear, ReLU, linear; the hidden layer is as wide as the input."""

    def __init__(self, width: int, outputs: int) -> None:
        super().__init__()
        self.hidden = small_normal(nn.Linear(width, width))
        self.output = small_normal(nn.Linear(width, outputs))

    def forward(self, x: Float[Tensor, "*rest D"]) -> Float[Tensor, "*rest E"]:
        return widen(cast(Tensor, self.output(self.hidden(x).relu())))
