"""A world of frames written as tokens, each foreseen from all before it (IRIS, section 2.2).

A step is a block of the sequence: the tokens of its frame, then its action.
"""

from dataclasses import dataclass, field
from typing import Any, cast

import torch
from einops import rearrange
from jaxtyping import Bool, Float, Int, UInt8
from torch import Generator, Tensor, nn

from tokenworlds.core.config import Component, ConfigOf
from tokenworlds.core.protocols import Head, SequenceModel, Tokenizer
from tokenworlds.core.types import (
    ActionSpace,
    Carry,
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
from tokenworlds.heads.reward import SignReward
from tokenworlds.heads.termination import ReadoutTermination
from tokenworlds.worlds.glimpses import Glimpses, openings
from tokenworlds.worlds.tokens import Dynamics, TokenView


@dataclass(frozen=True, slots=True)
class IrisCarry:
    """Where a dream stands: the tokens in front of it, and those of them that are yet to be read.

    See the sequence model's carry for what becomes of one that was stepped.
    """

    sequence: Carry
    pending: Int[Tensor, "B n"]
    index: Int[Tensor, "B K"]


class Iris(nn.Module, Component):
    """A tokenizer that learns by itself, and a sequence model of its tokens."""

    coder, codes_look_back = "tokenizer", 0

    @dataclass(frozen=True, kw_only=True, slots=True)
    class Config(ConfigOf["Iris"]):
        """Choices. `context` is how many steps before a frame a dream knows of; `draws_reward`
        takes a reward at random, as it is likely, and not the expected one."""

        tokenizer: ConfigOf[Tokenizer]
        sequence: ConfigOf[SequenceModel[Any]]
        reward: ConfigOf[Head] = field(default_factory=SignReward.Config)
        termination: ConfigOf[Head] = field(default_factory=ReadoutTermination.Config)
        draws_reward: bool = True
        context: int = 0

    def __init__(
        self, config: Config, *, frame_shape: FrameShape, action_space: ActionSpace
    ) -> None:
        super().__init__()
        self.config = config
        self.action_space = action_space
        self.tokenizer = config.tokenizer.build(frame_shape=frame_shape)
        self.tokens = self.tokenizer.tokens
        self.dynamics = Dynamics(
            sequence=config.sequence,
            reward=config.reward,
            termination=config.termination,
            draws_reward=config.draws_reward,
            tokens=self.tokens,
            vocabulary=self.tokenizer.vocabulary,
            actions=action_space.size,
        )
        self.feature_shape: tuple[int, ...] = (self.dynamics.sequence.width,)
        self.dynamics.insist_on_context(config.context, self.tokens + 1)

    def parts(self) -> dict[str, Part]:
        """The tokenizer learns to draw, all else to foresee what it writes."""
        return {
            "tokenizer": Part(cast(nn.Module, self.tokenizer), once(self.tokenizer_losses)),
            "world": Part(self.dynamics, once(self.losses)),
        }

    def tokenizer_losses(self, segment: Segment) -> Losses:
        """Of single frames."""
        frames = to_frames(segment.frame)
        return self.tokenizer.losses(frames, self.tokenizer.encode(frames), segment.mask)

    def losses(self, segment: Segment) -> Losses:
        """Tokens, rewards and endings, as the sequence before each foresees them."""
        index, opens = self._codes(segment), openings(segment)
        action = self.action_space.encode(segment.action)
        hidden = self.dynamics.read(self._blocks(index, action), opens)
        foresight = self._foresight(hidden, index, opens, segment.mask)
        return foresight | self.dynamics.outcomes(hidden[:, :, -1], segment)

    def _foresight(
        self,
        hidden: Float[Tensor, "B T n D"],
        index: Int[Tensor, "B T K"],
        opens: Bool[Tensor, "B T"],
        mask: Bool[Tensor, "B T"],
    ) -> Losses:
        """Mean over the tokens of a frame; a frame that opens a history hides its first one.

        A frame counts by the share of its tokens that are foreseen, so that all tokens count alike.
        """
        # Before the first token of a frame stands the action of the step before.
        before = rearrange(hidden.roll(1, dims=1)[:, :, -1], "b t d -> b t 1 d")
        source = torch.cat([before, hidden[:, :, : self.tokens - 1]], dim=2)
        loss, hit = self.dynamics.surprise(source, index)
        foreseen = torch.ones_like(loss)
        foreseen[:, :, 0] = (~opens).to(loss.dtype)
        count = foreseen.sum(-1)
        term = (loss * foreseen).sum(-1) / count.clamp_min(1)
        accuracy = masked_mean(hit.float(), foreseen * mask.unsqueeze(-1))
        weight = mask * count / self.tokens
        return Losses({"tokens": term}, {"tokens": weight}, {"token_accuracy": accuracy})

    @torch.no_grad()
    def _encode(self, frame: UInt8[Tensor, "*rest H W C"]) -> Int[Tensor, "*rest K"]:
        return self.tokenizer.encode(to_frames(frame)).index

    def codes_of(self, segment: Segment, wanted: Bool[Tensor, "B T"]) -> Int[Tensor, "n K"]:
        """The tokens of some frames."""
        return self._encode(segment.frame[wanted])

    def _codes(self, seen: Segment | Glimpses) -> Int[Tensor, "B T K"]:
        """The tokens of all frames, written now unless they are known."""
        return self._encode(seen.frame) if seen.codes is None else seen.codes

    def _blocks(
        self, index: Int[Tensor, "B T K"], action: Float[Tensor, "B T A"]
    ) -> Float[Tensor, "B T n D"]:
        """The tokens of each frame and its action, as the sequence model reads them."""
        doing = rearrange(self.dynamics.action(action), "b t d -> b t 1 d")
        return torch.cat([self.dynamics.token(index), doing], dim=2)

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
    def start(self, segment: Segment, steps: int) -> IrisCarry:
        """The last frame of each row, with `context` steps before it as its history.

        Where the positions do not suffice for the dream, see `step`.
        """
        seen = Glimpses.of(segment, self.config.context + 1, self.action_space)
        return self._begin(seen, self.tokens + steps * (self.tokens + 1))

    def _begin(self, seen: Glimpses, coming: int | None) -> IrisCarry:
        """A dream of so many tokens, or of any number, from the last of some frames."""
        index = self._codes(seen)
        past = self._blocks(index[:, :-1], seen.action[:, :-1])
        sequence = self.dynamics.remember(past, seen.opens, coming)
        return IrisCarry(sequence, index[:, -1], index[:, -1])

    @torch.no_grad()
    def step(
        self, carry: IrisCarry | Glimpses, action: Tensor, generator: Generator | None = None
    ) -> tuple[IrisCarry, Dream]:
        """Imagine one step, token by token.

        Where positions run out, or the steps announced, the past but for the last frame is dropped.
        """
        carry = self._make_room(self._settle(carry))
        doing = self.dynamics.action(self.action_space.encode(action))
        x = torch.cat([self.dynamics.token(carry.pending), doing[:, None]], dim=1)
        dreamt = self.dynamics.unroll(x, carry.sequence, generator)
        carry = IrisCarry(dreamt.sequence, dreamt.index[:, -1:], dreamt.index)
        view = self.view(carry)
        return carry, Dream(view.describe, dreamt.reward, dreamt.terminated, view.decode)

    def _settle(self, carry: IrisCarry | Glimpses) -> IrisCarry:
        return self._begin(carry, None) if isinstance(carry, Glimpses) else carry

    def _make_room(self, carry: IrisCarry) -> IrisCarry:
        """For one step, and for the last token of its frame should a feature be asked for."""
        tokens = carry.pending.shape[1] + 1 + self.tokens
        if self.dynamics.has_room(carry.sequence, tokens):
            return carry
        sequence = self.dynamics.sequence.initial(len(carry.index))
        return IrisCarry(sequence, carry.index, carry.index)

    def view(self, carry: IrisCarry | Glimpses) -> TokenView:
        """What the tokens stand for, and the hidden state at the last of them."""
        return TokenView(lambda: self._describe(carry), lambda: self._draw(carry))

    @torch.no_grad()
    def _describe(self, carry: IrisCarry | Glimpses) -> Float[Tensor, "B D"]:
        carry = self._settle(carry)
        hidden, _ = self.dynamics.extend(self.dynamics.token(carry.pending), carry.sequence)
        return hidden[:, -1]

    @torch.no_grad()
    def _draw(self, carry: IrisCarry | Glimpses) -> Float[Tensor, "B C H W"]:
        if isinstance(carry, Glimpses):
            return self.tokenizer.decode(self.tokenizer.encode(carry.look()))
        return self.tokenizer.decode(self.tokenizer.look_up(carry.index))

    @torch.no_grad()
    def recode(self, segment: Segment) -> Recoded:
        """The segment through tokens and back."""
        index = self._codes(segment)
        drawn = self.tokenizer.decode(self.tokenizer.look_up(index))
        grid: tuple[int, int] | None = getattr(self.tokenizer, "grid", None)
        return Recoded(index, drawn, self.tokenizer.vocabulary, grid)

    def seen(self, segment: Segment) -> Float[Tensor, "B T C H W"]:
        """What the tokens stand for, as in a dream."""
        return self.recode(segment).frame
