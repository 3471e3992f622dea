"""A latent world: one vector of history per step (STEP-VQ, figure 6; DRAMA; STORM).

h_t summarises the tokens and actions before t and predicts the tokens of t. Behaviours read both.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import torch
from einops import rearrange
from jaxtyping import Bool, Float, Int, Shaped, UInt8
from torch import Generator, Tensor, nn
from torch.nn import functional

from tokenworlds.core.config import Component, ConfigOf
from tokenworlds.core.errors import UserError
from tokenworlds.core.inspection import Prediction
from tokenworlds.core.protocols import Head, Prior, SequenceModel, StateMixer, Tokenizer
from tokenworlds.core.sharing import all_rows, among, first_rows
from tokenworlds.core.trees import map_tensors, where_rows
from tokenworlds.core.types import (
    ActionSpace,
    Carry,
    Cells,
    Codes,
    FrameShape,
    Losses,
    Outcome,
    Reconstruction,
    Segment,
    TokenFeature,
    Trainable,
    View,
    to_frames,
)
from tokenworlds.heads.outcomes import MLPReward, MLPTermination, outcome_losses
from tokenworlds.mixers.projection import Projection
from tokenworlds.nets.fast import eager_on_device
from tokenworlds.nets.fast.outcomes import predict_outcome
from tokenworlds.nets.local_dynamics import LocalDynamics
from tokenworlds.nets.transformer import forget
from tokenworlds.worlds.history import History
from tokenworlds.worlds.parts import cell_grid, check_discrete, has_cells, shared_vectors
from tokenworlds.worlds.scoring import score_codes


@dataclass(frozen=True, slots=True)
class LatentCarry:
    """The sequence model's carry, its output h, the tokens of the current frame, recent steps.

    With local dynamics, `hidden` is h and then the vectors of all cells, and `previous` are the
    tokens of the frame before. `policy_index` are the tokens that the behaviour reads instead, if
    it acts on predictions.
    """

    sequence: Carry
    hidden: Float[Tensor, "B D"]
    index: Int[Tensor, "B K"]
    recent: History | None
    policy_index: Int[Tensor, "B K"] | None = None
    previous: Int[Tensor, "B K"] | None = None


class Latent(nn.Module, Component):
    """Tokenizer, state mixer, sequence model, prior and two heads, trained together."""

    frames = 1

    @dataclass(frozen=True, kw_only=True, slots=True)
    class Config(ConfigOf["Latent"]):
        """`memory` is the number of real steps that the agent reads when it acts (0: the whole
        episode, recurrently). `acts_on="prediction"` acts on the tokens predicted for the current
        frame, as the code of DRAMA and STORM does. `detach` stops gradients of the dynamics losses
        before the tokenizer. `tokenizer_rows` is the number of sequences of a batch that train the
        tokenizer (0: all); the others are only encoded, at a quarter of the cost. `local` adds
        convolutions over the tokens of the last two frames: the prior reads the vector of each
        cell beside h, and the heads read all of them pooled. It has no effect on tokens without
        a grid, and with priors that read no cells."""

        tokenizer: ConfigOf[Tokenizer]
        sequence: ConfigOf[SequenceModel[Any]]
        prior: ConfigOf[Prior]
        mixer: ConfigOf[StateMixer] = field(default_factory=Projection.Config)
        reward: ConfigOf[Head] = field(default_factory=MLPReward.Config)
        termination: ConfigOf[Head] = field(default_factory=MLPTermination.Config)
        memory: int = 16
        acts_on: Literal["encoding", "prediction"] = "encoding"
        detach: bool = False
        tokenizer_rows: int = 0
        local: LocalDynamics.Config | None = None

    def __init__(
        self, config: Config, *, frame_shape: FrameShape, action_space: ActionSpace
    ) -> None:
        super().__init__()
        if config.memory < 0:
            raise UserError(f"world.memory takes 0 or more steps, not {config.memory}")
        self.config = config
        self.action_space = action_space
        self.tokenizer = config.tokenizer.build_from(
            frame_shape=frame_shape, action_space=action_space
        )
        check_discrete(self.tokenizer, config.prior)
        self.sequence = config.sequence.build_from()
        sizes = {"tokens": self.tokenizer.tokens, "vocabulary": self.tokenizer.vocabulary}
        width = self.sequence.width
        self.mixer = config.mixer.build(actions=action_space.size, width=width, **sizes)
        local = config.local if has_cells(self.tokenizer, config.prior) else None
        channels, pooled = (local.channels, local.pooled) if local else (0, 0)
        vectors = shared_vectors(self.tokenizer)
        scored = local is not None and local.predicts == "vector" and vectors is not None
        self.prior = config.prior.build_from(width=width, local=channels, scored=scored, **sizes)
        self.reward = config.reward.build(width=width + 2 * pooled)
        self.termination = config.termination.build(width=width + 2 * pooled)
        self.local: LocalDynamics | None = None
        if local is not None:
            self.local = local.build(
                grid=self.tokenizer.grid,
                vocabulary=sizes["vocabulary"],
                code_width=None if vectors is None else vectors.shape[-1],
                actions=action_space.size,
                width=width,
            )
        self.hidden_width = width + (self.local.width if self.local else 0) * sizes["tokens"]
        grid = cell_grid(self.tokenizer)
        self.cells = None if grid is None else Cells(grid, sizes["vocabulary"])
        self.feature_shape: tuple[int, ...] = (sizes["tokens"] * sizes["vocabulary"] + width,)

    def trainables(self) -> dict[str, Trainable]:
        return {"world": Trainable(self, self.losses)}

    def compile_with(self, compile_function: Callable[..., Any]) -> None:
        vars(self).update(losses=compile_function(self.losses), step=compile_function(self.step))

    def losses(self, segment: Segment) -> Losses:
        """Reconstruction, prediction of the next tokens, reward and termination."""
        frames = to_frames(segment.frame)
        rows, codes = self._encode(frames)
        sample = codes.sample.detach() if self.config.detach else codes.sample
        action = self.action_space.encode(segment.action)
        x = self.mixer(sample, action)
        blank = self.sequence.initial(*segment.first.shape)
        # hidden[:, t] is h_{t+1}: it has read the tokens and the action of step t.
        hidden, _ = self.sequence.scan(x, segment.first, blank)
        if self.local is not None:
            before = functional.pad(sample[:, :-1], (0, 0, 0, 0, 1, 0))
            before = before.masked_fill(rearrange(segment.first, "b t -> b t 1 1"), 0.0)
            cells = self.local(sample, before, action, hidden, self._code_vectors())
            hidden = with_cells(hidden, cells)
        next_codes = map_tensors(lambda part: part[:, 1:], codes)
        same_episode = segment.mask[:, 1:] & ~segment.first[:, 1:]
        return (
            self.tokenizer.losses(
                frames[:rows], map_tensors(lambda part: part[:rows], codes), segment.mask[:rows]
            )
            | self.prior.losses(hidden[:, :-1], next_codes, same_episode)
            | outcome_losses(self.reward, self.termination, self._summary(hidden), segment)
        )

    def _summary(self, hidden: Float[Tensor, "*rest D"]) -> Float[Tensor, "*rest E"]:
        """What the heads read: h, and the vectors of all cells pooled."""
        if self.local is None:
            return hidden
        history, flat = hidden[..., : self.sequence.width], hidden[..., self.sequence.width :]
        cells = rearrange(flat, "... (k c) -> ... k c", c=self.local.width)
        return torch.cat([history, self.local.summarise(cells)], dim=-1)

    def _encode(self, frames: Float[Tensor, "B T C H W"]) -> tuple[int, Codes]:
        """Encode all frames; gradients reach the tokenizer from the first sequences of a batch.

        Returns how many of them are here.
        """
        batch = all_rows(len(frames))
        count = min(self.config.tokenizer_rows or batch, batch)
        rows = first_rows(count, len(frames))
        with among(0, count):
            trained = self.tokenizer.encode(frames[:rows])
        if count == batch:
            return rows, trained
        with torch.no_grad(), among(count, batch):
            others = self.tokenizer.encode(frames[rows:])
        return rows, map_tensors(lambda *parts: torch.cat(parts), trained, others)

    @torch.no_grad()
    def observe(
        self,
        frame: UInt8[Tensor, "B H W C"],
        action: Tensor,
        reset: Bool[Tensor, " B"],
        carry: LatentCarry | None,
        generator: Generator | None = None,
    ) -> LatentCarry:
        index = self.tokenizer.encode(to_frames(frame)).index
        carry = carry or self._blank(index)
        done = self.action_space.encode(action)
        carry = self._advance(carry, done) if carry.recent is None else self._reread(carry, done)
        carry = self._clear(carry, reset)
        recent = carry.recent and carry.recent.push(index, done, reset)
        previous = self._forget_tokens(carry.index, reset)
        policy_index = None
        if self.config.acts_on == "prediction":
            predicted = self.prior.sample(carry.hidden, generator)
            policy_index = torch.where(reset.unsqueeze(-1), index, predicted)
        return replace(
            carry, index=index, recent=recent, policy_index=policy_index, previous=previous
        )

    def _reread(self, carry: LatentCarry, action: Float[Tensor, "B A"]) -> LatentCarry:
        """Compute h from the recent steps alone."""
        assert carry.recent is not None
        recent = carry.recent
        actions = torch.cat([recent.action[:, :-1], action[:, None]], dim=1)
        x = self.mixer.look_up(recent.observation, actions)
        blank = self.sequence.initial(len(action), self.config.memory)
        hidden, sequence = self.sequence.scan(x, recent.first, blank)
        hidden = self._add_cells(hidden[:, -1], carry.index, carry.previous, action)
        return replace(carry, sequence=sequence, hidden=hidden)

    def _advance(self, carry: LatentCarry, action: Float[Tensor, "B A"]) -> LatentCarry:
        x = self.mixer.look_up(carry.index, action)
        hidden, sequence = self.sequence.step(x, carry.sequence)
        hidden = self._add_cells(hidden, carry.index, carry.previous, action)
        return replace(carry, sequence=sequence, hidden=hidden)

    def _add_cells(
        self,
        hidden: Float[Tensor, "B D"],
        index: Int[Tensor, "B K"],
        previous: Int[Tensor, "B K"] | None,
        action: Float[Tensor, "B A"],
    ) -> Float[Tensor, "B E"]:
        """h and the local dynamics of the step that led to it."""
        if self.local is None or previous is None:
            return hidden
        cells = self.local.look_up(index, previous, action, hidden, self._code_vectors())
        return with_cells(hidden, cells)

    def _code_vectors(self) -> Float[Tensor, "V E"] | None:
        """Those of all codes, if the local dynamics read them."""
        reads = self.local is not None and self.local.by_vector
        return shared_vectors(self.tokenizer) if reads else None

    def _forget_tokens(
        self, index: Int[Tensor, "B K"], reset: Bool[Tensor, " B"]
    ) -> Int[Tensor, "B K"] | None:
        """The tokens of a frame that becomes the previous one, unknown where an episode starts."""
        if self.local is None:
            return None
        return index.masked_fill(reset.unsqueeze(-1), self.local.unknown)

    def _clear(self, carry: LatentCarry, reset: Bool[Tensor, " B"]) -> LatentCarry:
        """Clear history where an episode starts."""
        blank = self.sequence.initial(len(reset), self.config.memory or None)
        sequence = where_rows(reset, blank, carry.sequence)
        hidden = carry.hidden.masked_fill(reset.unsqueeze(-1), 0.0)
        return replace(carry, sequence=sequence, hidden=hidden)

    def _blank(self, index: Int[Tensor, "B K"]) -> LatentCarry:
        memory, batch = self.config.memory, len(index)
        nothing = torch.ones(batch, dtype=torch.bool, device=index.device)
        return LatentCarry(
            sequence=self.sequence.initial(batch, memory or None),
            hidden=torch.zeros(batch, self.hidden_width, device=index.device),
            index=torch.zeros_like(index),
            recent=History.blank(index, memory, self.action_space) if memory else None,
            previous=self._forget_tokens(index, nothing),
        )

    @torch.no_grad()
    def start(self, segment: Segment, steps: int) -> LatentCarry:
        index = self.tokenizer.encode(to_frames(segment.frame)).index
        batch, length = segment.first.shape
        sequence = self.sequence.initial(batch, length - 1 + steps)
        hidden = torch.zeros(batch, self.hidden_width, device=index.device)
        if length > 1:
            action = self.action_space.encode(segment.action[:, :-1])
            x = self.mixer.look_up(index[:, :-1], action)
            outputs, scanned = self.sequence.scan(x, segment.first[:, :-1], sequence)
            starts = segment.first[:, -1]
            # Rows of a transformer that keep their slots can write to the same one.
            clear = forget if eager_on_device(index) else where_rows
            sequence = clear(starts, sequence, scanned)
            before = self._previous(segment.first[:, :-1], index[:, :-1])
            hidden = self._add_cells(outputs[:, -1], index[:, -2], before, action[:, -1])
            hidden = hidden.masked_fill(starts.unsqueeze(-1), 0.0)
        previous = self._previous(segment.first, index)
        return LatentCarry(sequence, hidden, index[:, -1], None, previous=previous)

    @torch.no_grad()
    def states(self, segment: Segment, steps: int) -> LatentCarry:
        """What `start` gives for the last step, for every step."""
        index = self.tokenizer.encode(to_frames(segment.frame)).index
        action = self.action_space.encode(segment.action)
        history, sequence = self._histories(self.mixer.look_up(index, action), segment.first, steps)
        starts = segment.first.clone()
        starts[:, 0] = True
        current, begins = as_rows(index), as_rows(starts)
        # Rows that begin an episode get what belongs to another one, and are cleared.
        last, done = (as_rows(each.roll(1, dims=1)) for each in (index, action))
        previous = self._forget_tokens(last, begins)
        before = None
        if previous is not None:
            earlier = as_rows(index.roll(2, dims=1)), as_rows(starts.roll(1, dims=1))
            before = self._forget_tokens(*earlier)
        hidden = self._add_cells(as_rows(history), last, before, done)
        hidden = hidden.masked_fill(begins.unsqueeze(-1), 0.0)
        return LatentCarry(sequence, hidden, current, None, previous=previous)

    def _histories(
        self, x: Float[Tensor, "B T D"], first: Bool[Tensor, "B T"], steps: int
    ) -> tuple[Float[Tensor, "B T D"], Carry]:
        """h of every step; the carry before each, in rows (b t), with room for `steps` more."""
        batch, length = first.shape
        blank = self.sequence.initial(batch, length - 1 + steps)
        clear = forget if eager_on_device(x) else where_rows
        # A step of a transformer writes into the caches that it is given.
        histories, carries = [torch.zeros_like(x[:, 0])], [map_tensors(torch.clone, blank)]
        sequence = map_tensors(torch.clone, blank)
        for time in range(1, length):
            history, sequence = self.sequence.step(x[:, time - 1], sequence)
            sequence = clear(first[:, time], blank, sequence)
            histories.append(history)
            carries.append(map_tensors(torch.clone, sequence))
        rows = map_tensors(lambda *each: as_rows(torch.stack(each, 1)), *carries)
        return torch.stack(histories, 1), rows

    def _previous(
        self, first: Bool[Tensor, "B T"], index: Int[Tensor, "B T K"]
    ) -> Int[Tensor, "B K"] | None:
        """The tokens of the frame before the last one of these."""
        if index.shape[1] > 1:
            return self._forget_tokens(index[:, -2], first[:, -1])
        return self._forget_tokens(index[:, -1], torch.ones_like(first[:, -1]))

    @torch.no_grad()
    def step(
        self, carry: LatentCarry, action: Tensor, generator: Generator | None = None
    ) -> tuple[LatentCarry, Outcome]:
        carry = self._advance(carry, self.action_space.encode(action))
        index = self.prior.sample(carry.hidden, generator)
        previous = None if self.local is None else carry.index
        carry = replace(carry, index=index, previous=previous, policy_index=None)
        return carry, predict_outcome(carry.hidden, self._outcome)

    def _outcome(self, hidden: Float[Tensor, "*rest D"]) -> Outcome:
        summary = self._summary(hidden)
        return Outcome(self.reward(summary).mean, self.termination(summary).mean)

    @torch.no_grad()
    def predict(self, carry: LatentCarry, action: Tensor, following: Segment) -> Prediction:
        hidden = self._advance(carry, self.action_space.encode(action)).hidden
        codes = self.tokenizer.encode(to_frames(following.frame[:, -1]))
        summary = self._summary(hidden)
        return Prediction(
            self.reward(summary), self.termination(summary), *score_codes(self.prior, hidden, codes)
        )

    def tokens_in(self, carry: LatentCarry) -> Int[Tensor, "B K"]:
        """Those of the frame, even if the behaviour reads predicted ones."""
        return carry.index

    def view(self, carry: LatentCarry) -> View:
        index = carry.index if carry.policy_index is None else carry.policy_index
        return self.view_with(carry, index)

    def view_with(self, carry: LatentCarry, index: Int[Tensor, "B K"]) -> View:
        history = carry.hidden[:, : self.sequence.width]
        feature = TokenFeature(index, history, self.tokenizer.vocabulary)
        return View(lambda: feature, lambda: self.tokenizer.decode(self.tokenizer.look_up(index)))

    @torch.no_grad()
    def reconstruct(self, segment: Segment) -> Reconstruction:
        index = self.tokenizer.encode(to_frames(segment.frame)).index
        decoded = self.tokenizer.decode(self.tokenizer.look_up(index))
        return Reconstruction(index, decoded, self.tokenizer.vocabulary, self.tokenizer.grid)

    def policy_frames(self, segment: Segment) -> Float[Tensor, "B T C H W"]:
        return self.reconstruct(segment).frame


def as_rows(each: Shaped[Tensor, "B T *rest"]) -> Shaped[Tensor, "N *rest"]:
    """In the order (b t)."""
    return rearrange(each, "b t ... -> (b t) ...")


def with_cells(
    hidden: Float[Tensor, "*rest D"], cells: Float[Tensor, "*rest K C"]
) -> Float[Tensor, "*rest E"]:
    return torch.cat([hidden, rearrange(cells, "... k c -> ... (k c)")], dim=-1)
