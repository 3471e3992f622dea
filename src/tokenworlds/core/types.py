"""The values that pass between parts.

frame    an image, uint8, height x width x channels
action   an index, or a vector of floats in [-1, 1]
first    the step opens an episode
terminated, truncated   as in Gymnasium: a true end, a time limit
carry    the state that a component returns and takes back at the next call
feature  what heads and behaviours read of a state
token    an index into a vocabulary; a frame has K of them

Axes in shape annotations:
B  batch     T  time       K  tokens of a frame     V  vocabulary     D  width
C  channels  H, W  size    A  actions, or size of an action vector    N  environments
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from einops import rearrange
from jaxtyping import Bool, Float, Int, UInt8
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from tokenworlds.core.constants import identity
from tokenworlds.core.errors import unknown
from tokenworlds.core.sharing import is_shared, total
from tokenworlds.core.trees import map_tensors

Carry = Any
"""A nested dataclass, tuple or dict of tensors; only the component that made it looks inside."""


@dataclass(frozen=True, slots=True)
class ActionSpace:
    """Discrete: `size` choices, an action is an index. Continuous: vectors of `size` in [-1, 1]."""

    size: int
    discrete: bool = True

    def encode(self, action: Tensor) -> Float[Tensor, "*rest A"]:
        """The vector that a network reads: a one-hot, or the action itself."""
        if self.discrete:
            return functional.embedding(action.long(), identity(self.size, action.device))
        return action.float()

    def zeros(self, *shape: int, device: torch.device | None = None) -> Tensor:
        """Placeholder actions."""
        if self.discrete:
            return torch.zeros(shape, dtype=torch.long, device=device)
        return torch.zeros((*shape, self.size), device=device)


@dataclass(frozen=True, slots=True)
class FrameShape:
    """The shape of a stored frame."""

    height: int
    width: int
    channels: int = 3


@dataclass(frozen=True, slots=True)
class Segment:
    """Consecutive steps from replay, a row for each window. `mask` is False on padding.

    `tokens` are those of each frame, or of the change that led to it, if the token cache has them.
    `latent` is the world's state after the first step, if replay keeps latents.
    """

    frame: UInt8[Tensor, "B T H W C"]
    first: Bool[Tensor, "B T"]
    action: Int[Tensor, "B T"] | Float[Tensor, "B T A"]
    reward: Float[Tensor, "B T"]
    terminated: Bool[Tensor, "B T"]
    truncated: Bool[Tensor, "B T"]
    mask: Bool[Tensor, "B T"]
    tokens: Int[Tensor, "B T K"] | None = None
    latent: Float[Tensor, "B D"] | None = None

    def window(self, steps: slice) -> "Segment":
        """Some steps of every row, without the latent."""
        whole = replace(self, latent=None)
        return map_tensors(lambda leaf: leaf[:, steps], whole)

    def to(self, device: torch.device) -> "Segment":
        """The segment on another device. Copies from pinned memory to CUDA are asynchronous."""
        ahead = device.type == "cuda"
        return map_tensors(lambda leaf: leaf.to(device, non_blocking=ahead), self)


@dataclass(frozen=True, slots=True)
class EnvStep:
    """The result of an action. After a step that is `over` the environment must be reset.

    A lost life may be `terminated` without being `over`: the game goes on in a new episode.
    The `info` of a game's last step is stored with its result.
    """

    frame: NDArray[np.uint8]
    reward: float
    terminated: bool
    truncated: bool
    over: bool
    info: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Context:
    """The previous frame and the action taken on it."""

    frame: Float[Tensor, "*rest C H W"]
    action: Float[Tensor, "*rest A"]


@dataclass(frozen=True, slots=True)
class Codes:
    """A frame as tokens.

    `logits` is the posterior over the vocabulary, log-normalised. `sample` is its one-hot choice
    with the gradient of the posterior's probabilities. `vector` is the decoder's input, `encoded`
    the same before quantisation.
    """

    index: Int[Tensor, "*rest K"]
    logits: Float[Tensor, "*rest K V"]
    sample: Float[Tensor, "*rest K V"]
    vector: Float[Tensor, "*rest K D"]
    encoded: Float[Tensor, "*rest K D"]


@dataclass(frozen=True, slots=True)
class GaussianLatent:
    """A frame as independent normals in each grid cell, and a reparameterised sample of them."""

    vector: Float[Tensor, "*rest K D"]
    mean: Float[Tensor, "*rest K D"]
    log_variance: Float[Tensor, "*rest K D"]


@dataclass(frozen=True, slots=True)
class TokenFeature:
    """Token indices and a vector. Networks sum rows of their weights instead of multiplying
    one-hots."""

    index: Int[Tensor, "*rest K"]
    vector: Float[Tensor, "*rest D"]
    vocabulary: int

    def to_dense(self) -> Float[Tensor, "*rest E"]:
        """One vector: the one-hots of all tokens, then the numbers."""
        hard = one_hots(self.index, self.vocabulary, self.vector.dtype)
        return torch.cat([rearrange(hard, "... k v -> ... (k v)"), self.vector], dim=-1)

    def __len__(self) -> int:
        return len(self.index)

    def __getitem__(self, rows: slice) -> "TokenFeature":
        return TokenFeature(self.index[rows], self.vector[rows], self.vocabulary)


@dataclass(frozen=True, slots=True)
class Cells:
    """The grid of a frame's tokens: height and width, and the number of codes."""

    grid: tuple[int, int]
    vocabulary: int


Feature = Tensor | TokenFeature
"""What a behaviour reads of a state."""


@dataclass(frozen=True, slots=True)
class View:
    """What a behaviour may read of a state. Feature and frame are computed on request."""

    make_feature: Callable[[], Feature]
    decode: Callable[[], Float[Tensor, "B C H W"]]

    @property
    def feature(self) -> Float[Tensor, "B *D"]:
        return to_dense(self.make_feature())

    @property
    def compact_feature(self) -> Feature:
        """The feature with token indices instead of one-hots, if the world has tokens in it."""
        feature = self.make_feature()
        return rearrange(feature, "b ... -> b (...)") if isinstance(feature, Tensor) else feature

    @property
    def frame(self) -> Float[Tensor, "B C H W"]:
        """In [0, 1]."""
        return self.decode()


@dataclass(frozen=True, slots=True)
class Outcome:
    """The predicted result of an imagined action of each row, or of many steps of each.

    `terminated` is a probability or a sample.
    """

    reward: Float[Tensor, "*rest"]
    terminated: Float[Tensor, "*rest"]


class PendingOutcome(Outcome):
    """An outcome that is predicted from a feature when it is read, or for many steps at once."""

    feature: Float[Tensor, "B D"]
    predict: Callable[[Tensor], Outcome]

    def __init__(self, feature: Float[Tensor, "B D"], predict: Callable[[Tensor], Outcome]) -> None:
        object.__setattr__(self, "feature", feature)
        object.__setattr__(self, "predict", predict)

    @cached_property
    def _now(self) -> Outcome:
        with torch.no_grad():
            return self.predict(self.feature)

    @property
    def reward(self) -> Float[Tensor, "*rest"]:
        return self._now.reward

    @property
    def terminated(self) -> Float[Tensor, "*rest"]:
        return self._now.terminated


@torch.no_grad()
def stack_outcomes(outcomes: Sequence[Outcome]) -> Outcome:
    """Stack along a new first axis; pending outcomes are predicted in one pass."""
    pending = [each for each in outcomes if isinstance(each, PendingOutcome)]
    if pending and len(pending) == len(outcomes):
        return pending[0].predict(torch.stack([each.feature for each in pending]))
    rewards, terminated = zip(*((each.reward, each.terminated) for each in outcomes), strict=True)
    return Outcome(torch.stack(rewards), torch.stack(terminated))


@dataclass(frozen=True, slots=True)
class Reconstruction:
    """A segment encoded and decoded: tokens, their grid, and the decoded frames.

    With `shades` the tokens are levels of grey, from dark to light.
    """

    index: Int[Tensor, "B T K"]
    frame: Float[Tensor, "B T C H W"]
    vocabulary: int
    grid: tuple[int, int] | None = None
    shades: bool = False


@dataclass(frozen=True, slots=True)
class Losses:
    """Named loss terms, unreduced over batch and time, each with the mask of steps that count.

    `scales` holds the default weight of each term; a term without one has weight 1. `after` holds
    what must follow the optimiser's step (moving averages). `latents` are new states of the
    segment's steps, for replay to keep. Computing losses changes nothing but the running
    statistics of batch norms.
    """

    terms: Mapping[str, Float[Tensor, "B T"]]
    masks: Mapping[str, Bool[Tensor, "B T"] | Float[Tensor, "B T"]]
    metrics: Mapping[str, Tensor] = field(default_factory=dict)
    after: tuple[Callable[[], None], ...] = ()
    scales: Mapping[str, float] = field(default_factory=dict)
    latents: Float[Tensor, "B T D"] | None = None

    def __or__(self, other: "Losses") -> "Losses":
        """Both sets of terms; a name in both is an error."""
        shared = self.terms.keys() & other.terms.keys()
        if shared:
            raise KeyError(f"loss terms {sorted(shared)} are named twice")
        return Losses(
            {**self.terms, **other.terms},
            {**self.masks, **other.masks},
            {**self.metrics, **other.metrics},
            self.after + other.after,
            {**self.scales, **other.scales},
            self.latents if other.latents is None else other.latents,
        )

    def means(self) -> dict[str, Tensor]:
        """Each term averaged over the steps that count."""
        return {name: masked_mean(term, self.masks[name]) for name, term in self.terms.items()}

    def weights(self, overrides: Mapping[str, float]) -> dict[str, float]:
        """The weight of each term; an override that names no term is an error."""
        for name in overrides:
            if name not in self.terms:
                raise unknown("loss term", name, self.terms)
        chosen = {**self.scales, **overrides}
        return {name: chosen.get(name, 1.0) for name in self.terms}

    def total(self, overrides: Mapping[str, float]) -> Tensor:
        return weighted_sum(self.means(), self.weights(overrides))


@dataclass(frozen=True, slots=True)
class Trainable:
    """A module and its losses on a segment.

    PPO returns an iterator: an optimiser step follows each item before the next is computed.
    """

    module: nn.Module
    losses: Callable[[Segment], Losses | Iterator[Losses]]


def weighted_sum(means: Mapping[str, Tensor], weights: Mapping[str, float]) -> Tensor:
    return sum((weights[name] * mean for name, mean in means.items()), torch.zeros(()))


def masked_mean(values: Tensor, mask: Tensor) -> Tensor:
    """Mean over the entries where the mask is set (or weighted by it), of the whole batch."""
    weight = mask.to(values.dtype)
    summed, weights = (values * weight).sum(), weight.sum()
    if is_shared():  # One exchange for both.
        summed, weights = total(torch.stack([summed, weights])).unbind()
    return summed / weights.clamp_min(1.0)


def to_frames(frame: UInt8[Tensor, "*rest H W C"]) -> Float[Tensor, "*rest C H W"]:
    """Bytes to numbers in [0, 1], channels first in shape and in memory."""
    return rearrange(frame, "... h w c -> ... c h w").contiguous() / 255.0


def to_dense(feature: Feature) -> Tensor:
    return feature if isinstance(feature, Tensor) else feature.to_dense()


def one_hots(
    index: Int[Tensor, "*rest"], vocabulary: int, dtype: torch.dtype = torch.float32
) -> Float[Tensor, "*rest V"]:
    """One-hots in the given type; `functional.one_hot` would go through integers."""
    blank = torch.zeros(*index.shape, vocabulary, dtype=dtype, device=index.device)
    return blank.scatter_(-1, index.unsqueeze(-1), 1.0)


def stack_features(features: Sequence[Feature]) -> Feature:
    """Stack along a new first axis."""
    tokens = [each for each in features if isinstance(each, TokenFeature)]
    if not tokens:
        return torch.stack([each for each in features if isinstance(each, Tensor)])
    index = torch.stack([each.index for each in tokens])
    vector = torch.stack([each.vector for each in tokens])
    return TokenFeature(index, vector, tokens[0].vocabulary)
