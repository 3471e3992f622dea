"""The only interfaces: small, functional, with state passed in and handed back."""

from collections.abc import Iterator, Mapping
from typing import Any, Protocol, TypeVar, runtime_checkable

import numpy as np
from jaxtyping import Bool, Float, Int, UInt8
from numpy.typing import NDArray
from torch import Generator, Tensor, nn

from tokenworlds.core.progress import Phase, Progress
from tokenworlds.core.types import (
    ActionSpace,
    Carry,
    Codes,
    Context,
    Dream,
    EnvStep,
    FrameShape,
    Losses,
    Part,
    Recoded,
    Segment,
)

CarryT = TypeVar("CarryT")


@runtime_checkable
class Env(Protocol):
    """One environment, seen as frames. A run of it is a function of the seed and the actions."""

    frame_shape: FrameShape
    action_space: ActionSpace

    def reset(self, seed: int) -> NDArray[Any]:
        """Begin the game that this seed stands for; returns its first frame (uint8, H W C)."""
        ...

    def step(self, action: NDArray[Any]) -> EnvStep:
        """Execute an action; legal until a step is `over`, after which `reset` must follow."""
        ...

    def close(self) -> None:
        """Give back windows, processes and memory."""
        ...


@runtime_checkable
class Tokenizer(Protocol):
    """Frames to codes and back."""

    tokens: int
    vocabulary: int

    def encode(self, frames: Float[Tensor, "*rest C H W"], context: Context | None = None) -> Codes:
        """The codes of frames in [0, 1]."""
        ...

    def look_up(self, index: Int[Tensor, "*rest K"]) -> Codes:
        """The codes that bear these indices, as if an encoder had been certain of them."""
        ...

    def decode(self, codes: Codes, context: Context | None = None) -> Float[Tensor, "*rest C H W"]:
        """Frames in [0, 1]."""
        ...

    def losses(
        self,
        frames: Float[Tensor, "B T C H W"],
        codes: Codes,
        mask: Bool[Tensor, "B T"],
        context: Context | None = None,
    ) -> Losses:
        """How well the codes stand for the frames."""
        ...


@runtime_checkable
class StateMixer(Protocol):
    """Codes and action of a step in one vector, for a sequence model to read."""

    def __call__(
        self, sample: Float[Tensor, "*rest K V"], action: Float[Tensor, "*rest A"]
    ) -> Float[Tensor, "*rest D"]:
        """From one-hot samples, through which gradients reach the tokenizer."""
        ...

    def look_up(
        self, index: Int[Tensor, "*rest K"], action: Float[Tensor, "*rest A"]
    ) -> Float[Tensor, "*rest D"]:
        """The same from indices, with no one-hots made."""
        ...


@runtime_checkable
class SequenceModel(Protocol[CarryT]):
    """A function of history. Contract for all: `scan` equals repeated `step`, resets included.

    A step is a vector or a map; `width` is the size, or the channels, of what is made of it.
    """

    width: int

    def initial(self, batch: int, steps: int | None = None) -> CarryT:
        """The carry of no history; `steps` bounds the calls to come, so that a cache is small."""
        ...

    def step(self, x: Float[Tensor, "B *D"], carry: CarryT) -> tuple[Float[Tensor, "B *E"], CarryT]:
        """One step."""
        ...

    def scan(
        self, x: Float[Tensor, "B T *D"], reset: Bool[Tensor, "B T"], carry: CarryT
    ) -> tuple[Float[Tensor, "B T *E"], CarryT]:
        """All steps at once; where `reset` is set the history is forgotten before that step."""
        ...


@runtime_checkable
class Prior(Protocol):
    """What the codes of the next frame may be, given a history."""

    def losses(
        self, feature: Float[Tensor, "B T D"], codes: Codes, mask: Bool[Tensor, "B T"]
    ) -> Losses:
        """How far the prediction at each step is from the codes of the same step."""
        ...

    def sample(
        self, feature: Float[Tensor, "*rest D"], generator: Generator | None
    ) -> Int[Tensor, "*rest K"]:
        """Draw the codes of a frame."""
        ...


@runtime_checkable
class Distribution(Protocol):
    """What a head returns; it owns its loss."""

    def loss(self, target: Tensor) -> Tensor:
        """Negative log-likelihood (or its stand-in) of a target, unreduced."""
        ...

    @property
    def mean(self) -> Tensor:
        """Expected value."""
        ...

    @property
    def mode(self) -> Tensor:
        """Likeliest value."""
        ...

    def sample(self, generator: Generator | None) -> Tensor:
        """Draw a value."""
        ...

    def entropy(self) -> Tensor:
        """In nats."""
        ...


@runtime_checkable
class Head(Protocol):
    """A feature to a distribution."""

    def __call__(self, feature: Float[Tensor, "*rest D"]) -> Distribution:
        """What the feature says about the target."""
        ...


@runtime_checkable
class View(Protocol):
    """What a behaviour may look at: a feature, or a frame made on request."""

    @property
    def feature(self) -> Float[Tensor, "B *D"]:
        """Codes and history."""
        ...

    @property
    def frame(self) -> Float[Tensor, "B C H W"]:
        """In [0, 1]."""
        ...


@runtime_checkable
class World(Protocol):
    """A learned environment."""

    feature_shape: tuple[int, ...]

    def parts(self) -> Mapping[str, Part]:
        """What learns from real steps, by the name of its learner."""
        ...

    def seen(self, segment: Segment) -> Float[Tensor, "B T C H W"]:
        """The frames of a segment as a behaviour that looks at frames is shown them."""
        ...

    def recode(self, segment: Segment) -> Recoded | None:
        """The segment through codes and back; None if there are no codes to show."""
        ...

    def observe(
        self,
        frame: UInt8[Tensor, "B H W C"],
        action: Tensor,
        reset: Bool[Tensor, " B"],
        carry: Carry | None,
        generator: Generator | None = None,
    ) -> Carry:
        """Take in a real frame, and the action that led to it unless the episode was reset."""
        ...

    def start(self, segment: Segment, steps: int) -> Carry:
        """The state at the last step of a segment, ready to dream this many steps."""
        ...

    def step(
        self, carry: Carry, action: Tensor, generator: Generator | None = None
    ) -> tuple[Carry, Dream]:
        """Imagine one step."""
        ...

    def view(self, carry: Carry) -> View:
        """What a behaviour sees of a state."""
        ...


@runtime_checkable
class Behaviour(Protocol):
    """Chooses actions; learns inside a world, dreaming `horizon` steps at a time."""

    horizon: int

    def initial(self, batch: int) -> Carry:
        """The carry at the start of an episode."""
        ...

    def act(
        self, view: View, carry: Carry, generator: Generator | None, temperature: float = 1.0
    ) -> tuple[Tensor, Carry]:
        """Choose an action for each row: at temperature 0 the likeliest, at 1 as drawn."""
        ...

    def lessons(
        self, world: World, segment: Segment, generator: Generator | None
    ) -> Iterator[Losses]:
        """Dream from the end of a segment and compare what was done with what came of it."""
        ...


@runtime_checkable
class Schedule(Protocol):
    """The order of a run's work, built from `num_envs` and `total`, its agent steps.

    All members are functions of the run's progress.
    """

    @property
    def goal(self) -> Progress:
        """The progress of a finished run."""
        ...

    def phases(self, progress: Progress) -> Iterator[Phase]:
        """The phases from `progress` to the goal."""
        ...

    def step(self, progress: Progress) -> int:
        """The step of the run, which times evaluations, logs and checkpoints.

        It counts agent steps, and goes on where a run only updates.
        """
        ...


@runtime_checkable
class HasRemark(Protocol):
    """A part with a sentence that users should read before training; empty if there is none."""

    remark: str


@runtime_checkable
class HasPrior(Protocol):
    """A world with a tokenizer and a prior over its tokens."""

    tokenizer: nn.Module
    prior: nn.Module


@runtime_checkable
class BoundedSequence(SequenceModel[CarryT], Protocol[CarryT]):
    """A sequence model with a longest history: it has one position per token."""

    @property
    def max_tokens(self) -> int: ...

    def room(self, carry: CarryT) -> int:
        """How many more tokens fit before any row loses its oldest."""
        ...

    def extend(
        self, x: Float[Tensor, "B T D"], carry: CarryT
    ) -> tuple[Float[Tensor, "B T D"], CarryT]:
        """Several tokens in one pass; more than one must have `room`."""
        ...


@runtime_checkable
class ReplayWindows(Protocol):
    """All windows of `length` consecutive steps in `num_envs` environments of `steps` steps."""

    @property
    def num_envs(self) -> int: ...

    @property
    def steps(self) -> int: ...

    @property
    def length(self) -> int: ...

    @property
    def starts(self) -> int:
        """The number of windows in each environment."""
        ...

    def __len__(self) -> int: ...

    def opens(self, since: int) -> Bool[np.ndarray, "N T"]:
        """Which steps from `since` on open an episode."""
        ...

    def locate(self, index: Int[np.ndarray, " B"]) -> Int[np.ndarray, "B 2"]:
        """Environment and time at which windows start, numbered env by env."""
        ...


@runtime_checkable
class Sampler(Protocol):
    """Chooses the windows that the learners read; all learners of an agent share one sampler.

    It is built with `batches`, the batch size of each learner by name. The windows must be a
    function of the arguments of `sample` and of `state`.
    """

    def sample(
        self, learner: str, windows: ReplayWindows, batch: int, rng: np.random.Generator
    ) -> Int[np.ndarray, "B 2"]:
        """Environment and time at which each sampled window starts."""
        ...

    def state(self) -> dict[str, np.ndarray]:
        """All that `restore` needs."""
        ...

    def restore(self, state: Mapping[str, np.ndarray]) -> None: ...
