"""A world with one vector of history per step (STEP-VQ, figure 6; DRAMA; STORM).

h_t summarises codes and actions before t and predicts the codes of t; behaviours read both.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import torch
from jaxtyping import Bool, Float, Int, UInt8
from torch import Generator, Tensor, nn

from tokenworlds.core.coded import Coded
from tokenworlds.core.config import Component, ConfigOf
from tokenworlds.core.errors import UserError
from tokenworlds.core.protocols import Prior, SequenceModel, StateMixer, Tokenizer
from tokenworlds.core.trees import map_tensors, where_rows
from tokenworlds.core.types import (
    ActionSpace,
    Carry,
    Codes,
    Dream,
    FrameShape,
    Losses,
    Part,
    Recoded,
    Segment,
    once,
    to_frames,
)
from tokenworlds.heads.reward import MLPReward
from tokenworlds.heads.termination import MLPTermination
from tokenworlds.mixers.projection import Projection
from tokenworlds.worlds.outcomes import outcome_losses
from tokenworlds.worlds.recent import Recent


@dataclass(frozen=True, slots=True)
class LatentCarry:
    """Where the world stands: history, the codes in front of it, and what was seen of late.

    `shown` are the codes that a behaviour is to read instead, if it acts on predictions.
    """

    sequence: Carry
    history: Float[Tensor, "B D"]
    index: Int[Tensor, "B K"]
    first: Bool[Tensor, " B"]
    recent: Recent | None
    shown: Int[Tensor, "B K"] | None = None


@dataclass(frozen=True, slots=True)
class LatentView:
    """Codes and history; one vector of both, or a frame, on request."""

    coded: Coded
    decode: Callable[[], Float[Tensor, "B C H W"]]

    @property
    def feature(self) -> Float[Tensor, "B D"]:
        """Codes as one-hots, beside the history."""
        return self.coded.dense()

    @property
    def frame(self) -> Float[Tensor, "B C H W"]:
        """The frame that the codes stand for."""
        return self.decode()


class Latent(nn.Module, Component):
    """Tokenizer, sequence model, prior and two heads."""

    @dataclass(frozen=True, kw_only=True, slots=True)
    class Config(ConfigOf["Latent"]):
        """Choices. `memory` is how many real steps are looked back on when acting (0: all of the
        episode, carried along). `acts_on="prediction"` is the habit of DRAMA's and STORM's code,
        which act on the codes foreseen for the frame in front of them. `detach` keeps dynamics
        losses out of the tokenizer."""

        tokenizer: ConfigOf[Tokenizer]
        sequence: ConfigOf[SequenceModel[Any]]
        prior: ConfigOf[Prior]
        mixer: ConfigOf[StateMixer] = field(default_factory=Projection.Config)
        reward: MLPReward.Config = field(default_factory=MLPReward.Config)
        termination: MLPTermination.Config = field(default_factory=MLPTermination.Config)
        memory: int = 16
        acts_on: Literal["encoding", "prediction"] = "encoding"
        detach: bool = False

    def __init__(
        self, config: Config, *, frame_shape: FrameShape, action_space: ActionSpace
    ) -> None:
        super().__init__()
        if config.memory < 0:
            raise UserError(f"world.memory takes 0 or more steps, not {config.memory}")
        self.config = config
        self.action_space = action_space
        self.tokenizer = config.tokenizer.build(frame_shape=frame_shape)
        self.sequence = config.sequence.build()
        sizes = {"tokens": self.tokenizer.tokens, "vocabulary": self.tokenizer.vocabulary}
        width = self.sequence.width
        self.mixer = config.mixer.build(actions=action_space.size, width=width, **sizes)
        self.prior = config.prior.build(width=width, **sizes)
        self.reward = config.reward.build(width=width)
        self.termination = config.termination.build(width=width)
        self.feature_shape: tuple[int, ...] = (sizes["tokens"] * sizes["vocabulary"] + width,)

    def parts(self) -> dict[str, Part]:
        """All of it learns together."""
        return {"world": Part(self, once(self.losses))}

    def losses(self, segment: Segment) -> Losses:
        """Everything at once: codes that stand for frames, and a history that foresees them."""
        frames = to_frames(segment.frame)
        codes = self.tokenizer.encode(frames)
        history = self._read(codes, segment)
        foreseen = map_tensors(lambda part: part[:, 1:], codes)
        same_episode = segment.mask[:, 1:] & ~segment.first[:, 1:]
        return (
            self.tokenizer.losses(frames, codes, segment.mask)
            | self.prior.losses(history[:, :-1], foreseen, same_episode)
            | outcome_losses(self.reward, self.termination, history, segment)
        )

    def _read(self, codes: Codes, segment: Segment) -> Float[Tensor, "B T D"]:
        """h_{t+1} for each step t of the segment: what is known after acting."""
        sample = codes.sample.detach() if self.config.detach else codes.sample
        x = self.mixer(sample, self.action_space.encode(segment.action))
        batch, steps = segment.first.shape
        history, _ = self.sequence.scan(x, segment.first, self.sequence.initial(batch, steps))
        return history

    @torch.no_grad()
    def observe(
        self,
        frame: UInt8[Tensor, "B H W C"],
        action: Tensor,
        reset: Bool[Tensor, " B"],
        carry: LatentCarry | None,
        generator: Generator | None = None,
    ) -> LatentCarry:
        """Move on by the last codes and the action, then look at the frame."""
        carry = self._remember(carry or self._blank(len(frame)), self.action_space.encode(action))
        carry = self._forget(carry, reset)
        index, shown = self.tokenizer.encode(to_frames(frame)).index, None
        if self.config.acts_on == "prediction":
            foreseen = self.prior.sample(carry.history, generator)
            shown = torch.where(reset.unsqueeze(-1), index, foreseen)
        return replace(carry, index=index, shown=shown, first=reset)

    def _remember(self, carry: LatentCarry, action: Float[Tensor, "B A"]) -> LatentCarry:
        """h_t: by one recurrent step, or by reading the recent steps anew."""
        if carry.recent is None:
            return self._advance(carry, action)
        recent = carry.recent.push(carry.index, action, carry.first)
        x = self.mixer.look_up(recent.index, recent.action)
        blank = self.sequence.initial(len(action), self.config.memory)
        history, sequence = self.sequence.scan(x, recent.first, blank)
        return replace(carry, sequence=sequence, history=history[:, -1], recent=recent)

    def _advance(self, carry: LatentCarry, action: Float[Tensor, "B A"]) -> LatentCarry:
        x = self.mixer.look_up(carry.index, action)
        history, sequence = self.sequence.step(x, carry.sequence)
        return replace(carry, sequence=sequence, history=history)

    def _forget(self, carry: LatentCarry, reset: Bool[Tensor, " B"]) -> LatentCarry:
        """No history where an episode begins."""
        blank = self.sequence.initial(len(reset), self.config.memory or None)
        sequence = where_rows(reset, blank, carry.sequence)
        history = carry.history.masked_fill(reset.unsqueeze(-1), 0.0)
        return replace(carry, sequence=sequence, history=history)

    def _blank(self, batch: int) -> LatentCarry:
        device = next(self.parameters()).device
        tokens, memory = self.tokenizer.tokens, self.config.memory
        return LatentCarry(
            sequence=self.sequence.initial(batch, memory or None),
            history=torch.zeros(batch, self.sequence.width, device=device),
            index=torch.zeros(batch, tokens, dtype=torch.long, device=device),
            first=torch.ones(batch, dtype=torch.bool, device=device),
            recent=Recent.blank(batch, memory, tokens, self.action_space.size, device)
            if memory
            else None,
        )

    @torch.no_grad()
    def start(self, segment: Segment, steps: int) -> LatentCarry:
        """The last frame of each row with the steps before it as its history."""
        index = self.tokenizer.encode(to_frames(segment.frame)).index
        batch, length = segment.first.shape
        sequence = self.sequence.initial(batch, length - 1 + steps)
        history = torch.zeros(batch, self.sequence.width, device=index.device)
        if length > 1:
            action = self.action_space.encode(segment.action[:, :-1])
            x = self.mixer.look_up(index[:, :-1], action)
            read, read_carry = self.sequence.scan(x, segment.first[:, :-1], sequence)
            opens = segment.first[:, -1]
            sequence = where_rows(opens, sequence, read_carry)
            history = read[:, -1].masked_fill(opens.unsqueeze(-1), 0.0)
        return LatentCarry(sequence, history, index[:, -1], segment.first[:, -1], None)

    @torch.no_grad()
    def step(
        self, carry: LatentCarry, action: Tensor, generator: Generator | None = None
    ) -> tuple[LatentCarry, Dream]:
        """Imagine what comes of an action; nothing is decoded unless asked for."""
        carry = self._advance(carry, self.action_space.encode(action))
        index = self.prior.sample(carry.history, generator)
        carry = replace(carry, index=index, shown=None, first=torch.zeros_like(carry.first))
        view = self.view(carry)
        reward, terminated = self.reward(carry.history).mean, self.termination(carry.history).mean
        return carry, Dream(view.coded.dense, reward, terminated, view.decode, view.coded)

    def view(self, carry: LatentCarry) -> LatentView:
        """The codes and the history."""
        index = carry.index if carry.shown is None else carry.shown
        coded = Coded(index, carry.history, self.tokenizer.vocabulary)
        return LatentView(coded, lambda: self.tokenizer.decode(self.tokenizer.look_up(index)))

    @torch.no_grad()
    def recode(self, segment: Segment) -> Recoded:
        """The segment through codes and back."""
        index = self.tokenizer.encode(to_frames(segment.frame)).index
        drawn = self.tokenizer.decode(self.tokenizer.look_up(index))
        grid: tuple[int, int] | None = getattr(self.tokenizer, "grid", None)
        return Recoded(index, drawn, self.tokenizer.vocabulary, grid)

    def seen(self, segment: Segment) -> Float[Tensor, "B T C H W"]:
        """What the codes hold, as in a dream."""
        return self.recode(segment).frame
