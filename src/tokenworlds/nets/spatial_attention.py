"""Residual stacks with attention between the sites of a map (Esser et al., 2021; IRIS)."""

from collections.abc import Sequence
from typing import cast

from einops import rearrange
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from tokenworlds.nets.fast.convolution import convolve
from tokenworlds.nets.residual import Doubling, Residual, finish, groups_of

EPSILON = 1e-6


class SpatialAttention(nn.Module):
    """One head that looks from each site at all of them."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.GroupNorm(groups_of(width), width, eps=EPSILON)
        self.input = nn.Conv2d(width, 3 * width, 1)
        self.output = nn.Conv2d(width, width, 1)

    def forward(self, maps: Float[Tensor, "B D H W"]) -> Float[Tensor, "B D H W"]:
        """A map of the same size."""
        height = maps.shape[-2]
        joint = rearrange(self.input(self.norm(maps)), "b (n d) h w -> n b 1 (h w) d", n=3)
        seen = functional.scaled_dot_product_attention(*joint.unbind(0))
        seen = rearrange(seen, "b 1 (h w) d -> b d h w", h=height)
        return maps + cast(Tensor, self.output(seen))


class Halving(nn.Conv2d):
    """A convolution at every other site, the map being padded below and on the right only."""

    def __init__(self, width: int) -> None:
        super().__init__(width, width, 3, stride=2)

    def forward(self, input: Float[Tensor, "B D H W"]) -> Float[Tensor, "B D h w"]:
        """A map of half the size."""
        return super().forward(functional.pad(input, (0, 1, 0, 1)))


def level(width: int, blocks: int, attends: bool) -> list[nn.Module]:
    """Residual blocks, each followed by attention if the level attends."""
    layers: list[nn.Module] = []
    for _ in range(blocks):
        layers.append(Residual(width, width, EPSILON))
        if attends:
            layers.append(SpatialAttention(width))
    return layers


def middle(width: int) -> list[nn.Module]:
    """What stands at the smallest map: attention between two blocks."""
    return [*level(width, 1, attends=True), Residual(width, width, EPSILON)]


class AttentiveEncoder(nn.Module):
    """Levels of residual blocks, each with half the sites of the one before."""

    def __init__(
        self, channels: int, latent: int, *, width: int, blocks: int, attends: Sequence[bool]
    ) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Conv2d(channels, width, 3, padding=1))
        for number, looks in enumerate(attends):
            if number > 0:
                self.layers.append(Halving(width))
            self.layers.extend(level(width, blocks, looks))
        self.layers.extend([*middle(width), *finish(width, latent, EPSILON)])

    def forward(self, frames: Float[Tensor, "B C H W"]) -> Float[Tensor, "B D h w"]:
        """Frames to a map."""
        return convolve(self.layers, frames)


class AttentiveDecoder(nn.Module):
    """The mirror of the encoder, with a block more in each level."""

    def __init__(
        self, channels: int, latent: int, *, width: int, blocks: int, attends: Sequence[bool]
    ) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Conv2d(latent, width, 3, padding=1), *middle(width))
        for number, looks in enumerate(reversed(attends)):
            if number > 0:
                self.layers.append(Doubling(width))
            self.layers.extend(level(width, blocks + 1, looks))
        self.layers.extend(finish(width, channels, EPSILON))

    def forward(self, maps: Float[Tensor, "B D h w"]) -> Float[Tensor, "B C H W"]:
        """A map to frames, unbounded."""
        return convolve(self.layers, maps)
