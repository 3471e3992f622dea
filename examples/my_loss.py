"""A loss of your own: the world also predicts which action led from one frame to the next.

tokenworlds train step-vq-m --set world=examples/my_loss.py:Inverse
tokenworlds train --set world=examples/my_loss.py:Inverse learning.world.scales.inverse=1
"""

from dataclasses import dataclass

import torch
from torch import nn

from tokenworlds.core.types import ActionSpace, FrameShape, Losses, Segment, to_frames
from tokenworlds.nets.policies import policy_of, policy_width
from tokenworlds.worlds.latent import Latent


class Inverse(Latent):
    """A latent world with an inverse model on the tokens of consecutive frames."""

    @dataclass(frozen=True, kw_only=True, slots=True)
    class Config(Latent.Config):
        inverse_width: int = 128

    def __init__(
        self, config: Config, *, frame_shape: FrameShape, action_space: ActionSpace
    ) -> None:
        super().__init__(config, frame_shape=frame_shape, action_space=action_space)
        inputs = 2 * self.tokenizer.tokens * self.tokenizer.vocabulary
        width, outputs = config.inverse_width, policy_width(action_space)
        self.inverse = nn.Sequential(nn.Linear(inputs, width), nn.SiLU(), nn.Linear(width, outputs))

    def losses(self, segment: Segment) -> Losses:
        """The terms of the latent world, and `inverse` with a default weight of 0.1."""
        sample = self.tokenizer.encode(to_frames(segment.frame)).sample.flatten(-2)
        output = self.inverse(torch.cat([sample[:, :-1], sample[:, 1:]], dim=-1))
        # The policy's distribution covers discrete and continuous actions.
        nll = -policy_of(output, self.action_space).log_prob(segment.action[:, :-1])
        same_episode = segment.mask[:, 1:] & ~segment.first[:, 1:]
        inverse = Losses({"inverse": nll}, {"inverse": same_episode}, scales={"inverse": 0.1})
        return super().losses(segment) | inverse
