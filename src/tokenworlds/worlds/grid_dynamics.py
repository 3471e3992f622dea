"""Dynamics over maps of token vectors (Smaller World Models, section on dynamics)."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import torch
from einops import rearrange, repeat
from jaxtyping import Bool, Float
from torch import Generator, Tensor, nn

from tokenworlds.core.config import ConfigOf
from tokenworlds.core.errors import UserError
from tokenworlds.core.protocols import Head, SequenceModel
from tokenworlds.core.trees import where_rows
from tokenworlds.core.types import Carry
from tokenworlds.nets.fast.map_convolution import concat_channels

TokenMap = Float[Tensor, "*rest C h w"]
FeatureMap = Float[Tensor, "*rest D h w"]
Layout = Literal["map", "line", "vector"]


@dataclass(frozen=True, slots=True)
class GridLayout:
    """How the vectors of a grid's cells form a map: as they lie, as one column, or as one cell
    (the ablation of the latent's shape)."""

    grid: tuple[int, int]
    width: int
    layout: Layout = "map"

    @property
    def shape(self) -> tuple[int, int, int]:
        """Channels, height and width of the map."""
        cells = self.grid[0] * self.grid[1]
        if self.layout == "vector":
            return (cells * self.width, 1, 1)
        return (self.width, *(self.grid if self.layout == "map" else (cells, 1)))

    def arrange(self, vector: Float[Tensor, "*rest K D"]) -> TokenMap:
        if self.layout == "vector":
            return rearrange(vector, "... k d -> ... (k d) 1 1")
        return rearrange(vector, "... (h w) d -> ... d h w", h=self.shape[1])


class GridDynamics(nn.Module):
    """A sequence model on maps of tokens and actions, and a prior and a reward head on its output.

    Prior and head also read the action.
    """

    def __init__(
        self,
        *,
        sequence: ConfigOf[SequenceModel[Any]],
        prior: ConfigOf[Any],
        reward: ConfigOf[Head],
        shape: tuple[int, int, int],
        actions: int,
        prior_dimensions: dict[str, int],
        given: int,
    ) -> None:
        super().__init__()
        channels, height, width = shape
        self.size, self.given = (height, width), given
        self.sequence = sequence.build(inputs=channels, actions=actions, grid=self.size)
        read = self.sequence.width + actions
        self.prior = prior.build(width=read * height * width, **prior_dimensions)
        self.reward = reward.build(shape=(read, height, width))

    def planes(self, action: Float[Tensor, "*rest A"]) -> Float[Tensor, "*rest A h w"]:
        """Each number of an action as a constant map."""
        height, width = self.size
        return repeat(action, "... a -> ... a h w", h=height, w=width)

    def step(
        self, tokens: TokenMap, action: Float[Tensor, "B A"], carry: Carry
    ) -> tuple[FeatureMap, Carry]:
        planes = self.planes(action)
        y, carry = self.sequence.step(concat_channels(tokens, planes), carry)
        return concat_channels(y, planes), carry

    def scan(
        self,
        tokens: TokenMap,
        action: Float[Tensor, "B T A"],
        starts: Bool[Tensor, "B T"],
        carry: Carry,
    ) -> tuple[FeatureMap, Carry]:
        planes = self.planes(action)
        y, carry = self.sequence.scan(concat_channels(tokens, planes), starts, carry)
        return concat_channels(y, planes), carry

    def predict(
        self,
        tokens: Float[Tensor, "B T C h w"],
        action: Float[Tensor, "B T A"],
        starts: Bool[Tensor, "B T"],
        sample_next: Callable[[Tensor], Tensor],
    ) -> Float[Tensor, "B t D h w"]:
        """The features of every step but the last; after `given` steps the tokens are sampled."""
        steps, blank = tokens.shape[1] - 1, self.sequence.initial(len(tokens))
        if steps < 1:
            raise UserError("learning.world.length takes world.frames + 1 or more: nothing follows")
        given = slice(0, min(self.given, steps))
        feature, carry = self.scan(tokens[:, given], action[:, given], starts[:, given], blank)
        features = list(feature.unbind(1))
        for time in range(self.given, steps):
            inputs = where_rows(starts[:, time], tokens[:, time], sample_next(features[-1]))
            carry = where_rows(starts[:, time], blank, carry)
            feature, carry = self.step(inputs, action[:, time], carry)
            features.append(feature)
        return torch.stack([each.movedim(-3, -1) for each in features], dim=1).movedim(-1, -3)

    @torch.no_grad()
    def sample(self, feature: FeatureMap, generator: Generator | None) -> Tensor:
        """Sample the next frame from the prior: token indices, or numbers."""
        sampled: Tensor = self.prior.sample(flatten(feature), generator)
        return sampled


def flatten(feature: FeatureMap) -> Float[Tensor, "*rest E"]:
    """A map as a vector, cell by cell."""
    return rearrange(feature, "... c h w -> ... (h w c)")
