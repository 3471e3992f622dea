"""Residual convolutions, and the frame networks of Δ-IRIS made of them (Micheli et al., 2024)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from einops import rearrange
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from tokenworlds.core.config import Component, ConfigOf
from tokenworlds.core.errors import UserError
from tokenworlds.core.types import FrameShape
from tokenworlds.nets.fast.convolution import NormedSiLU, convolve

GROUPS = 32


def groups_of(channels: int) -> int:
    """32, or one for each channel of a narrow map."""
    groups = min(GROUPS, channels)
    if channels % groups:
        raise UserError(f"{channels} channels do not part into {groups} groups of equal size")
    return groups


def normed_silu(channels: int, epsilon: float = 1e-5) -> NormedSiLU:
    """What stands before most convolutions."""
    return NormedSiLU(groups_of(channels), channels, eps=epsilon)


class Residual(nn.Module):
    """Twice norm, SiLU and convolution, beside a shortcut."""

    def __init__(self, before: int, after: int, epsilon: float = 1e-5) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            normed_silu(before, epsilon),
            nn.Conv2d(before, after, 3, padding=1),
            normed_silu(after, epsilon),
            nn.Conv2d(after, after, 3, padding=1),
        )
        self.shortcut = nn.Identity() if before == after else nn.Conv2d(before, after, 1)

    def forward(self, maps: Float[Tensor, "B C H W"]) -> Float[Tensor, "B D H W"]:
        """A map of the same size."""
        return cast(Tensor, self.shortcut(maps) + self.layers(maps))


class FrameEncoder(nn.Module, Component):
    """A residual block for each level, some of which halve the map."""

    @dataclass(frozen=True, kw_only=True, slots=True)
    class Config(ConfigOf["FrameEncoder"]):
        """Choices. A level has `width` times its multiplier channels; the map has `latent`."""

        width: int = 64
        latent: int = 64
        multipliers: tuple[int, ...] = (1, 1, 2, 2, 4)
        halvings: tuple[bool, ...] = (True, False, True, True, False)

        def __post_init__(self) -> None:
            if not self.multipliers or len(self.multipliers) != len(self.halvings):
                raise ValueError(
                    f"each level takes a multiplier and a halving, not multipliers "
                    f"{self.multipliers} with halvings {self.halvings}"
                )

        @property
        def widths(self) -> tuple[int, ...]:
            """Channels of each level."""
            return tuple(self.width * multiplier for multiplier in self.multipliers)

    def __init__(self, config: Config, *, channels: int) -> None:
        super().__init__()
        self.config = config
        self.layers = nn.Sequential(nn.Conv2d(channels, config.width, 3, padding=1))
        before = config.width
        for after, halves in zip(config.widths, config.halvings, strict=True):
            self.layers.append(Residual(before, after))
            if halves:
                self.layers.append(nn.Conv2d(after, after, 2, stride=2))
            before = after
        self.layers.extend(finish(before, config.latent))

    def forward(self, frames: Float[Tensor, "B C H W"]) -> Float[Tensor, "B D h w"]:
        """Frames to a map."""
        return convolve(self.layers, frames)


class FrameDecoder(nn.Module):
    """The mirror of an encoder with these choices, all but the channels at either end."""

    def __init__(self, config: FrameEncoder.Config, *, inputs: int, channels: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Conv2d(inputs, config.widths[-1], 3, padding=1))
        afters = (config.width, *config.widths[:-1])
        levels = zip(config.widths, afters, config.halvings, strict=True)
        for before, after, halves in reversed(list(levels)):
            if halves:
                self.layers.append(Doubling(before))
            self.layers.append(Residual(before, after))
        self.layers.extend(finish(config.width, channels))

    def forward(self, maps: Float[Tensor, "B D h w"]) -> Float[Tensor, "B C H W"]:
        """A map to frames, unbounded."""
        return convolve(self.layers, maps)


def finish(before: int, after: int, epsilon: float = 1e-5) -> Sequence[nn.Module]:
    """The last layers of a stack."""
    return normed_silu(before, epsilon), nn.Conv2d(before, after, 3, padding=1)


class Doubling(nn.Conv2d):
    """Each site four times, then a convolution with a kernel of 3x3.

    Of the nine sites that a kernel covers, only four differ: both steps together are one transposed
    convolution, whose kernel of 4x4 has the sums of weights that meet the same site.
    """

    def __init__(self, channels: int) -> None:
        super().__init__(channels, channels, 3, padding=1)

    def forward(self, input: Float[Tensor, "B C h w"]) -> Float[Tensor, "B C H W"]:
        """A map of twice the height and width."""
        flipped = rearrange(self.weight.flip(-1, -2), "after before h w -> before after h w")
        summed = sum_neighbours(flipped)
        return functional.conv_transpose2d(input, summed, self.bias, stride=2, padding=1)


def sum_neighbours(weight: Float[Tensor, "D C k k"]) -> Float[Tensor, "D C k1 k1"]:
    """The sums of any four weights that stand together, with nothing around the kernel."""
    padded = functional.pad(weight, (1, 1, 1, 1))
    rows = padded[..., :-1, :] + padded[..., 1:, :]
    return rows[..., :-1] + rows[..., 1:]


def halved(frame_shape: FrameShape, times: int) -> tuple[int, int]:
    """Height and width of a frame after so many halvings, which must leave no rest."""
    height, width = frame_shape.height, frame_shape.width
    if height % 2**times or width % 2**times:
        raise UserError(
            f"frames of {height}x{width} cannot be halved {times} times: "
            f"take sides that are multiples of {2**times}"
        )
    return height >> times, width >> times
