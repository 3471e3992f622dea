"""What a memory of maps foresees: codes, rewards (Smaller World Models, section on dynamics)."""

from collections.abc import Callable
from typing import Any

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

CodeMap = Float[Tensor, "*rest C h w"]
FeatureMap = Float[Tensor, "*rest D h w"]


class MapDynamics(nn.Module):
    """A sequence model that reads maps of codes and actions, a prior and a head that read it.

    The action goes into prior and head once more, beside what the memory makes of it.
    """

    def __init__(
        self,
        *,
        sequence: ConfigOf[SequenceModel[Any]],
        prior: ConfigOf[Any],
        reward: ConfigOf[Head],
        shape: tuple[int, int, int],
        actions: int,
        codes: dict[str, int],
        given: int,
    ) -> None:
        super().__init__()
        channels, height, width = shape
        self.size, self.given = (height, width), given
        self.sequence = sequence.build(inputs=channels, actions=actions, grid=self.size)
        read = self.sequence.width + actions
        self.prior = prior.build(width=read * height * width, **codes)
        self.reward = reward.build(shape=(read, height, width))

    def planes(self, action: Float[Tensor, "*rest A"]) -> Float[Tensor, "*rest A h w"]:
        """Every number of an action as a map of that number."""
        height, width = self.size
        return repeat(action, "... a -> ... a h w", h=height, w=width)

    def step(
        self, codes: CodeMap, action: Float[Tensor, "B A"], carry: Carry
    ) -> tuple[FeatureMap, Carry]:
        """Take in the codes of a frame and what was done there; returns what heads read."""
        planes = self.planes(action)
        y, carry = self.sequence.step(concat_channels(codes, planes), carry)
        return concat_channels(y, planes), carry

    def scan(
        self,
        codes: CodeMap,
        action: Float[Tensor, "B T A"],
        opens: Bool[Tensor, "B T"],
        carry: Carry,
    ) -> tuple[FeatureMap, Carry]:
        """The same for all steps at once; what opens has no past."""
        planes = self.planes(action)
        y, carry = self.sequence.scan(concat_channels(codes, planes), opens, carry)
        return concat_channels(y, planes), carry

    def foresee(
        self,
        codes: Float[Tensor, "B T C h w"],
        action: Float[Tensor, "B T A"],
        opens: Bool[Tensor, "B T"],
        dream_on: Callable[[Tensor], Tensor],
    ) -> Float[Tensor, "B t D h w"]:
        """What heads read of every step but the last; after some the codes are dreamt."""
        steps, blank = codes.shape[1] - 1, self.sequence.initial(len(codes))
        if steps < 1:
            raise UserError("learning.world.length takes world.frames + 1 or more: nothing follows")
        given = slice(0, min(self.given, steps))
        feature, carry = self.scan(codes[:, given], action[:, given], opens[:, given], blank)
        features = list(feature.unbind(1))
        for time in range(self.given, steps):
            seen = where_rows(opens[:, time], codes[:, time], dream_on(features[-1]))
            carry = where_rows(opens[:, time], blank, carry)
            feature, carry = self.step(seen, action[:, time], carry)
            features.append(feature)
        return torch.stack([each.movedim(-3, -1) for each in features], dim=1).movedim(-1, -3)

    @torch.no_grad()
    def draw(self, feature: FeatureMap, generator: Generator | None) -> Tensor:
        """The codes of the next frame, as the prior has them: indices, or numbers."""
        drawn: Tensor = self.prior.sample(flatten(feature), generator)
        return drawn


def flatten(feature: FeatureMap) -> Float[Tensor, "*rest E"]:
    """A map as a vector, the channels of a site side by side."""
    return rearrange(feature, "... c h w -> ... (h w c)")
