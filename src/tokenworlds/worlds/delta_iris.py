"""A world of changes as tokens, each beside the frame before it (Δ-IRIS, section 2.2).

A step is a block of the sequence: its frame as one image token, its action, and the tokens of the
change from its frame to the next.
"""

from dataclasses import dataclass, field, replace
from typing import Any, cast

import torch
from einops import pack, rearrange, repeat, unpack
from jaxtyping import Bool, Float, Int
from torch import Generator, Tensor, nn
from torch.nn import functional

from tokenworlds.core.config import Component, ConfigOf
from tokenworlds.core.errors import UserError
from tokenworlds.core.inspection import Prediction
from tokenworlds.core.protocols import Head, SequenceModel, Tokenizer
from tokenworlds.core.trees import where_rows
from tokenworlds.core.types import (
    ActionSpace,
    Carry,
    Context,
    FrameShape,
    Losses,
    Outcome,
    Reconstruction,
    Segment,
    View,
    masked_mean,
    to_frames,
)
from tokenworlds.heads.outcomes import ReadoutReward, ReadoutTermination, outcome_losses
from tokenworlds.nets.residual import FrameEncoder, halved
from tokenworlds.worlds.history import History, TwoLearnerWorld, follows, starts
from tokenworlds.worlds.parts import check_discrete
from tokenworlds.worlds.tokens import TokenDynamics


@dataclass(frozen=True, slots=True)
class DeltaIrisCarry:
    """The current frame, and the token that the sequence model has not read yet.

    `starts` is set where no step before the frame is known. `index` are the tokens of the change
    that led to the frame, -1 where none did, and `past` is what changed. See the sequence model's
    carry for when an older one stays valid.
    """

    sequence: Carry
    pending: Int[Tensor, "B n"]
    frame: Float[Tensor, "B C H W"]
    starts: Bool[Tensor, " B"]
    index: Int[Tensor, "B K"]
    past: Context


class ImageToken(nn.Module):
    """A frame as one vector: a small map, flattened and normed, learned from the world's losses."""

    def __init__(self, config: FrameEncoder.Config, *, frame_shape: FrameShape, width: int) -> None:
        super().__init__()
        height, across = halved(frame_shape, sum(config.halvings))
        if config.latent * height * across != width:
            raise UserError(
                f"world.image.latent={config.latent} on a map of {height}x{across} does not make "
                f"an image token of the sequence model's width {width}"
            )
        self.encoder = config.build(channels=frame_shape.channels)
        self.norm = nn.LayerNorm(width)

    def forward(self, frames: Float[Tensor, "*rest C H W"]) -> Float[Tensor, "*rest D"]:
        flat, lead = pack([frames], "* c h w")
        vectors = rearrange(self.encoder(flat), "b d h w -> b (h w d)")
        tokens: list[Tensor] = unpack(self.norm(vectors), lead, "* d")
        return tokens[0]


class ImageDynamics(TokenDynamics):
    """Token dynamics with image tokens: of every frame, or only where a history starts."""

    def __init__(
        self,
        *,
        image: FrameEncoder.Config,
        frame_shape: FrameShape,
        every_frame: bool,
        **dimensions: Any,
    ) -> None:
        super().__init__(**dimensions)
        self.every_frame = every_frame
        self.image = ImageToken(image, frame_shape=frame_shape, width=self.sequence.width)

    def image_tokens(
        self, frames: Float[Tensor, "*rest C H W"], starts: Bool[Tensor, "*rest"]
    ) -> Float[Tensor, "*rest D"]:
        token = cast(Tensor, self.image(frames))
        return token if self.every_frame else token * starts.unsqueeze(-1)


class DeltaIris(TwoLearnerWorld, Component):
    """A tokenizer of changes with its own losses, and a sequence model of its tokens.

    A tokenizer that ignores its context describes the whole next frame instead of the change.
    """

    frames = 1
    tokenizer: Tokenizer
    dynamics: ImageDynamics
    tokenizer_learner, token_context = "tokenizer", 1

    @dataclass(frozen=True, kw_only=True, slots=True)
    class Config(ConfigOf["DeltaIris"]):
        """`context` is the number of steps that a dream knows before its first frame.
        `samples_reward` samples the reward instead of using its mean. Without
        `with_image_tokens` only the first frame of a history has an image token, the others are
        zero (the paper's ablation)."""

        tokenizer: ConfigOf[Tokenizer]
        sequence: ConfigOf[SequenceModel[Any]]
        image: FrameEncoder.Config
        reward: ConfigOf[Head] = field(default_factory=ReadoutReward.Config)
        termination: ConfigOf[Head] = field(default_factory=ReadoutTermination.Config)
        samples_reward: bool = False
        context: int = 5
        with_image_tokens: bool = True

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
        self.dynamics = ImageDynamics(
            image=config.image,
            frame_shape=frame_shape,
            every_frame=config.with_image_tokens,
            sequence=config.sequence,
            reward=config.reward,
            termination=config.termination,
            samples_reward=config.samples_reward,
            tokens=self.tokens,
            vocabulary=self.tokenizer.vocabulary,
            actions=action_space.size,
        )
        self.feature_shape: tuple[int, ...] = (self.dynamics.sequence.width,)
        self.dynamics.check_context(config.context, self.tokens + 2)

    def trained_horizon(self, length: int) -> int | None:
        return self.dynamics.trained_horizon(self.config.context, length)

    def tokenizer_losses(self, segment: Segment) -> Losses:
        """Losses of each frame that follows another of its episode."""
        frames, context = pair_frames(
            to_frames(segment.frame), self.action_space.encode(segment.action)
        )
        codes = self.tokenizer.encode(frames, context)
        return self.tokenizer.losses(frames, codes, follows(segment), context)

    def losses(self, segment: Segment) -> Losses:
        """Prediction of each change token, reward and termination from the sequence before it.

        A change counts if both its frames are real and of one episode.
        """
        frames, opens = to_frames(segment.frame), starts(segment)
        action = self.action_space.encode(segment.action)
        index = self._changes(frames, action, segment.tokens)
        # The last step has an outcome and no change.
        blocks = self._blocks(frames, action, functional.pad(index, (0, 0, 0, 1)), opens)
        hidden = self.dynamics.read(blocks, opens)
        # The action and all tokens but the last each precede a token.
        loss, hit = self.dynamics.token_nll(hidden[:, :-1, 1:-1], index)
        mask = follows(segment)
        accuracy = masked_mean(hit.float(), repeat(mask, "b t -> b t k", k=self.tokens))
        terms = {"tokens": loss.mean(-1)}
        outcomes = outcome_losses(
            self.dynamics.reward, self.dynamics.termination, hidden[:, :, 1], segment
        )
        return Losses(terms, {"tokens": mask}, {"token_accuracy": accuracy}) | outcomes

    @torch.no_grad()
    def _changes(
        self,
        frames: Float[Tensor, "B T C H W"],
        action: Float[Tensor, "B T A"],
        cached: Int[Tensor, "B T K"] | None,
    ) -> Int[Tensor, "B t K"]:
        """The tokens from each frame to the next."""
        if cached is not None:
            return cached[:, 1:]
        return self.tokenizer.encode(*pair_frames(frames, action)).index

    @torch.no_grad()
    def tokens_of(self, segment: Segment, wanted: Bool[Tensor, "B T"]) -> Int[Tensor, "n K"]:
        """The tokens of the changes to some frames, none of them the first of its row."""
        row, time = wanted.nonzero(as_tuple=True)
        frame, past = segment.frame[row, time], segment.frame[row, time - 1]
        action = self.action_space.encode(segment.action[row, time - 1])
        return self.tokenizer.encode(to_frames(frame), Context(to_frames(past), action)).index

    def _blocks(
        self,
        frames: Float[Tensor, "B T C H W"],
        action: Float[Tensor, "B T A"],
        index: Int[Tensor, "B T K"],
        starts: Bool[Tensor, "B T"],
    ) -> Float[Tensor, "B T n D"]:
        """The embedded image token, action and change tokens of each step."""
        image = self.dynamics.image_tokens(frames, starts)
        head = rearrange([image, self.dynamics.action(action)], "n b t d -> b t n d")
        return torch.cat([head, self.dynamics.token(index)], dim=2)

    @torch.no_grad()
    def start(self, segment: Segment, steps: int) -> DeltaIrisCarry:
        history = History.of_segment(segment, self.kept, self.action_space)
        return self._prefill(history, steps * (self.tokens + 2) + 1)

    def _prefill(self, history: History, room: int | None) -> DeltaIrisCarry:
        frames, opens = to_frames(history.observation), history.starts
        nothing = opens.new_zeros((len(frames), 0), dtype=torch.long)
        if len(history) == 1:
            sequence = self.dynamics.sequence.initial(len(frames), room)
            latest = nothing.new_full((len(frames), self.tokens), -1)
        else:
            index = self._changes(frames, history.action, history.tokens)
            past = self._blocks(frames[:, :-1], history.action[:, :-1], index, opens[:, :-1])
            sequence = self.dynamics.prefill(past, opens, room)
            latest = index[:, -1].masked_fill(opens[:, -1:], -1)
        before = Context(frames[:, -2:][:, 0], history.action[:, -2:][:, 0])
        return DeltaIrisCarry(sequence, nothing, frames[:, -1], opens[:, -1], latest, before)

    @torch.no_grad()
    def step(
        self,
        carry: DeltaIrisCarry | History,
        action: Tensor,
        generator: Generator | None = None,
        at_random: bool = False,
    ) -> tuple[DeltaIrisCarry, Outcome]:
        """Imagine one step, token by token, and decode the next frame.

        When positions run out, history is cleared except for the current frame.
        """
        carry = self._make_room(self._to_carry(carry))
        done = self.action_space.encode(action)
        x = torch.cat([self._unread(carry), self.dynamics.action(done)[:, None]], dim=1)
        unrolled = self.dynamics.unroll(x, carry.sequence, generator, at_random)
        codes = self.tokenizer.look_up(unrolled.index)
        past = Context(carry.frame, done)
        frame = to_bytes(self.tokenizer.decode(codes, past))
        no_start = torch.zeros_like(carry.starts)
        index = unrolled.index
        carry = DeltaIrisCarry(unrolled.sequence, index[:, -1:], frame, no_start, index, past)
        return carry, unrolled.outcome

    @torch.no_grad()
    def predict(
        self, carry: DeltaIrisCarry | History, action: Tensor, following: Segment
    ) -> Prediction:
        """The tokens are those of the change from the state's own frame to the real next one."""
        carry = self._make_room(self._to_carry(carry))
        done = self.action_space.encode(action)
        x = torch.cat([self._unread(carry), self.dynamics.action(done)[:, None]], dim=1)
        frame = to_frames(following.frame[:, -1])
        index = self.tokenizer.encode(frame, Context(carry.frame, done)).index
        return self.dynamics.predict(x, carry.sequence, index)

    def step_with_random_tokens(
        self, carry: DeltaIrisCarry | History, action: Tensor, generator: Generator | None = None
    ) -> tuple[DeltaIrisCarry, Outcome]:
        """The same with uniformly sampled tokens: it shows what the tokenizer gets from frame and
        action alone (the paper's figure 3)."""
        # Not the compiled function, if there is one.
        return DeltaIris.step(self, carry, action, generator, at_random=True)

    def _unread(self, carry: DeltaIrisCarry) -> Float[Tensor, "B n D"]:
        """The tokens that the sequence model has not read, up to the frame's image token."""
        image = self.dynamics.image_tokens(carry.frame, carry.starts)
        return torch.cat([self.dynamics.token(carry.pending), image[:, None]], dim=1)

    def _to_carry(self, carry: DeltaIrisCarry | History) -> DeltaIrisCarry:
        return self._prefill(carry, None) if isinstance(carry, History) else carry

    def _make_room(self, carry: DeltaIrisCarry) -> DeltaIrisCarry:
        """Room for one step, and for its last token and image token in case a feature is read."""
        tokens = carry.pending.shape[1] + 2 + self.tokens + 1
        if self.dynamics.has_room(carry.sequence, tokens):
            return carry
        sequence = self.dynamics.sequence.initial(len(carry.frame))
        start = torch.ones_like(carry.starts)
        return replace(carry, sequence=sequence, pending=carry.pending[:, :0], starts=start)

    def view(self, carry: DeltaIrisCarry | History) -> View:
        """The feature is the hidden state at the frame's image token."""
        return View(lambda: self._feature(carry), lambda: carry.frame)

    def tokens_in(self, carry: DeltaIrisCarry | History) -> Int[Tensor, "B K"]:
        return self._to_carry(carry).index

    @torch.no_grad()
    def view_with(self, carry: DeltaIrisCarry | History, index: Int[Tensor, "B K"]) -> View:
        """After another change of the frame before; rows without a change keep their frame."""
        carry = self._to_carry(carry)
        codes = self.tokenizer.look_up(index.clamp_min(0))
        decoded = to_bytes(self.tokenizer.decode(codes, carry.past))
        return self.view(replace(carry, frame=where_rows(index[:, 0] < 0, carry.frame, decoded)))

    @torch.no_grad()
    def _feature(self, carry: DeltaIrisCarry | History) -> Float[Tensor, "B D"]:
        carry = self._to_carry(carry)
        hidden, _ = self.dynamics.extend(self._unread(carry), carry.sequence)
        return hidden[:, -1]

    @torch.no_grad()
    def reconstruct(self, segment: Segment) -> Reconstruction:
        """Each frame from its change tokens and the real frame before it.

        Frames that follow none stay as they are, with tokens of -1.
        """
        frames = to_frames(segment.frame)
        index = torch.full((*frames.shape[:2], self.tokens), -1, device=frames.device)
        if frames.shape[1] > 1:
            action, has_change = self.action_space.encode(segment.action), follows(segment)
            _, context = pair_frames(frames, action)
            changes = self._changes(frames, action, None)
            decoded = self.tokenizer.decode(self.tokenizer.look_up(changes), context)
            index[:, 1:][has_change] = changes[has_change]
            frames[:, 1:][has_change] = decoded[has_change]
        return Reconstruction(index, frames, self.tokenizer.vocabulary, self.tokenizer.grid)

    def policy_frames(self, segment: Segment) -> Float[Tensor, "B T C H W"]:
        """The real frames: dreams lose nothing on the way to a frame."""
        return to_frames(segment.frame)


def to_bytes(frames: Float[Tensor, "*rest C H W"]) -> Float[Tensor, "*rest C H W"]:
    """Round to 8 bits, as if the frame had been stored."""
    return (frames.clamp(0, 1) * 255).round() / 255


def pair_frames(
    frames: Float[Tensor, "B T C H W"], action: Float[Tensor, "B T A"]
) -> tuple[Float[Tensor, "B t C H W"], Context]:
    """Each frame but the first, and the frame and action before it."""
    if frames.shape[1] < 2:
        raise UserError("a change takes two frames: segments of one step hold none")
    return frames[:, 1:], Context(frames[:, :-1], action[:, :-1])
