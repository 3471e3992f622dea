"""A recipe: all settings of a run apart from environment, seed and device."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tokenworlds.core.config import ConfigOf
from tokenworlds.core.errors import UserError
from tokenworlds.core.protocols import Behaviour, Sampler, Schedule, World
from tokenworlds.nets.optimisers import Optimiser


@dataclass(frozen=True, kw_only=True, slots=True)
class Learning:
    """One learner: `batch` segments of `length` per update, loss weights and optimiser.

    `scales` overrides the default weight of loss terms by name. The frames of a segment are shifted
    together, by random multiples of `shift_step` pixels, at most `shift`, in both directions. With
    `average`, all but updates use an exponential average of the weights with this decay.
    """

    batch: int
    length: int
    shift: int = 0
    shift_step: int = 1
    average: float = 0.0
    scales: Mapping[str, float] = field(default_factory=dict)
    optimiser: Optimiser.Config

    def __post_init__(self) -> None:
        if self.shift < 0:
            raise UserError(f"shift takes 0 or more pixels, not {self.shift}")
        if self.shift_step < 1:
            raise UserError(f"shift_step takes 1 or more pixels, not {self.shift_step}")
        if not 0.0 <= self.average < 1.0:
            raise UserError(f"average takes a decay from 0 (off) to below 1, not {self.average}")


@dataclass(frozen=True, kw_only=True, slots=True)
class Evaluation:
    """`episodes` are played every `every` steps, `final_episodes` at the end.

    Temperature 0 takes the most likely action, temperature 1 samples from the policy.
    """

    every: int
    episodes: int
    final_episodes: int
    temperature: float = 0.0

    def __post_init__(self) -> None:
        check_temperature(self.temperature)


@dataclass(frozen=True, kw_only=True, slots=True)
class Collection:
    """How the agent acts while it trains.

    With probability `random_share`, independently in each environment, the action is random.
    """

    temperature: float = 1.0
    random_share: float = 0.0

    def __post_init__(self) -> None:
        check_temperature(self.temperature)
        if not 0.0 <= self.random_share <= 1.0:
            raise ValueError(f"random_share={self.random_share} is not allowed: it takes 0 to 1")


@dataclass(frozen=True, kw_only=True, slots=True)
class Housekeeping:
    """Intervals of logs and checkpoints in steps of the run (0: never); `keep` checkpoints stay."""

    log_every: int
    save_every: int
    keep: int = 2


@dataclass(frozen=True, kw_only=True, slots=True)
class Recipe:
    """`paper` is the reference; frames have `resolution` pixels a side, and one channel if `grey`.

    `steps` are agent steps of all `num_envs` environments together.
    """

    paper: str
    steps: int
    resolution: int
    num_envs: int
    world: ConfigOf[World]
    behaviour: ConfigOf[Behaviour]
    learning: Mapping[str, Learning]
    sampler: ConfigOf[Sampler[Any]]
    schedule: ConfigOf[Schedule]
    evaluation: Evaluation
    housekeeping: Housekeeping
    collection: Collection = field(default_factory=Collection)
    grey: bool = False


def build_schedule(recipe: Recipe) -> Schedule:
    return recipe.schedule.build(num_envs=recipe.num_envs, total=recipe.steps)


def check_temperature(temperature: float) -> None:
    if not 0.0 <= temperature < float("inf"):
        raise ValueError(f"temperature={temperature} is not allowed: it takes 0 or more")
