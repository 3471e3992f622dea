"""Residual stacks of convolutions: those of Δ-IRIS (Micheli et al., 2024), and those of IRIS with
attention between the cells of a map (Esser et al., 2021; Micheli et al., 2023)."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import cast

from einops import rearrange
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from tokenworlds.core.config import Component, ConfigOf
from tokenworlds.core.errors import UserError
from tokenworlds.core.types import FrameShape
from tokenworlds.nets.fast.convolution import CHUNK, ConvolutionStack, NormedSiLU
from tokenworlds.nets.fast.doubling import Doubling
from tokenworlds.nets.fast.narrow import (
    LANES,
    NARROW_CHUNK,
    NarrowConvolution,
    lay_out_narrow,
)

GROUPS = 32
EPSILON = 1e-5
ATTENTIVE_EPSILON = 1e-6
"""The epsilon of the norms in IRIS's stacks."""


def groups_of(channels: int) -> int:
    """32 groups, or one for each channel of a narrow map."""
    groups = min(GROUPS, channels)
    if channels % groups:
        raise UserError(f"{channels} channels cannot be split into {groups} groups of equal size")
    return groups


def normed_silu(channels: int, epsilon: float = EPSILON) -> NormedSiLU:
    return NormedSiLU(groups_of(channels), channels, eps=epsilon)


class Residual(nn.Module):
    """Twice norm, SiLU and convolution, beside a shortcut."""

    def __init__(self, before: int, after: int, epsilon: float = EPSILON) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            normed_silu(before, epsilon),
            NarrowConvolution(before, after),
            normed_silu(after, epsilon),
            NarrowConvolution(after, after),
        )
        self.shortcut = nn.Identity() if before == after else nn.Conv2d(before, after, 1)

    def forward(self, maps: Float[Tensor, "B C H W"]) -> Float[Tensor, "B D H W"]:
        maps = lay_out_narrow(maps)
        return cast(Tensor, self.shortcut(maps) + self.layers(maps))


class NarrowDoubling(Doubling):
    """Upsampling by 2 and a 3x3 convolution that keep the number of channels."""

    def __init__(self, channels: int) -> None:
        super().__init__(channels, channels)

    def forward(self, input: Float[Tensor, "B C h w"]) -> Float[Tensor, "B C H W"]:
        return super().forward(lay_out_narrow(input, 4 * prod(input.shape[2:])))


def finish(before: int, after: int, epsilon: float = EPSILON) -> Sequence[nn.Module]:
    return normed_silu(before, epsilon), NarrowConvolution(before, after)


def halved(frame_shape: FrameShape, times: int) -> tuple[int, int]:
    """Height and width of a frame that is halved this often without remainder."""
    height, width = frame_shape.height, frame_shape.width
    if height % 2**times or width % 2**times:
        raise UserError(
            f"frames of {height}x{width} cannot be halved {times} times: "
            f"both sides must be multiples of {2**times}"
        )
    return height >> times, width >> times


class ResidualStack(ConvolutionStack):
    """At inference, a narrow stack reads as many maps at a time as fit a cache."""

    def __init__(self, width: int, first: nn.Module) -> None:
        super().__init__()
        self.layers = nn.Sequential(first)
        self.chunk = NARROW_CHUNK if width <= LANES else CHUNK


class FrameEncoder(ResidualStack, Component):
    """One residual block per level; some levels halve the map."""

    @dataclass(frozen=True, kw_only=True, slots=True)
    class Config(ConfigOf["FrameEncoder"]):
        """A level has `width` times its multiplier channels; the output has `latent`."""

        width: int = 64
        latent: int = 64
        multipliers: tuple[int, ...] = (1, 1, 2, 2, 4)
        halvings: tuple[bool, ...] = (True, False, True, True, False)

        def __post_init__(self) -> None:
            if not self.multipliers or len(self.multipliers) != len(self.halvings):
                raise ValueError(
                    "each level needs a multiplier and a halving, but there are multipliers "
                    f"{self.multipliers} and halvings {self.halvings}"
                )

        @property
        def widths(self) -> tuple[int, ...]:
            return tuple(self.width * multiplier for multiplier in self.multipliers)

    def __init__(self, config: Config, *, channels: int) -> None:
        super().__init__(config.width, NarrowConvolution(channels, config.width))
        self.config = config
        before = config.width
        for after, halves in zip(config.widths, config.halvings, strict=True):
            self.layers.append(Residual(before, after))
            if halves:
                self.layers.append(nn.Conv2d(after, after, 2, stride=2))
            before = after
        self.layers.extend(finish(before, config.latent))


class FrameDecoder(ResidualStack):
    """The mirror of an encoder with this configuration, except for its inputs and outputs: frames
    without bounds."""

    def __init__(self, config: FrameEncoder.Config, *, inputs: int, channels: int) -> None:
        super().__init__(config.width, nn.Conv2d(inputs, config.widths[-1], 3, padding=1))
        afters = (config.width, *config.widths[:-1])
        levels = zip(config.widths, afters, config.halvings, strict=True)
        for before, after, halves in reversed(list(levels)):
            if halves:
                self.layers.append(NarrowDoubling(before))
            self.layers.append(Residual(before, after))
        self.layers.extend(finish(config.width, channels))


class SpatialAttention(nn.Module):
    """Single-head self-attention over the cells of a map, with a shortcut."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.GroupNorm(groups_of(width), width, eps=ATTENTIVE_EPSILON)
        self.input = nn.Conv2d(width, 3 * width, 1)
        self.output = nn.Conv2d(width, width, 1)

    def forward(self, maps: Float[Tensor, "B D H W"]) -> Float[Tensor, "B D H W"]:
        height = maps.shape[-2]
        joint = rearrange(self.input(self.norm(maps)), "b (n d) h w -> n b 1 (h w) d", n=3)
        attended = functional.scaled_dot_product_attention(*joint.unbind(0))
        attended = rearrange(attended, "b 1 (h w) d -> b d h w", h=height)
        return maps + cast(Tensor, self.output(attended))


class Halving(nn.Conv2d):
    """A 3x3 convolution of stride 2 on a map padded at the bottom and right only."""

    def __init__(self, width: int) -> None:
        super().__init__(width, width, 3, stride=2)

    def forward(self, input: Float[Tensor, "B D H W"]) -> Float[Tensor, "B D h w"]:
        return super().forward(functional.pad(input, (0, 1, 0, 1)))


def level(width: int, blocks: int, attends: bool) -> list[nn.Module]:
    """Residual blocks, each followed by attention if the level attends."""
    layers: list[nn.Module] = []
    for _ in range(blocks):
        layers.append(Residual(width, width, ATTENTIVE_EPSILON))
        if attends:
            layers.append(SpatialAttention(width))
    return layers


def middle(width: int) -> list[nn.Module]:
    """The layers at the smallest map: attention between two residual blocks."""
    return [*level(width, 1, attends=True), Residual(width, width, ATTENTIVE_EPSILON)]


class AttentiveEncoder(ResidualStack):
    """Levels of residual blocks, each at half the resolution of the one before."""

    def __init__(
        self, channels: int, latent: int, *, width: int, blocks: int, attends: Sequence[bool]
    ) -> None:
        super().__init__(width, NarrowConvolution(channels, width))
        for number, attending in enumerate(attends):
            if number > 0:
                self.layers.append(Halving(width))
            self.layers.extend(level(width, blocks, attending))
        self.layers.extend([*middle(width), *finish(width, latent, ATTENTIVE_EPSILON)])


class AttentiveDecoder(ResidualStack):
    """The mirror of the encoder, with one more block in each level; frames without bounds."""

    def __init__(
        self, channels: int, latent: int, *, width: int, blocks: int, attends: Sequence[bool]
    ) -> None:
        super().__init__(width, nn.Conv2d(latent, width, 3, padding=1))
        self.layers.extend(middle(width))
        for number, attending in enumerate(reversed(attends)):
            if number > 0:
                self.layers.append(NarrowDoubling(width))
            self.layers.extend(level(width, blocks + 1, attending))
        self.layers.extend(finish(width, channels, ATTENTIVE_EPSILON))
