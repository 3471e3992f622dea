"""The glossary: the values that pass between parts, and the words used for them.

frame   an image as the agent sees it, uint8, height x width x channels
obs     what the agent sees at a step (here always a frame)
action  what it then did: an index, or a vector of floats
reward, ending, truncation   what came of it: ending is a true end, truncation a time limit
first   the step opens an episode
carry   the state a component hands back to be given in again
feature what heads and behaviours read: codes and history of a step
code    an index into a vocabulary; a frame has K of them
dream   one imagined step
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from einops import rearrange
from jaxtyping import Bool, Float, Int, UInt8
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from tokenworlds.core.coded import Coded
from tokenworlds.core.errors import unknown
from tokenworlds.core.trees import map_tensors


@dataclass(frozen=True, slots=True)
class ActionSpace:
    """Discrete: `size` choices, an action is an index. Continuous: vectors of `size` in [-1, 1]."""

    size: int
    discrete: bool = True

    def encode(self, action: Tensor) -> Float[Tensor, "*rest A"]:
        """The vector a network reads: one-hot for an index, the vector itself otherwise."""
        if self.discrete:
            return functional.one_hot(action.long(), self.size).float()
        return action.float()

    def zeros(self, *shape: int, device: torch.device | None = None) -> Tensor:
        """Placeholder actions of a batch shape, for steps before which nothing was done."""
        if self.discrete:
            return torch.zeros(shape, dtype=torch.long, device=device)
        return torch.zeros((*shape, self.size), device=device)


@dataclass(frozen=True, slots=True)
class FrameShape:
    """Size of a frame as stored: height, width, channels."""

    height: int
    width: int
    channels: int = 3


@dataclass(frozen=True, slots=True)
class Segment:
    """Consecutive steps of environments. `mask` is False on padding.

    `codes` are those of each frame, or of the change that led to it, if they are known already.
    """

    frame: UInt8[Tensor, "B T H W C"]
    first: Bool[Tensor, "B T"]
    action: Int[Tensor, "B T"] | Float[Tensor, "B T A"]
    reward: Float[Tensor, "B T"]
    terminated: Bool[Tensor, "B T"]
    truncated: Bool[Tensor, "B T"]
    mask: Bool[Tensor, "B T"]
    codes: Int[Tensor, "B T K"] | None = None

    def to(self, device: torch.device) -> "Segment":
        """The same segment on another device; pinned memory is still being read on return.

        What is computed there waits for it by itself, and so does whoever writes to this memory
        after torch has given it out again.
        """
        ahead = device.type == "cuda"
        return map_tensors(lambda leaf: leaf.to(device, non_blocking=ahead), self)


@dataclass(frozen=True, slots=True)
class EnvStep:
    """What came of an action. `over` means that the environment must be reset before going on.

    A lost life may be `terminated` but not `over`: the game goes on in a new episode. `info` holds
    numbers about the game so far, by name; those of its last step are kept.
    """

    frame: NDArray[np.uint8]
    reward: float
    terminated: bool
    truncated: bool
    over: bool
    info: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Context:
    """What came before a frame: the last frame and the action taken on it."""

    frame: Float[Tensor, "*rest C H W"]
    action: Float[Tensor, "*rest A"]


@dataclass(frozen=True, slots=True)
class Codes:
    """A frame in discrete form.

    `logits` is the posterior over the vocabulary, log-normalised; `sample` its one-hot choice,
    whose gradient is that of the posterior's probabilities; `vector` is what a decoder reads, and
    `encoded` the same before it was made discrete.
    """

    index: Int[Tensor, "*rest K"]
    logits: Float[Tensor, "*rest K V"]
    sample: Float[Tensor, "*rest K V"]
    vector: Float[Tensor, "*rest K D"]
    encoded: Float[Tensor, "*rest K D"]


@dataclass(frozen=True, slots=True)
class Latent:
    """A frame in continuous form: independent normals at each site, and a draw from them.

    `vector` is what a decoder reads; its gradient reaches the parameters of the normals.
    """

    vector: Float[Tensor, "*rest K D"]
    mean: Float[Tensor, "*rest K D"]
    log_variance: Float[Tensor, "*rest K D"]


@dataclass(frozen=True, slots=True)
class Dream:
    """One imagined step: what came of the action, and the state it led to, made when asked for.

    `coded` is the feature told by codes, where a world can tell it so.
    """

    describe: Callable[[], Float[Tensor, "B *D"]]
    reward: Float[Tensor, " B"]
    terminated: Float[Tensor, " B"]
    decode: Callable[[], Float[Tensor, "B C H W"]]
    coded: Coded | None = None

    @property
    def feature(self) -> Float[Tensor, "B *D"]:
        """What heads and behaviours read of the state."""
        return self.describe()

    @property
    def frame(self) -> Float[Tensor, "B C H W"]:
        """The imagined frame in [0, 1], decoded now."""
        return self.decode()


@dataclass(frozen=True, slots=True)
class Recoded:
    """A segment as a world's codes hold it: codes, their grid, and the frames they stand for.

    With `shades` the codes are in order, from dark to light.
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
    what must follow the optimiser's step (moving averages). Computing losses changes nothing but
    the running statistics of batch norms.
    """

    terms: Mapping[str, Float[Tensor, "B T"]]
    masks: Mapping[str, Bool[Tensor, "B T"] | Float[Tensor, "B T"]]
    metrics: Mapping[str, Tensor] = field(default_factory=dict)
    after: tuple[Callable[[], None], ...] = ()
    scales: Mapping[str, float] = field(default_factory=dict)

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
        """The weighted sum of the means."""
        return weighted_sum(self.means(), self.weights(overrides))


@dataclass(frozen=True, slots=True)
class Part:
    """What one learner moves, and what it minds of a segment, lesson by lesson.

    A step of the optimiser follows each lesson before the next one is asked for.
    """

    module: nn.Module
    lessons: Callable[[Segment], Iterator[Losses]]


def once(losses: Callable[[Segment], Losses]) -> Callable[[Segment], Iterator[Losses]]:
    """The lessons of a part that learns one from each segment."""

    def lessons(segment: Segment) -> Iterator[Losses]:
        yield losses(segment)

    return lessons


def weighted_sum(means: Mapping[str, Tensor], weights: Mapping[str, float]) -> Tensor:
    return sum((weights[name] * mean for name, mean in means.items()), torch.zeros(()))


def masked_mean(values: Tensor, mask: Tensor) -> Tensor:
    """Mean over the entries where the mask is set (or weighted by it)."""
    weight = mask.to(values.dtype)
    return (values * weight).sum() / weight.sum().clamp_min(1.0)


def to_frames(frame: UInt8[Tensor, "*rest H W C"]) -> Float[Tensor, "*rest C H W"]:
    """Bytes to numbers in [0, 1], channels first, also in memory: see `nets.fast.convolution`."""
    return rearrange(frame, "... h w c -> ... c h w").contiguous() / 255.0


Carry = Any
"""A nested dataclass, tuple or dict of tensors; only the component that made it looks inside."""
