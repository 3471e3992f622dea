"""A world of changes written as tokens, with the frame before each (Δ-IRIS, section 2.2).

A step is a block of the sequence: its frame as one I-token, its action, and the tokens of what
changes from its frame to the next.
"""

from dataclasses import dataclass, field
from typing import Any

import torch
from einops import rearrange, repeat
from jaxtyping import Bool, Float, Int, UInt8
from torch import Generator, Tensor, nn
from torch.nn import functional

from tokenworlds.core.config import Component, ConfigOf
from tokenworlds.core.protocols import Head, SequenceModel
from tokenworlds.core.types import (
    ActionSpace,
    Carry,
    Context,
    Dream,
    FrameShape,
    Losses,
    Part,
    Recoded,
    Segment,
    masked_mean,
    once,
    to_frames,
)
from tokenworlds.heads.reward import ReadoutReward
from tokenworlds.heads.termination import ReadoutTermination
from tokenworlds.nets.residual import FrameEncoder
from tokenworlds.tokenizers.delta import Delta
from tokenworlds.worlds.changes import draw_next, find_changes, find_some, losses_of_changes, redraw
from tokenworlds.worlds.glimpses import Glimpses, follows, openings
from tokenworlds.worlds.image_tokens import ImageDynamics
from tokenworlds.worlds.tokens import TokenView


@dataclass(frozen=True, slots=True)
class DeltaIrisCarry:
    """Where a dream stands: the frame in front of it, and the token that is yet to be read.

    `opens` is set where no step before the frame is known. See the sequence model's carry for what
    becomes of one that was stepped.
    """

    sequence: Carry
    pending: Int[Tensor, "B n"]
    frame: Float[Tensor, "B C H W"]
    opens: Bool[Tensor, " B"]


class DeltaIris(nn.Module, Component):
    """A tokenizer of changes that learns by itself, and a sequence model of its tokens."""

    coder, codes_look_back = "tokenizer", 1

    @dataclass(frozen=True, kw_only=True, slots=True)
    class Config(ConfigOf["DeltaIris"]):
        """Choices. `context` is how many steps before a frame a dream knows of; `draws_reward`
        takes a reward at random, as it is likely, and not the expected one. Without
        `with_image_tokens` only the first frame of a known history is shown, as in the paper's
        ablation; the place of the others is kept, and blank."""

        tokenizer: Delta.Config
        sequence: ConfigOf[SequenceModel[Any]]
        image: FrameEncoder.Config
        reward: ConfigOf[Head] = field(default_factory=ReadoutReward.Config)
        termination: ConfigOf[Head] = field(default_factory=ReadoutTermination.Config)
        draws_reward: bool = False
        context: int = 5
        with_image_tokens: bool = True

    def __init__(
        self, config: Config, *, frame_shape: FrameShape, action_space: ActionSpace
    ) -> None:
        super().__init__()
        self.config = config
        self.action_space = action_space
        self.tokenizer = config.tokenizer.build(frame_shape=frame_shape, action_space=action_space)
        self.tokens = self.tokenizer.tokens
        self.dynamics = ImageDynamics(
            image=config.image,
            frame_shape=frame_shape,
            every_frame=config.with_image_tokens,
            sequence=config.sequence,
            reward=config.reward,
            termination=config.termination,
            draws_reward=config.draws_reward,
            tokens=self.tokens,
            vocabulary=self.tokenizer.vocabulary,
            actions=action_space.size,
        )
        self.feature_shape: tuple[int, ...] = (self.dynamics.sequence.width,)
        self.dynamics.insist_on_context(config.context, self.tokens + 2)

    def parts(self) -> dict[str, Part]:
        """The tokenizer learns to draw, all else to foresee what it writes."""
        return {
            "tokenizer": Part(self.tokenizer, once(self.tokenizer_losses)),
            "world": Part(self.dynamics, once(self.losses)),
        }

    def tokenizer_losses(self, segment: Segment) -> Losses:
        """Of each frame that follows another of its episode."""
        return losses_of_changes(self.tokenizer, segment, self.action_space)

    def losses(self, segment: Segment) -> Losses:
        """Changes, rewards and endings, as the sequence before each foresees them.

        A change counts if both its frames are real and of one episode; the last step of an episode
        has an outcome and no change.
        """
        frames, opens = to_frames(segment.frame), openings(segment)
        action = self.action_space.encode(segment.action)
        index = find_changes(self.tokenizer, frames, action, segment.codes)
        nothing = functional.pad(index, (0, 0, 0, 1))
        hidden = self.dynamics.read(self._blocks(frames, action, nothing, opens), opens)
        # The action and all tokens but the last stand each before a token.
        loss, hit = self.dynamics.surprise(hidden[:, :-1, 1:-1], index)
        mask = follows(segment)
        accuracy = masked_mean(hit.float(), repeat(mask, "b t -> b t k", k=self.tokens))
        terms = {"tokens": loss.mean(-1)}
        foresight = Losses(terms, {"tokens": mask}, {"token_accuracy": accuracy})
        return foresight | self.dynamics.outcomes(hidden[:, :, 1], segment)

    def codes_of(self, segment: Segment, wanted: Bool[Tensor, "B T"]) -> Int[Tensor, "n K"]:
        """The tokens of the changes to some frames."""
        return find_some(self.tokenizer, segment, self.action_space, wanted)

    def _blocks(
        self,
        frames: Float[Tensor, "B T C H W"],
        action: Float[Tensor, "B T A"],
        index: Int[Tensor, "B T K"],
        opens: Bool[Tensor, "B T"],
    ) -> Float[Tensor, "B T n D"]:
        """I-token, action and changes of each step, as the sequence model reads them."""
        shown, doing = self.dynamics.show(frames, opens), self.dynamics.action(action)
        head = rearrange([shown, doing], "n b t d -> b t n d")
        return torch.cat([head, self.dynamics.token(index)], dim=2)

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
        carry = carry or Glimpses.blank(frame, self.config.context + 1, self.action_space)
        return carry.push(frame, self.action_space.encode(action), reset)

    @torch.no_grad()
    def start(self, segment: Segment, steps: int) -> DeltaIrisCarry:
        """The last frame of each row, with `context` steps before it as its history.

        Where the positions do not suffice for the dream, see `step`.
        """
        seen = Glimpses.of(segment, self.config.context + 1, self.action_space)
        return self._begin(seen, steps * (self.tokens + 2) + 1)

    def _begin(self, seen: Glimpses, coming: int | None) -> DeltaIrisCarry:
        """A dream of so many tokens, or of any number, from the last of some frames."""
        frames, before = to_frames(seen.frame), seen.opens[:, :-1]
        last, nothing = frames[:, -1], seen.frame.new_zeros((len(frames), 0), dtype=torch.long)
        if not before.shape[1]:
            sequence = self.dynamics.sequence.initial(len(frames), coming)
        else:
            index = find_changes(self.tokenizer, frames, seen.action, seen.codes)
            past = self._blocks(frames[:, :-1], seen.action[:, :-1], index, before)
            sequence = self.dynamics.remember(past, seen.opens, coming)
        return DeltaIrisCarry(sequence, nothing, last, seen.opens[:, -1])

    @torch.no_grad()
    def step(
        self, carry: DeltaIrisCarry | Glimpses, action: Tensor, generator: Generator | None = None
    ) -> tuple[DeltaIrisCarry, Dream]:
        """Imagine one step, token by token, and draw the frame it leads to.

        Where positions run out, or the steps announced, the past but for the last frame is dropped.
        """
        return self._step(carry, action, generator, at_random=False)

    @torch.no_grad()
    def step_at_random(
        self, carry: DeltaIrisCarry | Glimpses, action: Tensor, generator: Generator | None = None
    ) -> tuple[DeltaIrisCarry, Dream]:
        """The same with tokens that are drawn uniformly: what is left is what the tokenizer knows
        of frame and action (the paper's figure 3)."""
        return self._step(carry, action, generator, at_random=True)

    def _step(
        self,
        carry: DeltaIrisCarry | Glimpses,
        action: Tensor,
        generator: Generator | None,
        at_random: bool,
    ) -> tuple[DeltaIrisCarry, Dream]:
        carry = self._make_room(self._settle(carry))
        done = self.action_space.encode(action)
        x = torch.cat([self._unread(carry), self.dynamics.action(done)[:, None]], dim=1)
        dreamt = self.dynamics.unroll(x, carry.sequence, generator, at_random)
        frame = draw_next(self.tokenizer, dreamt.index, Context(carry.frame, done))
        opens = torch.zeros_like(carry.opens)
        carry = DeltaIrisCarry(dreamt.sequence, dreamt.index[:, -1:], frame, opens)
        view = self.view(carry)
        return carry, Dream(view.describe, dreamt.reward, dreamt.terminated, view.decode)

    def _unread(self, carry: DeltaIrisCarry) -> Float[Tensor, "B n D"]:
        """What the sequence model has not read yet, up to the I-token of the frame."""
        shown = self.dynamics.show(carry.frame, carry.opens)
        return torch.cat([self.dynamics.token(carry.pending), shown[:, None]], dim=1)

    def _settle(self, carry: DeltaIrisCarry | Glimpses) -> DeltaIrisCarry:
        return self._begin(carry, None) if isinstance(carry, Glimpses) else carry

    def _make_room(self, carry: DeltaIrisCarry) -> DeltaIrisCarry:
        """For one step, and for its last token and I-token should a feature be asked for."""
        tokens = carry.pending.shape[1] + 2 + self.tokens + 1
        if self.dynamics.has_room(carry.sequence, tokens):
            return carry
        sequence = self.dynamics.sequence.initial(len(carry.frame))
        opens = torch.ones_like(carry.opens)
        return DeltaIrisCarry(sequence, carry.pending[:, :0], carry.frame, opens)

    def view(self, carry: DeltaIrisCarry | Glimpses) -> TokenView:
        """The frame, real or dreamt, and the hidden state at its I-token."""
        look = carry.look if isinstance(carry, Glimpses) else lambda: carry.frame
        return TokenView(lambda: self._describe(carry), look)

    @torch.no_grad()
    def _describe(self, carry: DeltaIrisCarry | Glimpses) -> Float[Tensor, "B D"]:
        carry = self._settle(carry)
        hidden, _ = self.dynamics.extend(self._unread(carry), carry.sequence)
        return hidden[:, -1]

    def recode(self, segment: Segment) -> Recoded:
        """Each frame through its change from the one before."""
        return redraw(self.tokenizer, segment, self.action_space)

    def seen(self, segment: Segment) -> Float[Tensor, "B T C H W"]:
        """The frames themselves: nothing is lost on the way to a dream."""
        return to_frames(segment.frame)
