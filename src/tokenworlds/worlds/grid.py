"""A world whose state is a map of codes (Smaller World Models: Robine et al., 2023).

The tokenizer learns by itself. A convolutional memory reads the codes of a frame and the action,
and foresees reward and next codes; endings are not foreseen, a dream has a fixed horizon.
"""

from dataclasses import dataclass, replace
from typing import Any

import torch
from jaxtyping import Bool, Float, UInt8
from torch import Generator, Tensor, nn
from torch.nn import functional

from tokenworlds.core.config import Component, ConfigOf
from tokenworlds.core.errors import UserError
from tokenworlds.core.protocols import Head, SequenceModel
from tokenworlds.core.trees import map_tensors, where_rows
from tokenworlds.core.types import (
    ActionSpace,
    Carry,
    Codes,
    Dream,
    FrameShape,
    Latent,
    Losses,
    Part,
    Recoded,
    Segment,
    masked_mean,
    once,
)
from tokenworlds.worlds.glimpses import Glimpses, openings, openings_of_a_window
from tokenworlds.worlds.map_codes import facts_of, insist_on_fit, mode, shade
from tokenworlds.worlds.map_dynamics import MapDynamics, flatten
from tokenworlds.worlds.sites import Layout, Sites
from tokenworlds.worlds.stacking import stack, stacked
from tokenworlds.worlds.tokens import TokenView

CodesOf = Codes | Latent


@dataclass(frozen=True, slots=True)
class GridCarry:
    """Where a dream stands: the memory of all before, and the code vectors in front of it."""

    sequence: Carry
    vector: Float[Tensor, "B K D"]


class Grid(nn.Module, Component):
    """A tokenizer of whole frames, and a memory of maps that foresees what it writes."""

    @dataclass(frozen=True, kw_only=True, slots=True)
    class Config(ConfigOf["Grid"]):
        """Choices. The newest `frames` are coded together. `context` is how many steps before a
        frame a dream knows of; in learning, codes are given for `given` steps, and from then on
        those that the world draws itself. With `crosses_episodes` the first frame of an episode
        is foreseen from the last step of the one before, so that dreams go on in a new game;
        else nothing is. `encodes_in_training` normalises by the batch, as the released code does,
        when codes are made for the dynamics. `reward_shapes_memory` lets the reward's gradient
        through; `draws_reward` takes a reward at random, as it is likely."""

        tokenizer: ConfigOf[Any]
        sequence: ConfigOf[SequenceModel[Any]]
        prior: ConfigOf[Any]
        reward: ConfigOf[Head]
        frames: int = 1
        layout: Layout = "map"
        context: int = 4
        given: int = 4
        crosses_episodes: bool = True
        encodes_in_training: bool = False
        reward_shapes_memory: bool = False
        draws_reward: bool = True

        def __post_init__(self) -> None:
            for name, least in (("frames", 1), ("given", 1), ("context", 0)):
                if getattr(self, name) < least:
                    raise ValueError(f"{name} takes {least} or more, not {getattr(self, name)}")

    def __init__(
        self, config: Config, *, frame_shape: FrameShape, action_space: ActionSpace
    ) -> None:
        super().__init__()
        self.config = config
        self.action_space = action_space
        self.channels, self.frames = frame_shape.channels, config.frames
        channels = config.frames * frame_shape.channels
        stack_shape = FrameShape(frame_shape.height, frame_shape.width, channels)
        self.tokenizer = config.tokenizer.build(frame_shape=stack_shape)
        insist_on_fit(self.tokenizer, config.prior)
        self.sites = Sites(self.tokenizer.grid, self.tokenizer.width, config.layout)
        self.feature_shape: tuple[int, ...] = self.sites.shape
        self.dynamics = MapDynamics(
            sequence=config.sequence,
            prior=config.prior,
            reward=config.reward,
            shape=self.sites.shape,
            actions=action_space.size,
            codes=facts_of(self.tokenizer),
            given=config.given,
        )

    def parts(self) -> dict[str, Part]:
        """The tokenizer learns to draw, all else to foresee what it writes."""
        return {
            "tokenizer": Part(self.tokenizer, once(self.tokenizer_losses)),
            "world": Part(self.dynamics, once(self.losses)),
        }

    def tokenizer_losses(self, segment: Segment) -> Losses:
        """Of the frames whose stack is known."""
        frames, steps = self._stacks(segment)
        losses: Losses = self.tokenizer.losses(frames, self.tokenizer.encode(frames), steps.mask)
        return losses

    def _stacks(self, segment: Segment) -> tuple[Float[Tensor, "B t C H W"], Segment]:
        """Stacked frames and their steps; those whose past is not in the segment are left out."""
        begin = self.config.frames - 1
        if segment.first.shape[1] <= begin:
            raise UserError(
                f"segments of {segment.first.shape[1]} steps are too short for world.frames="
                f"{begin + 1}: each learning.*.length takes as many or more, the world's one more"
            )
        frames, known = stacked(segment, self.config.frames)
        steps = replace(segment, mask=segment.mask & known)
        return frames[:, begin:], map_tensors(lambda part: part[:, begin:], steps)

    def losses(self, segment: Segment) -> Losses:
        """Codes and rewards, as the steps before each foresee them."""
        frames, steps = self._stacks(segment)
        with torch.no_grad(), mode(self.tokenizer, training=self.config.encodes_in_training):
            codes: CodesOf = self.tokenizer.encode(frames)
        opens = self._opens(steps)
        maps, action = self.sites.arrange(codes.vector), self.action_space.encode(steps.action)
        feature = self.dynamics.foresee(maps, action, opens, self._dream_on)
        coming = map_tensors(lambda part: part[:, 1:], codes)
        mask = steps.mask[:, 1:] & steps.mask[:, :-1] & ~opens[:, 1:]
        foresight: Losses = self.dynamics.prior.losses(flatten(feature), coming, mask)
        return foresight | self._reward_losses(feature, steps)

    def _opens(self, segment: Segment) -> Bool[Tensor, "B T"]:
        """Where nothing before a step counts."""
        if not self.config.crosses_episodes:
            return openings(segment)
        return openings_of_a_window(functional.pad(~segment.mask[:, :-1], (1, 0)))

    def _dream_on(self, feature: Float[Tensor, "B C h w"]) -> Float[Tensor, "B c h w"]:
        return self.sites.arrange(self._draw(feature, None))

    @torch.no_grad()
    def _draw(
        self, feature: Float[Tensor, "B C h w"], generator: Generator | None
    ) -> Float[Tensor, "B K D"]:
        """Vectors of the next frame's codes."""
        vector: Tensor = self.tokenizer.token_vectors(self.dynamics.draw(feature, generator))
        return vector

    def _reward_losses(self, feature: Float[Tensor, "B t C h w"], segment: Segment) -> Losses:
        feature = feature if self.config.reward_shapes_memory else feature.detach()
        foreseen, reward = self.dynamics.reward(feature), segment.reward[:, :-1]
        mask = segment.mask[:, :-1]
        missed = masked_mean((foreseen.mean - reward).detach().abs(), mask)
        terms = {"reward": foreseen.loss(reward)}
        return Losses(terms, {"reward": mask}, {"reward_error": missed})

    @torch.no_grad()
    def observe(
        self,
        frame: UInt8[Tensor, "B H W C"],
        action: Tensor,
        reset: Bool[Tensor, " B"],
        carry: Glimpses | None,
        generator: Generator | None = None,
    ) -> Glimpses:
        """Look at the frame; nothing is made of it until asked for."""
        count = self.config.context + self.config.frames
        carry = carry or Glimpses.blank(frame, count, self.action_space)
        return carry.push(frame, self.action_space.encode(action), reset)

    @torch.no_grad()
    def start(self, segment: Segment, steps: int) -> GridCarry:
        """The last frame of each row, with `context` steps before it as its history."""
        count = self.config.context + self.config.frames
        return self._begin(Glimpses.of(segment, count, self.action_space))

    def _begin(self, seen: Glimpses) -> GridCarry:
        """A dream from the last of some frames."""
        frames = stack(seen.frame, seen.opens, self.config.frames)[:, -self.config.context - 1 :]
        vector, blank = self._look(frames), self.dynamics.sequence.initial(len(frames))
        action, opens = (part[:, -frames.shape[1] :] for part in (seen.action, seen.opens))
        if frames.shape[1] == 1:
            return GridCarry(blank, vector[:, -1])
        maps, past = self.sites.arrange(vector[:, :-1]), slice(0, -1)
        _, carry = self.dynamics.scan(maps, action[:, past], opens[:, past], blank)
        return GridCarry(where_rows(opens[:, -1], blank, carry), vector[:, -1])

    def _look(self, frames: Float[Tensor, "*rest C H W"]) -> Float[Tensor, "*rest K D"]:
        vector: Tensor = self.tokenizer.encode_vectors(frames)
        return vector

    @torch.no_grad()
    def step(
        self, carry: GridCarry | Glimpses, action: Tensor, generator: Generator | None = None
    ) -> tuple[GridCarry, Dream]:
        """Imagine one step; no frame is drawn unless it is asked for."""
        carry = self._begin(carry) if isinstance(carry, Glimpses) else carry
        maps, done = self.sites.arrange(carry.vector), self.action_space.encode(action)
        feature, sequence = self.dynamics.step(maps, done, carry.sequence)
        expected = self.dynamics.reward(feature)
        reward = expected.sample(generator) if self.config.draws_reward else expected.mean
        carry = GridCarry(sequence, self._draw(feature, generator))
        view = self.view(carry)
        return carry, Dream(view.describe, reward, torch.zeros_like(reward), view.decode)

    def view(self, carry: GridCarry | Glimpses) -> TokenView:
        """The codes in front, as a map, and the newest frame as they hold it."""

        def vector() -> Float[Tensor, "B K D"]:
            return carry.vector if isinstance(carry, GridCarry) else self._look_at(carry)

        return TokenView(lambda: self.sites.arrange(vector()), lambda: self._decode(vector()))

    @torch.no_grad()
    def _look_at(self, seen: Glimpses) -> Float[Tensor, "B K D"]:
        return self._look(stack(seen.frame, seen.opens, self.config.frames)[:, -1])

    @torch.no_grad()
    def _decode(self, vector: Float[Tensor, "*rest K D"]) -> Float[Tensor, "*rest C H W"]:
        """The newest frame."""
        frames: Tensor = self.tokenizer.decode_vectors(vector)
        return frames[..., -self.channels :, :, :]

    @torch.no_grad()
    def recode(self, segment: Segment) -> Recoded:
        """Each frame through its codes, or through shades of its numbers."""
        frames, tokenizer = stacked(segment, self.config.frames)[0], self.tokenizer
        if not hasattr(tokenizer, "vocabulary"):
            vector = self._look(frames)
            return shade(vector, self._decode(vector), tokenizer.grid)
        codes = tokenizer.encode(frames)
        frame = self._decode(codes.vector)
        return Recoded(codes.index, frame, tokenizer.vocabulary, tokenizer.grid)

    @torch.no_grad()
    def seen(self, segment: Segment) -> Float[Tensor, "B T C H W"]:
        """The frames as codes hold them, which is how a dream shows them too."""
        return self._decode(self._look(stacked(segment, self.config.frames)[0]))
