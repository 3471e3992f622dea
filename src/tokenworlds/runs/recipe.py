"""A recipe: the whole description of a run, apart from environment, seed and folder."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from tokenworlds.core.config import ConfigOf
from tokenworlds.core.protocols import Behaviour, Schedule, World
from tokenworlds.nets.optimisers import Optimiser
from tokenworlds.replay.sampling import Sampler


@dataclass(frozen=True, kw_only=True, slots=True)
class Learning:
    """How one part learns: the segments of an update, the weights of its losses, the optimiser."""

    batch: int
    length: int
    scales: Mapping[str, float]
    optimiser: Optimiser.Config


@dataclass(frozen=True, kw_only=True, slots=True)
class Evaluation:
    """How the agent is judged: `episodes` every so many steps, `final_episodes` at the end.

    At temperature 0 it takes the likeliest actions, at 1 it draws as its policy says.
    """

    every: int
    episodes: int
    final_episodes: int
    temperature: float = 0.0

    def __post_init__(self) -> None:
        insist_on_temperature(self.temperature)


@dataclass(frozen=True, kw_only=True, slots=True)
class Collection:
    """How the agent plays while it learns.

    With probability `random_share` an action is drawn at random, in each stream for itself.
    """

    temperature: float = 1.0
    random_share: float = 0.0

    def __post_init__(self) -> None:
        insist_on_temperature(self.temperature)
        if not 0.0 <= self.random_share <= 1.0:
            raise ValueError(f"random_share={self.random_share} is no share: 0 to 1 is allowed")


@dataclass(frozen=True, kw_only=True, slots=True)
class Housekeeping:
    """How often the run is written down, in agent steps."""

    log_every: int
    save_every: int
    keep: int = 2


@dataclass(frozen=True, kw_only=True, slots=True)
class Recipe:
    """Every number of a paper. `resolution` is the side of a frame; `num_envs` run in parallel.

    In `grey`, frames have one channel.
    """

    paper: str
    steps: int
    resolution: int
    num_envs: int
    world: ConfigOf[World]
    behaviour: ConfigOf[Behaviour]
    learning: Mapping[str, Learning]
    sampler: ConfigOf[Sampler]
    schedule: ConfigOf[Schedule]
    evaluation: Evaluation
    housekeeping: Housekeeping
    collection: Collection = field(default_factory=Collection)
    grey: bool = False


def build_schedule(recipe: Recipe) -> Schedule:
    """The way of a run of this recipe."""
    return recipe.schedule.build(num_envs=recipe.num_envs, total=recipe.steps)


def insist_on_temperature(temperature: float) -> None:
    """Refuse what no policy can be drawn at."""
    if not 0.0 <= temperature < float("inf"):
        raise ValueError(f"temperature={temperature} is not allowed: it is 0 or more")
