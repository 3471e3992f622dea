"""A world of your own: the next frame from the present one and the action, without memory.

tokenworlds train step-vq-m --set world=examples/my_world.py:Markov
"""

from dataclasses import dataclass, field

import torch
from jaxtyping import Bool, Float, Int, UInt8
from torch import Generator, Tensor, nn

from tokenworlds.core.config import Component, ConfigOf
from tokenworlds.core.protocols import Head, Prior, StateMixer, Tokenizer
from tokenworlds.core.trees import map_tensors
from tokenworlds.core.types import (
    ActionSpace,
    FrameShape,
    Losses,
    Outcome,
    Reconstruction,
    Segment,
    Trainable,
    View,
    to_frames,
)
from tokenworlds.heads.outcomes import MLPReward, MLPTermination, outcome_losses
from tokenworlds.mixers.projection import Projection


@dataclass(frozen=True, slots=True)
class MarkovCarry:
    """The tokens of the present frame."""

    index: Int[Tensor, "B K"]


class Markov(nn.Module, Component):
    """A tokenizer, a mixer of tokens and action, and a prior and two heads that read the result."""

    frames = 1

    @dataclass(frozen=True, kw_only=True, slots=True)
    class Config(ConfigOf["Markov"]):
        """Fields with the names and types of another world's keep its values in a swap."""

        tokenizer: ConfigOf[Tokenizer]
        prior: ConfigOf[Prior]
        mixer: ConfigOf[StateMixer] = field(default_factory=Projection.Config)
        reward: ConfigOf[Head] = field(default_factory=MLPReward.Config)
        termination: ConfigOf[Head] = field(default_factory=MLPTermination.Config)
        width: int = 256

    def __init__(
        self, config: Config, *, frame_shape: FrameShape, action_space: ActionSpace
    ) -> None:
        super().__init__()
        self.action_space = action_space
        self.tokenizer = config.tokenizer.build(frame_shape=frame_shape)
        tokens, vocabulary, width = self.tokenizer.tokens, self.tokenizer.vocabulary, config.width
        sizes = {"tokens": tokens, "vocabulary": vocabulary, "width": width}
        self.mixer = config.mixer.build(actions=action_space.size, **sizes)
        self.prior = config.prior.build(**sizes)
        self.reward = config.reward.build(width=width)
        self.termination = config.termination.build(width=width)
        self.feature_shape = (tokens * vocabulary,)

    def trainables(self) -> dict[str, Trainable]:
        return {"world": Trainable(self, self.losses)}

    def losses(self, segment: Segment) -> Losses:
        frames = to_frames(segment.frame)
        codes = self.tokenizer.encode(frames)
        hidden = self.mixer(codes.sample, self.action_space.encode(segment.action))
        next_codes = map_tensors(lambda part: part[:, 1:], codes)
        same_episode = segment.mask[:, 1:] & ~segment.first[:, 1:]
        return (
            self.tokenizer.losses(frames, codes, segment.mask)
            | self.prior.losses(hidden[:, :-1], next_codes, same_episode)
            | outcome_losses(self.reward, self.termination, hidden, segment)
        )

    def observe(
        self,
        frame: UInt8[Tensor, "B H W C"],
        action: Tensor,
        reset: Bool[Tensor, " B"],
        carry: MarkovCarry | None,
        generator: Generator | None = None,
    ) -> MarkovCarry:
        return MarkovCarry(self.tokenizer.encode(to_frames(frame)).index)

    @torch.no_grad()
    def start(self, segment: Segment, steps: int) -> MarkovCarry:
        return MarkovCarry(self.tokenizer.encode(to_frames(segment.frame[:, -1])).index)

    def step(
        self, carry: MarkovCarry, action: Tensor, generator: Generator | None = None
    ) -> tuple[MarkovCarry, Outcome]:
        hidden = self.mixer.look_up(carry.index, self.action_space.encode(action))
        outcome = Outcome(self.reward(hidden).mean, self.termination(hidden).mean)
        return MarkovCarry(self.prior.sample(hidden, generator)), outcome

    def view(self, carry: MarkovCarry) -> View:
        codes = self.tokenizer.look_up(carry.index)
        return View(lambda: codes.sample.flatten(1), lambda: self.tokenizer.decode(codes))

    @torch.no_grad()
    def reconstruct(self, segment: Segment) -> Reconstruction:
        codes = self.tokenizer.encode(to_frames(segment.frame))
        decoded = self.tokenizer.decode(codes)
        return Reconstruction(codes.index, decoded, self.tokenizer.vocabulary, self.tokenizer.grid)

    def policy_frames(self, segment: Segment) -> Float[Tensor, "B T C H W"]:
        return self.reconstruct(segment).frame
