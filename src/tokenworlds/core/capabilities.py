"""Optional capabilities of worlds, behaviours and parts: a part has one by implementing it."""

from collections.abc import Callable
from typing import Any, ClassVar, Protocol, TypeVar, runtime_checkable

from jaxtyping import Bool, Float, Int
from torch import Generator, Tensor, nn

from tokenworlds.core.protocols import CarryT, SequenceModel, World
from tokenworlds.core.types import Carry, Cells, Losses, Outcome, Segment

Function = TypeVar("Function", bound=Callable[..., Any])


@runtime_checkable
class Compilable(Protocol):
    """A world or behaviour that replaces its losses and dream steps by compiled functions."""

    def compile_with(self, compile_function: Callable[[Function], Function]) -> None: ...


@runtime_checkable
class CachesTokens(Protocol):
    """A world whose tokens change only when the learner `tokenizer_learner` updates.

    The tokens of a frame depend on `token_context` steps before it.
    """

    tokens: int
    tokenizer_learner: ClassVar[str]
    token_context: ClassVar[int]

    def tokens_of(self, segment: Segment, wanted: Bool[Tensor, "B T"]) -> Int[Tensor, "n K"]:
        """The tokens of some frames of a segment, in the order of its rows."""


@runtime_checkable
class KeepsLatents(Protocol):
    """A world whose states replay keeps, to start training sequences from them."""

    latent_size: int

    def latents(self, carry: Carry) -> Float[Tensor, "B D"]: ...


@runtime_checkable
class GivesStates(Protocol):
    """A world with the state of every step of a segment: dreams may start from all of them."""

    def losses_and_states(self, segment: Segment) -> tuple[Losses, Carry]:
        """The world's losses, and its states with gradients, rows in the order (b t)."""


@runtime_checkable
class ReadsStates(Protocol):
    """A world that gives the state of every real step of a segment, without gradients."""

    def states(self, segment: Segment, steps: int) -> Carry:
        """Rows in the order (b t); from each, `steps` steps can be imagined."""


@runtime_checkable
class LearnsFromStates(Protocol):
    """A behaviour that shares an update with the world, with dreams from every state."""

    def losses_from_states(
        self, world: World, states: Carry, segment: Segment, generator: Generator | None
    ) -> Losses: ...


@runtime_checkable
class ChoosesStarts(Protocol):
    """A behaviour that may dream from every state of its segments, not only from the last one."""

    @property
    def dreams_from_every(self) -> bool: ...


@runtime_checkable
class PredictsOutcome(Protocol):
    """A world that predicts reward and termination of the step that led to a state."""

    def outcome(self, carry: Carry) -> Outcome: ...


@runtime_checkable
class DescribesSteps(Protocol):
    """A world that gives the feature of every real step of a segment."""

    def features(self, segment: Segment) -> tuple[Float[Tensor, "B T *D"], Bool[Tensor, "B T"]]:
        """The features, and whether each is the one that the policy saw."""


@runtime_checkable
class SamplesRandomTokens(Protocol):
    """A world that can also dream with uniformly sampled tokens (Δ-IRIS, figure 3)."""

    def step_with_random_tokens(
        self, carry: Carry, action: Tensor, generator: Generator | None = None
    ) -> tuple[Carry, Outcome]: ...


@runtime_checkable
class MapTokenizer(Protocol):
    """A tokenizer whose vectors lie on a grid; the decoder reads nothing else."""

    tokens: int
    width: int

    @property
    def grid(self) -> tuple[int, int]: ...

    def encode_vectors(self, frames: Float[Tensor, "*rest C H W"]) -> Float[Tensor, "*rest K D"]:
        """The vectors of frames, deterministically."""

    def token_vectors(self, sampled: Tensor) -> Float[Tensor, "*rest K D"]: ...

    def decode_vectors(
        self, vector: Float[Tensor, "*rest K D"]
    ) -> Float[Tensor, "*rest C H W"]: ...


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
class HasCells(Protocol):
    """A world whose tokens may be the cells of a grid (None: they are not)."""

    cells: Cells | None


@runtime_checkable
class BoundedSequence(SequenceModel[CarryT], Protocol[CarryT]):
    """A sequence model with at most `max_tokens` positions, which reads several tokens at once."""

    @property
    def max_tokens(self) -> int: ...

    def room(self, carry: CarryT) -> int:
        """How many more tokens fit before a row must forget."""

    def extend(
        self, x: Float[Tensor, "B T D"], carry: CarryT
    ) -> tuple[Float[Tensor, "B T D"], CarryT]: ...
