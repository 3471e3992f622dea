"""Residual convolutions, and the frame networks of Δ-IRIS made of them (Micheli et al., 2024)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from jaxtyping import Float
from torch import Tensor, nn

from tokenworlds.core.config import Component, ConfigOf
from tokenworlds.core.errors import UserError
from tokenworlds.core.types import FrameShape

GROUPS = 32


def group_norm(channels: int, epsilon: float = 1e-5) -> nn.GroupNorm:
    """32 groups, or one for each channel of a narrow map."""
    groups = min(GROUPS, channels)
    if channels % groups:
        raise UserError(f"{channels} channels do not part into {groups} groups of equal size")
    return nn.GroupNorm(groups, channels, eps=epsilon)


class Residual(nn.Module):
    """Twice norm, SiLU and convolution, beside a shortcut."""

    def __init__(self, before: int, after: int, epsilon: float = 1e-5) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            group_norm(before, epsilon),
            nn.SiLU(),
            nn.Conv2d(before, after, 3, padding=1),
            group_norm(after, epsilon),
            nn.SiLU(),
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
        return cast(Tensor, self.layers(frames))


class FrameDecoder(nn.Module):
    """The mirror of an encoder with these choices, all but the channels at either end."""

    def __init__(self, config: FrameEncoder.Config, *, inputs: int, channels: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Conv2d(inputs, config.widths[-1], 3, padding=1))
        afters = (config.width, *config.widths[:-1])
        levels = zip(config.widths, afters, config.halvings, strict=True)
        for before, after, halves in reversed(list(levels)):
            if halves:
                self.layers.append(double(before))
            self.layers.append(Residual(before, after))
        self.layers.extend(finish(config.width, channels))

    def forward(self, maps: Float[Tensor, "B D h w"]) -> Float[Tensor, "B C H W"]:
        """A map to frames, unbounded."""
        return cast(Tensor, self.layers(maps))


def finish(before: int, after: int, epsilon: float = 1e-5) -> Sequence[nn.Module]:
    """The last layers of a stack: norm, SiLU and convolution."""
    return group_norm(before, epsilon), nn.SiLU(), nn.Conv2d(before, after, 3, padding=1)


def double(channels: int) -> nn.Module:
    """Each site four times, then a convolution."""
    return nn.Sequential(nn.Upsample(scale_factor=2.0), nn.Conv2d(channels, channels, 3, padding=1))


def halved(frame_shape: FrameShape, times: int) -> tuple[int, int]:
    """Height and width of a frame after so many halvings, which must leave no rest."""
    height, width = frame_shape.height, frame_shape.width
    if height % 2**times or width % 2**times:
        raise UserError(
            f"frames of {height}x{width} cannot be halved {times} times: "
            f"take sides that are multiples of {2**times}"
        )
    return height >> times, width >> times
