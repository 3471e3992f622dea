"""What reads a hidden state of a transformer (IRIS: Micheli et al., 2023)."""

from typing import cast

from jaxtyping import Float
from torch import Tensor, nn

from tokenworlds.core.precision import widen
from tokenworlds.nets.small_normal import small_normal


class Readout(nn.Module):
    """Linear, ReLU, linear; the hidden layer is as wide as what it reads."""

    def __init__(self, width: int, outputs: int) -> None:
        super().__init__()
        self.hidden = small_normal(nn.Linear(width, width))
        self.output = small_normal(nn.Linear(width, outputs))

    def forward(self, x: Float[Tensor, "*rest D"]) -> Float[Tensor, "*rest E"]:
        """Map the last axis; what is read is in full precision."""
        return widen(cast(Tensor, self.output(self.hidden(x).relu())))
