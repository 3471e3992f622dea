"""A recipe: the whole description of a run, apart from environment, seed and folder."""

from collections.abc import Mapping
from dataclasses import dataclass

from tokenworlds.core.config import ConfigOf
from tokenworlds.core.protocols import Behaviour, World
from tokenworlds.nets.optimisers import Optimiser
from tokenworlds.replay.sampling import Sampler
from tokenworlds.training.schedule import Schedule


@dataclass(frozen=True, kw_only=True, slots=True)
class Learning:
    """How one part learns: the segments of an update, the weights of its losses, the optimiser."""

    batch: int
    length: int
    scales: Mapping[str, float]
    optimiser: Optimiser.Config


@dataclass(frozen=True, kw_only=True, slots=True)
class Evaluation:
    """How the agent is judged: `episodes` every so many steps, `final_episodes` at the end."""

    every: int
    episodes: int
    final_episodes: int
    greedy: bool = True


@dataclass(frozen=True, kw_only=True, slots=True)
class Housekeeping:
    """How often the run is written down, in agent steps."""

    log_every: int
    save_every: int
    keep: int = 2


@dataclass(frozen=True, kw_only=True, slots=True)
class Recipe:
    """Every number of a paper. `resolution` is the side of a frame; `streams` play in parallel."""

    paper: str
    steps: int
    resolution: int
    streams: int
    world: ConfigOf[World]
    behaviour: ConfigOf[Behaviour]
    learning: Mapping[str, Learning]
    sampler: ConfigOf[Sampler]
    schedule: ConfigOf[Schedule]
    evaluation: Evaluation
    housekeeping: Housekeeping
