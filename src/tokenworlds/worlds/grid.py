"""A world whose state is a grid of tokens (Smaller World Models: Robine et al., 2023).

The tokenizer learns on its own. A convolutional sequence model reads the tokens of a frame and the
action, and predicts the reward and the next tokens. In the paper it predicts no termination: dreams
have a fixed horizon.
"""

from dataclasses import dataclass, replace
from typing import Any, Literal

import torch
from einops import rearrange, repeat
from jaxtyping import Bool, Float, Int
from torch import Generator, Tensor, nn
from torch.nn import functional

from tokenworlds.core.capabilities import MapTokenizer
from tokenworlds.core.config import Component, ConfigOf
from tokenworlds.core.errors import UserError
from tokenworlds.core.inspection import Prediction
from tokenworlds.core.protocols import Head, SequenceModel, Tokenizer
from tokenworlds.core.trees import map_tensors, where_rows
from tokenworlds.core.types import (
    ActionSpace,
    Carry,
    Codes,
    FrameShape,
    GaussianLatent,
    Losses,
    Outcome,
    Reconstruction,
    Segment,
    View,
)
from tokenworlds.heads.outcomes import reward_losses, termination_losses
from tokenworlds.nets.fast.map_convolution import concat_channels
from tokenworlds.worlds.history import (
    History,
    TwoLearnerWorld,
    stack_frames,
    stack_segment,
    starts,
    with_start,
)
from tokenworlds.worlds.parts import check_maps
from tokenworlds.worlds.scoring import score_codes

Layout = Literal["map", "line", "vector"]
"""How the vectors of a grid's cells form a map: as they lie, as one column, or as one cell (the
ablation of the latent's shape)."""
TokenMap = Float[Tensor, "*rest c h w"]
FeatureMap = Float[Tensor, "*rest C h w"]
SHADES = 256
SHADE_RANGE = 3.0
"""Numbers beyond this, which are rare in a standard normal, are rendered as black or white."""


@dataclass(frozen=True, slots=True)
class GridCarry:
    """The sequence model's carry, and the token vectors of the current frame."""

    sequence: Carry
    vector: Float[Tensor, "B K D"]


class Grid(TwoLearnerWorld, Component):
    """A tokenizer of frame stacks, and a sequence model of its maps."""

    dynamics: "GridDynamics"

    @dataclass(frozen=True, kw_only=True, slots=True)
    class Config(ConfigOf["Grid"]):
        """The latest `frames` are encoded together. `context` is the number of steps that a dream
        knows before its first frame. In training, the first `given` steps read real tokens, later
        ones sampled tokens. With `crosses_episodes` the last step of an episode predicts the first
        frame of the next, so that dreams continue in a new game. `encodes_in_training` encodes in
        training mode, with batch statistics, when the dynamics learn (released code).
        `reward_trains_memory` lets the gradients of reward and termination into the sequence model.
        `samples_reward` samples the reward instead of using its mean. Without `termination` dreams
        never end: a policy that loses a game plays on in the next one."""

        tokenizer: ConfigOf[Any]
        sequence: ConfigOf[SequenceModel[Any]]
        prior: ConfigOf[Any]
        reward: ConfigOf[Head]
        termination: ConfigOf[Head] | None = None
        frames: int = 1
        layout: Layout = "map"
        context: int = 4
        given: int = 4
        crosses_episodes: bool = True
        encodes_in_training: bool = False
        reward_trains_memory: bool = False
        samples_reward: bool = True

        def __post_init__(self) -> None:
            for name, least in (("frames", 1), ("given", 1), ("context", 0)):
                if getattr(self, name) < least:
                    raise ValueError(f"{name} takes {least} or more, not {getattr(self, name)}")

    def __init__(
        self, config: Config, *, frame_shape: FrameShape, action_space: ActionSpace
    ) -> None:
        super().__init__()
        self.config = config
        self.action_space, self.kept = action_space, config.context + config.frames
        self.channels, self.frames = frame_shape.channels, config.frames
        channels = config.frames * frame_shape.channels
        stack_shape = FrameShape(frame_shape.height, frame_shape.width, channels)
        self.tokenizer = config.tokenizer.build_from(
            frame_shape=stack_shape, action_space=action_space
        )
        check_maps(self.tokenizer, config.prior, config.sequence)
        shape = map_shape(self.tokenizer, config.layout)
        self.feature_shape: tuple[int, ...] = shape
        self.dynamics = GridDynamics(config, self.tokenizer, shape=shape, actions=action_space.size)

    def tokenizer_losses(self, segment: Segment) -> Losses:
        frames, steps = self._stacks(segment)
        losses: Losses = self.tokenizer.losses(frames, self.tokenizer.encode(frames), steps.mask)
        return losses

    def _stacks(self, segment: Segment) -> tuple[Float[Tensor, "B t C H W"], Segment]:
        """Frame stacks and their steps, without steps whose stack begins before the segment."""
        begin = self.config.frames - 1
        if segment.first.shape[1] <= begin:
            raise UserError(
                f"segments of {segment.first.shape[1]} steps are too short for world.frames="
                f"{begin + 1}: each learning.*.length takes as many or more, the world's one more"
            )
        frames, complete = stack_segment(segment, self.config.frames)
        steps = replace(segment, mask=segment.mask & complete)
        return frames[:, begin:], steps.window(slice(begin, None))

    def losses(self, segment: Segment) -> Losses:
        """Prediction of the next tokens, of the reward and, with a head for it, of termination."""
        frames, steps = self._stacks(segment)
        training = self.tokenizer.training
        self.tokenizer.train(self.config.encodes_in_training)
        with torch.no_grad():
            codes: Codes | GaussianLatent = self.tokenizer.encode(frames)
        self.tokenizer.train(training)
        opens = self._starts(steps)
        feature = self._predict(codes.vector, self.action_space.encode(steps.action), opens)
        next_codes = map_tensors(lambda part: part[:, 1:], codes)
        mask = steps.mask[:, 1:] & steps.mask[:, :-1] & ~opens[:, 1:]
        token_losses: Losses = self.dynamics.prior.losses(flatten(feature), next_codes, mask)
        return token_losses | self._outcome_losses(feature, steps.window(slice(0, -1)))

    def _starts(self, segment: Segment) -> Bool[Tensor, "B T"]:
        if not self.config.crosses_episodes:
            return starts(segment)
        return with_start(functional.pad(~segment.mask[:, :-1], (1, 0)))

    def _predict(
        self,
        vector: Float[Tensor, "B T K D"],
        action: Float[Tensor, "B T A"],
        starts: Bool[Tensor, "B T"],
    ) -> Float[Tensor, "B t C h w"]:
        """The features of every step but the last; after `given` steps the tokens are sampled."""
        steps, blank = vector.shape[1] - 1, self.dynamics.sequence.initial(len(vector))
        if steps < 1:
            raise UserError("learning.world.length takes world.frames + 1 or more: nothing follows")
        maps, given = self._arrange(vector), slice(0, min(self.config.given, steps))
        feature, carry = self.dynamics(maps[:, given], action[:, given], blank, starts[:, given])
        features = list(feature.unbind(1))
        for time in range(self.config.given, steps):
            sampled = self._arrange(self._sample(features[-1], None))
            inputs = where_rows(starts[:, time], maps[:, time], sampled)
            carry = where_rows(starts[:, time], blank, carry)
            feature, carry = self.dynamics(inputs, action[:, time], carry)
            features.append(feature)
        return torch.stack([each.movedim(-3, -1) for each in features], dim=1).movedim(-1, -3)

    def _arrange(self, vector: Float[Tensor, "*rest K D"]) -> TokenMap:
        _, height, width = self.feature_shape
        return rearrange(vector, "... (h w k) d -> ... (k d) h w", h=height, w=width)

    @torch.no_grad()
    def _sample(
        self, feature: Float[Tensor, "B C h w"], generator: Generator | None
    ) -> Float[Tensor, "B K D"]:
        sampled = self.dynamics.prior.sample(flatten(feature), generator)
        vector: Tensor = self.tokenizer.token_vectors(sampled)
        return vector

    def _outcome_losses(self, feature: Float[Tensor, "B t C h w"], segment: Segment) -> Losses:
        feature = feature if self.config.reward_trains_memory else feature.detach()
        losses = reward_losses(self.dynamics.reward, feature, segment)
        if self.dynamics.termination is None:
            return losses
        return losses | termination_losses(self.dynamics.termination, feature, segment)

    @torch.no_grad()
    def start(self, segment: Segment, steps: int) -> GridCarry:
        return self._prefill(History.of_segment(segment, self.kept, self.action_space))

    def _prefill(self, history: History) -> GridCarry:
        opens = history.starts
        frames = stack_frames(history.observation, opens, self.config.frames)
        frames = frames[:, -self.config.context - 1 :]
        vector, blank = self._encode(frames), self.dynamics.sequence.initial(len(frames))
        action, opens = (part[:, -frames.shape[1] :] for part in (history.action, opens))
        if frames.shape[1] == 1:
            return GridCarry(blank, vector[:, -1])
        maps, past = self._arrange(vector[:, :-1]), slice(0, -1)
        _, carry = self.dynamics(maps, action[:, past], blank, opens[:, past])
        return GridCarry(where_rows(opens[:, -1], blank, carry), vector[:, -1])

    def _encode(self, frames: Float[Tensor, "*rest C H W"]) -> Float[Tensor, "*rest K D"]:
        vector: Tensor = self.tokenizer.encode_vectors(frames)
        return vector

    @torch.no_grad()
    def step(
        self, carry: GridCarry | History, action: Tensor, generator: Generator | None = None
    ) -> tuple[GridCarry, Outcome]:
        carry = self._prefill(carry) if isinstance(carry, History) else carry
        maps, done = self._arrange(carry.vector), self.action_space.encode(action)
        feature, sequence = self.dynamics(maps, done, carry.sequence)
        head = self.dynamics.reward(feature)
        reward = head.sample(generator) if self.config.samples_reward else head.mean
        termination = self.dynamics.termination
        ends = torch.zeros_like(reward) if termination is None else termination(feature).mean
        return GridCarry(sequence, self._sample(feature, generator)), Outcome(reward, ends)

    @torch.no_grad()
    def predict(self, carry: GridCarry | History, action: Tensor, following: Segment) -> Prediction:
        carry = self._prefill(carry) if isinstance(carry, History) else carry
        maps, done = self._arrange(carry.vector), self.action_space.encode(action)
        feature, _ = self.dynamics(maps, done, carry.sequence)
        stack = stack_segment(following, self.config.frames)[0][:, -1]
        codes: Codes | GaussianLatent = self.tokenizer.encode(stack)
        scores = score_codes(self.dynamics.prior, flatten(feature), codes)
        termination = self.dynamics.termination and self.dynamics.termination(feature)
        return Prediction(self.dynamics.reward(feature), termination, *scores)

    def view(self, carry: GridCarry | History) -> View:
        """The feature is the map of the current tokens, the frame the newest of the stack."""

        def vector() -> Float[Tensor, "B K D"]:
            return carry.vector if isinstance(carry, GridCarry) else self._encode_latest(carry)

        return View(lambda: self._arrange(vector()), lambda: self._decode(vector()))

    @torch.no_grad()
    def tokens_in(self, carry: GridCarry | History) -> Int[Tensor, "B K"] | None:
        """The code of each vector; None for continuous latents."""
        vocabulary = getattr(self.tokenizer, "vocabulary", None)
        if vocabulary is None:
            return None
        vector = carry.vector if isinstance(carry, GridCarry) else self._encode_latest(carry)
        codes = rearrange(torch.arange(vocabulary, device=vector.device), "v -> v 1")
        table: Tensor = self.tokenizer.token_vectors(codes)
        return torch.cdist(vector, table[:, 0].to(vector.dtype)).argmin(dim=-1)

    def view_with(self, carry: GridCarry | History, index: Int[Tensor, "B K"]) -> View:
        vector: Tensor = self.tokenizer.token_vectors(index)
        return View(lambda: self._arrange(vector), lambda: self._decode(vector))

    @torch.no_grad()
    def _encode_latest(self, history: History) -> Float[Tensor, "B K D"]:
        stacks = stack_frames(history.observation, history.starts, self.config.frames)
        return self._encode(stacks[:, -1])

    @torch.no_grad()
    def _decode(self, vector: Float[Tensor, "*rest K D"]) -> Float[Tensor, "*rest C H W"]:
        """The newest frame of the decoded stack."""
        frames: Tensor = self.tokenizer.decode_vectors(vector)
        return frames[..., -self.channels :, :, :]

    @torch.no_grad()
    def reconstruct(self, segment: Segment) -> Reconstruction:
        """Continuous latents are shown as shades of grey instead of tokens."""
        frames, tokenizer = stack_segment(segment, self.config.frames)[0], self.tokenizer
        if not isinstance(tokenizer, Tokenizer):
            vector = self._encode(frames)
            return to_shades(vector, self._decode(vector), tokenizer.grid)
        codes = tokenizer.encode(frames)
        return Reconstruction(
            codes.index, self._decode(codes.vector), tokenizer.vocabulary, tokenizer.grid
        )

    @torch.no_grad()
    def policy_frames(self, segment: Segment) -> Float[Tensor, "B T C H W"]:
        return self._decode(self._encode(stack_segment(segment, self.config.frames)[0]))


def map_shape(tokenizer: MapTokenizer, layout: Layout) -> tuple[int, int, int]:
    """Channels, height and width."""
    if layout == "vector":
        return (tokenizer.tokens * tokenizer.width, 1, 1)
    return (tokenizer.width, *(tokenizer.grid if layout == "map" else (tokenizer.tokens, 1)))


class GridDynamics(nn.Module):
    """A sequence model on maps of tokens and actions, and a prior and heads on its output.

    Prior and heads also read the action.
    """

    def __init__(
        self,
        config: Grid.Config,
        tokenizer: MapTokenizer,
        *,
        shape: tuple[int, int, int],
        actions: int,
    ) -> None:
        super().__init__()
        channels, height, width = shape
        self.size = (height, width)
        self.sequence = config.sequence.build(inputs=channels, actions=actions, grid=self.size)
        read = self.sequence.width + actions
        sizes = {"width": read * height * width, "tokens": tokenizer.tokens}
        if isinstance(tokenizer, Tokenizer):
            sizes["vocabulary"] = tokenizer.vocabulary
        else:
            sizes["code_width"] = tokenizer.width
        self.prior = config.prior.build_from(**sizes)
        self.reward = config.reward.build(shape=(read, height, width))
        self.termination: Any = None
        if config.termination is not None:
            self.termination = config.termination.build(shape=(read, height, width))

    def forward(
        self,
        tokens: TokenMap,
        action: Float[Tensor, "*rest A"],
        carry: Carry,
        starts: Bool[Tensor, "B T"] | None = None,
    ) -> tuple[FeatureMap, Carry]:
        """One step, or with `starts` all steps of a sequence."""
        height, width = self.size
        planes = repeat(action, "... a -> ... a h w", h=height, w=width)
        x = concat_channels(tokens, planes)
        if starts is None:
            y, carry = self.sequence.step(x, carry)
        else:
            y, carry = self.sequence.scan(x, starts, carry)
        return concat_channels(y, planes), carry


def flatten(feature: FeatureMap) -> Float[Tensor, "*rest E"]:
    """A map as a vector, cell by cell."""
    return rearrange(feature, "... c h w -> ... (h w c)")


def to_shades(
    vector: Float[Tensor, "B T K D"], frame: Float[Tensor, "B T C H W"], grid: tuple[int, int]
) -> Reconstruction:
    """The numbers of each grid cell as shades of grey, side by side."""
    share = (vector / (2 * SHADE_RANGE) + 0.5).clamp(0, 1)
    index = rearrange((share * (SHADES - 1)).round().long(), "b t k d -> b t (k d)")
    height, width = grid
    return Reconstruction(index, frame, SHADES, (height, width * vector.shape[-1]), shades=True)
