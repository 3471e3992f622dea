"""Positions told by turning features in pairs (Su et al., 2021)."""

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

ROTARY_BASE = 10_000.0
TURN = 2**24
"""Parts of a full turn. Angles are whole numbers of parts, hence exact however long a run is."""


@dataclass(frozen=True, slots=True)
class Rotation:
    """Cosines and sines of the angles at some positions."""

    cosine: Float[Tensor, "*batch 1 1 half"]
    sine: Float[Tensor, "*batch 1 1 half"]

    def __call__(
        self, x: Float[Tensor, "*batch parts heads size"]
    ) -> Float[Tensor, "*batch parts heads size"]:
        """Turn each pair of features by its angle."""
        first, second = x.chunk(2, -1)
        turned = first * self.cosine - second * self.sine
        return torch.cat([turned, second * self.cosine + first * self.sine], -1)


def rotate_to(position: Int[Tensor, "*batch"], size: int, dtype: torch.dtype) -> Rotation:
    """The rotation at each position, for heads of this size."""
    exponent = torch.arange(0, size, 2, device=position.device, dtype=torch.float32) / size
    speed = (ROTARY_BASE**-exponent * (TURN / math.tau)).round().long()
    parts = (position % TURN)[..., None, None, None] * speed % TURN
    angle = parts.to(torch.promote_types(dtype, torch.float32)) * (math.tau / TURN)
    return Rotation(angle.cos().to(dtype), angle.sin().to(dtype))
