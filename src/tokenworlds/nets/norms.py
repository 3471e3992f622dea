"""The root mean square norm, in full precision."""

from jaxtyping import Float
from torch import Tensor, nn

from tokenworlds.core.precision import widen


class RMSNorm(nn.RMSNorm):
    """Reads what comes in bfloat16 as the float32 of its own weight.

    Torch does so by itself for the other norms; of this one it would keep to the precision of the
    input, and warn.
    """

    def forward(self, x: Float[Tensor, "*rest D"]) -> Float[Tensor, "*rest D"]:
        """Of the last axis."""
        return super().forward(widen(x))
