"""A world of frames as token sequences, predicted token by token (IRIS, section 2.2).

A step is a block of the sequence: the tokens of its frame, then its action.
"""

from dataclasses import dataclass, field
from typing import Any

import torch
from einops import rearrange
from jaxtyping import Bool, Float, Int, UInt8
from torch import Generator, Tensor

from tokenworlds.core.config import Component, ConfigOf
from tokenworlds.core.inspection import Prediction
from tokenworlds.core.protocols import Head, SequenceModel, Tokenizer
from tokenworlds.core.types import (
    ActionSpace,
    Carry,
    FrameShape,
    Losses,
    Outcome,
    Reconstruction,
    Segment,
    View,
    masked_mean,
    to_frames,
)
from tokenworlds.heads.outcomes import ReadoutTermination, SignReward, outcome_losses
from tokenworlds.worlds.history import History, TwoLearnerWorld, starts
from tokenworlds.worlds.parts import check_discrete
from tokenworlds.worlds.tokens import TokenDynamics


@dataclass(frozen=True, slots=True)
class IrisCarry:
    """The tokens of the current frame, and those that the sequence model has not read yet.

    See the sequence model's carry for when an older one stays valid.
    """

    sequence: Carry
    pending: Int[Tensor, "B n"]
    index: Int[Tensor, "B K"]


class Iris(TwoLearnerWorld, Component):
    """A tokenizer with its own losses, and a sequence model of its tokens."""

    frames = 1
    tokenizer: Tokenizer
    dynamics: TokenDynamics
    tokenizer_learner, token_context = "tokenizer", 0

    @dataclass(frozen=True, kw_only=True, slots=True)
    class Config(ConfigOf["Iris"]):
        """`context` is the number of steps that a dream knows before its first frame.
        `samples_reward` samples the reward instead of using its mean."""

        tokenizer: ConfigOf[Tokenizer]
        sequence: ConfigOf[SequenceModel[Any]]
        reward: ConfigOf[Head] = field(default_factory=SignReward.Config)
        termination: ConfigOf[Head] = field(default_factory=ReadoutTermination.Config)
        samples_reward: bool = True
        context: int = 0

    def __init__(
        self, config: Config, *, frame_shape: FrameShape, action_space: ActionSpace
    ) -> None:
        super().__init__()
        self.config = config
        self.action_space, self.kept = action_space, config.context + 1
        self.tokenizer = config.tokenizer.build_from(
            frame_shape=frame_shape, action_space=action_space
        )
        check_discrete(self.tokenizer)
        self.tokens = self.tokenizer.tokens
        self.dynamics = TokenDynamics(
            sequence=config.sequence,
            reward=config.reward,
            termination=config.termination,
            samples_reward=config.samples_reward,
            tokens=self.tokens,
            vocabulary=self.tokenizer.vocabulary,
            actions=action_space.size,
        )
        self.feature_shape: tuple[int, ...] = (self.dynamics.sequence.width,)
        self.dynamics.check_context(config.context, self.tokens + 1)

    def trained_horizon(self, length: int) -> int | None:
        return self.dynamics.trained_horizon(self.config.context, length)

    def tokenizer_losses(self, segment: Segment) -> Losses:
        frames = to_frames(segment.frame)
        return self.tokenizer.losses(frames, self.tokenizer.encode(frames), segment.mask)

    def losses(self, segment: Segment) -> Losses:
        """Prediction of each token, reward and termination from the sequence before it."""
        index, opens = self._tokens(segment.frame, segment.tokens), starts(segment)
        action = self.action_space.encode(segment.action)
        hidden = self.dynamics.read(self._blocks(index, action), opens)
        outcomes = outcome_losses(
            self.dynamics.reward, self.dynamics.termination, hidden[:, :, -1], segment
        )
        return self._token_losses(hidden, index, opens, segment.mask) | outcomes

    def _token_losses(
        self,
        hidden: Float[Tensor, "B T n D"],
        index: Int[Tensor, "B T K"],
        starts: Bool[Tensor, "B T"],
        mask: Bool[Tensor, "B T"],
    ) -> Losses:
        """The mean over a frame's tokens. At a start, nothing predicts the first token.

        The mask weighs a frame by its share of predicted tokens, so that all tokens count alike.
        """
        # The action of the previous step precedes the first token of a frame.
        before = rearrange(hidden.roll(1, dims=1)[:, :, -1], "b t d -> b t 1 d")
        source = torch.cat([before, hidden[:, :, : self.tokens - 1]], dim=2)
        loss, hit = self.dynamics.token_nll(source, index)
        predicted = torch.ones_like(loss)
        predicted[:, :, 0] = (~starts).to(loss.dtype)
        count = predicted.sum(-1)
        term = (loss * predicted).sum(-1) / count.clamp_min(1)
        accuracy = masked_mean(hit.float(), predicted * mask.unsqueeze(-1))
        weight = mask * count / self.tokens
        return Losses({"tokens": term}, {"tokens": weight}, {"token_accuracy": accuracy})

    @torch.no_grad()
    def _encode(self, frame: UInt8[Tensor, "*rest H W C"]) -> Int[Tensor, "*rest K"]:
        return self.tokenizer.encode(to_frames(frame)).index

    def tokens_of(self, segment: Segment, wanted: Bool[Tensor, "B T"]) -> Int[Tensor, "n K"]:
        return self._encode(segment.frame[wanted])

    def _tokens(
        self, frame: UInt8[Tensor, "B T H W C"], cached: Int[Tensor, "B T K"] | None
    ) -> Int[Tensor, "B T K"]:
        return self._encode(frame) if cached is None else cached

    def _blocks(
        self, index: Int[Tensor, "B T K"], action: Float[Tensor, "B T A"]
    ) -> Float[Tensor, "B T n D"]:
        """The embedded tokens and action of each step."""
        actions = rearrange(self.dynamics.action(action), "b t d -> b t 1 d")
        return torch.cat([self.dynamics.token(index), actions], dim=2)

    @torch.no_grad()
    def start(self, segment: Segment, steps: int) -> IrisCarry:
        history = History.of_segment(segment, self.kept, self.action_space)
        return self._prefill(history, self.tokens + steps * (self.tokens + 1))

    def _prefill(self, history: History, room: int | None) -> IrisCarry:
        index = self._tokens(history.observation, history.tokens)
        past = self._blocks(index[:, :-1], history.action[:, :-1])
        sequence = self.dynamics.prefill(past, history.starts, room)
        return IrisCarry(sequence, index[:, -1], index[:, -1])

    @torch.no_grad()
    def step(
        self, carry: IrisCarry | History, action: Tensor, generator: Generator | None = None
    ) -> tuple[IrisCarry, Outcome]:
        """Imagine one step, token by token.

        When positions run out, history is cleared except for the current frame.
        """
        carry = self._make_room(self._to_carry(carry))
        actions = self.dynamics.action(self.action_space.encode(action))
        x = torch.cat([self.dynamics.token(carry.pending), actions[:, None]], dim=1)
        unrolled = self.dynamics.unroll(x, carry.sequence, generator)
        carry = IrisCarry(unrolled.sequence, unrolled.index[:, -1:], unrolled.index)
        return carry, unrolled.outcome

    @torch.no_grad()
    def predict(self, carry: IrisCarry | History, action: Tensor, following: Segment) -> Prediction:
        carry = self._make_room(self._to_carry(carry))
        actions = self.dynamics.action(self.action_space.encode(action))
        x = torch.cat([self.dynamics.token(carry.pending), actions[:, None]], dim=1)
        return self.dynamics.predict(x, carry.sequence, self._encode(following.frame[:, -1]))

    def _to_carry(self, carry: IrisCarry | History) -> IrisCarry:
        return self._prefill(carry, None) if isinstance(carry, History) else carry

    def _make_room(self, carry: IrisCarry) -> IrisCarry:
        """Room for one step, and for the last token of its frame in case a feature is read."""
        tokens = carry.pending.shape[1] + 1 + self.tokens
        if self.dynamics.has_room(carry.sequence, tokens):
            return carry
        sequence = self.dynamics.sequence.initial(len(carry.index))
        return IrisCarry(sequence, carry.index, carry.index)

    def view(self, carry: IrisCarry | History) -> View:
        """The feature is the hidden state at the frame's last token."""
        return View(lambda: self._feature(carry), lambda: self._decode(carry))

    def tokens_in(self, carry: IrisCarry | History) -> Int[Tensor, "B K"]:
        if isinstance(carry, History):
            return self._encode(carry.observation[:, -1])
        return carry.index

    def view_with(self, carry: IrisCarry | History, index: Int[Tensor, "B K"]) -> View:
        """The feature is that of a history which starts with this frame."""
        sequence = self.dynamics.sequence.initial(len(index), index.shape[1])
        return self.view(IrisCarry(sequence, index, index))

    @torch.no_grad()
    def _feature(self, carry: IrisCarry | History) -> Float[Tensor, "B D"]:
        carry = self._to_carry(carry)
        hidden, _ = self.dynamics.extend(self.dynamics.token(carry.pending), carry.sequence)
        return hidden[:, -1]

    @torch.no_grad()
    def _decode(self, carry: IrisCarry | History) -> Float[Tensor, "B C H W"]:
        if isinstance(carry, History):
            return self.tokenizer.decode(self.tokenizer.encode(carry.frame))
        return self.tokenizer.decode(self.tokenizer.look_up(carry.index))

    @torch.no_grad()
    def reconstruct(self, segment: Segment) -> Reconstruction:
        index = self._tokens(segment.frame, segment.tokens)
        decoded = self.tokenizer.decode(self.tokenizer.look_up(index))
        return Reconstruction(index, decoded, self.tokenizer.vocabulary, self.tokenizer.grid)

    def policy_frames(self, segment: Segment) -> Float[Tensor, "B T C H W"]:
        return self.reconstruct(segment).frame
