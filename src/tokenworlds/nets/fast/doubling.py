"""Upsampling and the convolution after it, as one operation on the small map."""

from einops import rearrange
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional


class Doubling(nn.Conv2d):
    """Nearest-neighbour upsampling by 2, then a convolution that keeps the size; `kernel` is odd.

    Only four of the nine cells under a 3x3 kernel differ, and nine of the 25 under a 5x5 one. Both
    steps together are therefore one transposed convolution, whose kernel holds the sums of weights
    that meet the same cell.
    """

    def __init__(self, before: int, after: int, kernel: int = 3) -> None:
        super().__init__(before, after, kernel, padding=kernel // 2)

    def forward(self, input: Float[Tensor, "B C h w"]) -> Float[Tensor, "B D H W"]:
        flipped = rearrange(self.weight.flip(-1, -2), "after before h w -> before after h w")
        reach = self.kernel_size[0] // 2
        summed = sum_neighbours(flipped)
        return functional.conv_transpose2d(input, summed, self.bias, stride=2, padding=reach)


def plain_doubling(layer: Doubling, maps: Float[Tensor, "B C h w"]) -> Float[Tensor, "B D H W"]:
    upsampled = functional.interpolate(maps, scale_factor=2, mode="nearest")
    return functional.conv2d(upsampled, layer.weight, layer.bias, padding="same")


def sum_neighbours(weight: Float[Tensor, "D C k k"]) -> Float[Tensor, "D C k1 k1"]:
    """The sums over all 2x2 windows of the zero-padded kernel."""
    padded = functional.pad(weight, (1, 1, 1, 1))
    rows = padded[..., :-1, :] + padded[..., 1:, :]
    return rows[..., :-1] + rows[..., 1:]
