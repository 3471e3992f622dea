"""What worlds, priors and behaviours tell an evaluation beyond what training asks of them.

All of it is optional: a quantity that a part cannot tell is absent from an evaluation.
"""

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from jaxtyping import Float, Int
from torch import Generator, Tensor

from tokenworlds.core.protocols import Distribution
from tokenworlds.core.types import Carry, Segment, View


@dataclass(frozen=True, slots=True)
class Prediction:
    """What a world expects of a step, and the tokens of the frame that really followed.

    `log_probs` are those of each token given the state and, in an autoregressive world, the real
    tokens before it. `posterior` is the encoder's distribution, where the world learns from it.
    `terminated` is None in a world without terminations; `discount` is the part of the chance to
    go on that is no prediction.
    """

    reward: Distribution
    terminated: Distribution | None
    index: Int[Tensor, "B K"] | None = None
    log_probs: Float[Tensor, "B K V"] | None = None
    posterior: Float[Tensor, "B K V"] | None = None
    discount: float = 1.0


@runtime_checkable
class PredictsSteps(Protocol):
    """A world that scores its expectation of a step against the real one."""

    def predict(self, carry: Carry, action: Tensor, following: Segment) -> Prediction:
        """The expectation after a state and an action.

        `following` holds the latest `frames` real steps; its last frame is the one that followed.
        The carry stays valid for one more call of `predict` or `step`.
        """


@runtime_checkable
class HoldsTokens(Protocol):
    """A world whose states hold tokens: those of the frame, or of the change that led to it."""

    def tokens_in(self, carry: Carry) -> Int[Tensor, "B K"] | None:
        """-1 in rows without a change; None if the states hold continuous latents."""

    def view_with(self, carry: Carry, index: Int[Tensor, "B K"]) -> View:
        """What a behaviour would read if the state held these tokens instead."""


@runtime_checkable
class ScoresTokens(Protocol):
    """A prior that gives the probabilities of tokens, not only samples of them."""

    def score(
        self, feature: Float[Tensor, "B D"], index: Int[Tensor, "B K"]
    ) -> Float[Tensor, "B K V"]:
        """Log-probabilities of each token; of `index` only earlier tokens may be read."""


@runtime_checkable
class ActionDistribution(Protocol):
    """A policy in a state. The mean is the probability of each action, or the mean action."""

    @property
    def mean(self) -> Tensor: ...

    @property
    def mode(self) -> Tensor: ...

    def sample(self, generator: Generator | None) -> Tensor: ...

    def entropy(self) -> Tensor: ...


@dataclass(frozen=True, slots=True)
class Assessment:
    """The value that a behaviour gives to a state, and its policy there with its entropy."""

    value: Float[Tensor, " B"]
    entropy: Float[Tensor, " B"]
    policy: ActionDistribution | None = None


@runtime_checkable
class AssessesStates(Protocol):
    """A behaviour that tells its value and its policy's entropy.

    `return_spread` is the running spread of imagined returns that divides advantages, and
    `return_floor` the least divisor; None if the behaviour does not divide by one.
    """

    @property
    def discount(self) -> float: ...

    @property
    def return_spread(self) -> float | None: ...

    @property
    def return_floor(self) -> float | None: ...

    def assess(self, view: View, carry: Carry) -> tuple[Assessment, Carry]: ...
