"""Every interface between parts. State is passed in and returned; components keep none.

Optional capabilities, which only some worlds or parts have, are at the end.
"""

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Protocol, TypeVar, runtime_checkable

import numpy as np
from jaxtyping import Bool, Float, Int, UInt8
from numpy.typing import NDArray
from torch import Generator, Tensor

from tokenworlds.core.progress import Phase, Progress
from tokenworlds.core.types import (
    ActionSpace,
    Carry,
    Codes,
    Context,
    EnvStep,
    FrameShape,
    Losses,
    Outcome,
    Reconstruction,
    Segment,
    Trainable,
    View,
)

CarryT = TypeVar("CarryT")
Windows_contra = TypeVar("Windows_contra", contravariant=True)


@runtime_checkable
class Env(Protocol):
    """One environment with frames as observations; a function of the seed and the actions."""

    frame_shape: FrameShape
    action_space: ActionSpace

    def reset(self, seed: int) -> NDArray[Any]:
        """Start the game of this seed; returns its first frame (uint8, H W C)."""

    def step(self, action: NDArray[Any]) -> EnvStep:
        """Execute an action. After a step that is `over`, call `reset`."""

    def close(self) -> None: ...


@runtime_checkable
class Tokenizer(Protocol):
    """Frames in [0, 1] to tokens and back."""

    tokens: int
    vocabulary: int

    @property
    def grid(self) -> tuple[int, int] | None:
        """Height and width of the tokens' grid, if they lie on one."""

    def encode(
        self, frames: Float[Tensor, "*rest C H W"], context: Context | None = None
    ) -> Codes: ...

    def look_up(self, index: Int[Tensor, "*rest K"]) -> Codes:
        """The codes of given tokens, with a posterior that is certain of them."""

    def decode(
        self, codes: Codes, context: Context | None = None
    ) -> Float[Tensor, "*rest C H W"]: ...

    def losses(
        self,
        frames: Float[Tensor, "B T C H W"],
        codes: Codes,
        mask: Bool[Tensor, "B T"],
        context: Context | None = None,
    ) -> Losses: ...


@runtime_checkable
class StateMixer(Protocol):
    """Tokens and action of a step to one vector, the sequence model's input."""

    def __call__(
        self, sample: Float[Tensor, "*rest K V"], action: Float[Tensor, "*rest A"]
    ) -> Float[Tensor, "*rest D"]:
        """From one-hot samples, which pass gradients to the tokenizer."""

    def look_up(
        self, index: Int[Tensor, "*rest K"], action: Float[Tensor, "*rest A"]
    ) -> Float[Tensor, "*rest D"]:
        """The same from indices, without one-hots."""


@runtime_checkable
class SequenceModel(Protocol[CarryT]):
    """A function of history. Contract: `scan` equals repeated `step`, resets included.

    A step is a vector or a map; `width` is the output's size or number of channels.
    """

    width: int

    def initial(self, batch: int, steps: int | None = None) -> CarryT:
        """The carry of an empty history; `steps` bounds the calls to come and sizes the cache."""

    def step(
        self, x: Float[Tensor, "B *D"], carry: CarryT
    ) -> tuple[Float[Tensor, "B *E"], CarryT]: ...

    def scan(
        self, x: Float[Tensor, "B T *D"], reset: Bool[Tensor, "B T"], carry: CarryT
    ) -> tuple[Float[Tensor, "B T *E"], CarryT]:
        """All steps at once. Where `reset` is set, history is cleared before that step."""


@runtime_checkable
class Prior(Protocol):
    """A distribution over the next frame's tokens, given history."""

    def losses(
        self, feature: Float[Tensor, "B T D"], codes: Codes, mask: Bool[Tensor, "B T"]
    ) -> Losses:
        """Losses of predicting `codes` from the feature at the same index."""

    def sample(
        self, feature: Float[Tensor, "*rest D"], generator: Generator | None
    ) -> Int[Tensor, "*rest K"]: ...


@runtime_checkable
class Distribution(Protocol):
    """The output of a head; it owns its loss."""

    def loss(self, target: Tensor) -> Tensor:
        """Negative log-likelihood (or a stand-in) of a target, unreduced."""

    @property
    def mean(self) -> Tensor: ...

    @property
    def mode(self) -> Tensor: ...

    def sample(self, generator: Generator | None) -> Tensor: ...

    def entropy(self) -> Tensor: ...


@runtime_checkable
class Head(Protocol):
    """A feature to a distribution."""

    def __call__(self, feature: Float[Tensor, "*rest D"]) -> Distribution: ...


@runtime_checkable
class World(Protocol):
    """A learned environment. `frames` is the number of frames in one observation."""

    feature_shape: tuple[int, ...]
    frames: int

    def trainables(self) -> Mapping[str, Trainable]:
        """The parts that learn from replay, by the name of their learner."""

    def policy_frames(self, segment: Segment) -> Float[Tensor, "B T C H W"]:
        """The frames of a segment as a policy on frames sees them, e.g. reconstructed."""

    def reconstruct(self, segment: Segment) -> Reconstruction | None:
        """The segment encoded and decoded; None for a world without tokens."""

    def observe(
        self,
        frame: UInt8[Tensor, "B H W C"],
        action: Tensor,
        reset: Bool[Tensor, " B"],
        carry: Carry | None,
        generator: Generator | None = None,
    ) -> Carry:
        """Update the state with the last action and a real frame; `reset` clears history first."""

    def start(self, segment: Segment, steps: int) -> Carry:
        """The state at the last step, with room for this many imagined steps."""

    def step(
        self, carry: Carry, action: Tensor, generator: Generator | None = None
    ) -> tuple[Carry, Outcome]: ...

    def view(self, carry: Carry) -> View: ...


@runtime_checkable
class Behaviour(Protocol):
    """Chooses actions, and learns from imagined or real steps.

    `horizon` is the length of its dreams, 0 if it learns from real steps alone.
    """

    horizon: int

    def initial(self, batch: int) -> Carry: ...

    def act(
        self, view: View, carry: Carry, generator: Generator | None, temperature: float = 1.0
    ) -> tuple[Tensor, Carry]:
        """An action for each row. Temperature 0 is greedy, 1 samples from the policy."""

    def losses(
        self, world: World, segment: Segment, generator: Generator | None
    ) -> Losses | Iterator[Losses]: ...


@runtime_checkable
class Schedule(Protocol):
    """The phases from a run's progress to its goal, built from `num_envs` and `total` agent steps.

    `prefill_key` is the config key that sets how
    much is collected before the first update.
    """

    prefill_key: ClassVar[str]

    @property
    def goal(self) -> Progress: ...

    def phases(self, progress: Progress) -> Iterator[Phase]: ...

    def step(self, progress: Progress) -> int:
        """The step of the run, which times evaluations, logs and checkpoints.

        It counts agent steps, and goes on where a run only updates.
        """


@runtime_checkable
class Sampler(Protocol[Windows_contra]):
    """Chooses the windows that the learners read; all learners of an agent share one sampler.

    It is built with `batches`, the batch size of each learner by name. The windows must be a
    function of the arguments of `sample` and of `state`.
    """

    def sample(
        self, learner: str, windows: Windows_contra, batch: int, rng: np.random.Generator
    ) -> Int[np.ndarray, "B 2"]:
        """Environment and time at which each sampled window starts."""

    def state(self) -> dict[str, np.ndarray]: ...

    def restore(self, state: Mapping[str, np.ndarray]) -> None: ...


@runtime_checkable
class Screen(Protocol):
    """Shows a run while it trains: logged metrics, throughput and remaining time, sentences."""

    def event(self, event: Mapping[str, Any]) -> None: ...

    def progress(
        self, steps: int, rates: Mapping[str, float], seconds_left: float | None, share: float
    ) -> None: ...

    def note(self, text: str) -> None: ...


@runtime_checkable
class VectorEncoder(Protocol):
    """Frames or maps to vectors of `width`."""

    width: int

    def __call__(self, maps: Float[Tensor, "B C H W"], /) -> Float[Tensor, "B D"]: ...
