"""evaluation.json: the return of every episode, the evaluation protocol, and the scores."""

import json
import math
import statistics
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np

from tokenworlds.core.achievements import ACHIEVEMENT
from tokenworlds.core.files import CHECKSUM, DamagedFile, checksum, read_signed_json, replace_file

FILE = "evaluation.json"
FOLDER = "evaluations"
"""Evaluations besides the final one, a file each."""
LONGEST = 2**24
GREATEST = sys.float_info.max
INFO = ("info", "random_info")
SERIES = ("returns", "lengths", "seeds", "random_returns", "random_lengths")
"""A number for every episode, in the same order; random actions meet environments of the same
seeds."""
Info = Mapping[str, tuple[float, ...]]
"""By name, the value of every episode in the order of the returns."""


@dataclass(frozen=True, slots=True)
class Score:
    """Mean return with its standard error; the error is None for a single episode."""

    mean: float
    error: float | None
    episodes: int

    def __str__(self) -> str:
        return f"{self.mean:.2f}" if self.error is None else f"{self.mean:.2f} ± {self.error:.2f}"


@dataclass(frozen=True, slots=True)
class CrafterScore:
    """Success rate of each achievement and the Crafter score, all in percent."""

    score: float
    success: Mapping[str, float]

    def __str__(self) -> str:
        return f"{self.score:.1f} %"


@dataclass(frozen=True, slots=True)
class TrainingEpisodes:
    """Episodes that ended while an agent trained, summed up.

    `unlocked` counts the episodes that unlocked each achievement at least once.
    """

    episodes: int = 0
    total_return: float = 0.0
    unlocked: Mapping[str, int] = field(default_factory=dict)

    def plus(self, score: float, info: Mapping[str, float]) -> "TrainingEpisodes":
        """With one more episode: its return and the info of its last step."""
        reported = {name: count for name, count in info.items() if name.startswith(ACHIEVEMENT)}
        unlocked = {
            name.removeprefix(ACHIEVEMENT): self.unlocked.get(name.removeprefix(ACHIEVEMENT), 0)
            + (count > 0)
            for name, count in reported.items()
        }
        total = self.total_return + score
        return TrainingEpisodes(self.episodes + 1, total, {**self.unlocked, **unlocked})

    @property
    def mean_return(self) -> float:
        return self.total_return / self.episodes

    @property
    def crafter(self) -> CrafterScore | None:
        """Crafter's own convention: rates over all training episodes."""
        success = {name: 100.0 * n / self.episodes for name, n in self.unlocked.items()}
        return CrafterScore(score_of_rates(list(success.values())), success) if success else None


@dataclass(frozen=True, kw_only=True, slots=True)
class Result:
    """Episodes of an agent, and of a random policy in the same environment.

    `info` holds what the environment reports about an episode besides its return.
    """

    recipe: str
    size: str
    env: str
    protocol: str
    seed: int
    agent_steps: int
    updates: int
    gradient_steps: int
    temperature: float
    checkpoint: str = ""
    """The hash of the manifest of the checkpoint that played."""
    returns: tuple[float, ...]
    lengths: tuple[int, ...] = ()
    """Agent steps."""
    seeds: tuple[int, ...] = ()
    """Seeds of the environments."""
    random_returns: tuple[float, ...] = ()
    random_lengths: tuple[int, ...] = ()
    info: Info = field(default_factory=dict)
    random_info: Info = field(default_factory=dict)
    training: TrainingEpisodes | None = None
    """Where achievements count, the episodes of the agent's training."""
    ended: str = ""
    """Why the training stopped early, if it did."""

    @property
    def score(self) -> Score:
        return score_of(self.returns)

    @property
    def random_score(self) -> Score | None:
        return score_of(self.random_returns) if self.random_returns else None

    @property
    def crafter(self) -> CrafterScore | None:
        """None if the environment counts no achievements."""
        return crafter_score(self.info)

    @property
    def random_crafter(self) -> CrafterScore | None:
        return crafter_score(self.random_info)


def info_by_name(episodes: Sequence[Mapping[str, float]]) -> Info:
    """Collect the entries that every episode has."""
    first = episodes[0] if episodes else {}
    names = [name for name in first if all(name in info for info in episodes)]
    return {name: tuple(info[name] for info in episodes) for name in names}


def score_of(returns: Sequence[float]) -> Score:
    """Mean and standard error (from the sample variance) of at least one return."""
    if not returns:
        raise ValueError("a score needs at least one episode")
    mean = statistics.fmean(returns)
    if len(returns) == 1:
        return Score(mean, None, 1)
    return Score(mean, statistics.stdev(returns) / math.sqrt(len(returns)), len(returns))


def crafter_score(info: Mapping[str, Sequence[float]]) -> CrafterScore | None:
    """Score of the Crafter benchmark (Hafner, 2022); None if `info` counts no achievements."""
    success = {
        # The percentage of episodes that unlocked the achievement at least once.
        name.removeprefix(ACHIEVEMENT): 100.0 * float(np.mean(np.asarray(counts) > 0))
        for name, counts in info.items()
        if name.startswith(ACHIEVEMENT)
    }
    return CrafterScore(score_of_rates(list(success.values())), success) if success else None


def score_of_rates(rates: Sequence[float]) -> float:
    """exp(mean ln(1 + rate)) - 1, in percent: rare achievements weigh more."""
    return float(np.expm1(np.log1p(np.asarray(rates, float)).mean()))


def write_result(path: Path, result: Result) -> Path:
    """Write a result with the checksum of its values."""
    document = to_document(result)
    signed = {**document, CHECKSUM: checksum(document)}
    return replace_file(path, (json.dumps(signed, indent=2) + "\n").encode())


def to_document(result: Result) -> dict[str, Any]:
    """The content of evaluation.json: the fields of a result, `score` and `random_score`.

    `info`, `training` and Crafter scores are left out if the environment reports none, and `ended`
    unless the training stopped early.
    """
    random = result.random_score
    crafter = {
        "crafter": result.crafter,
        "random_crafter": result.random_crafter,
        "training_crafter": result.training.crafter if result.training else None,
    }
    optional = (*INFO, "training", "ended")
    values = {
        name: value for name, value in asdict(result).items() if name not in optional or value
    }
    return {
        **values,
        "score": asdict(result.score),
        "random_score": None if random is None else asdict(random),
        **{name: asdict(score) for name, score in crafter.items() if score is not None},
    }


def name_of(result: Result, usual_temperature: float) -> str:
    """The name of a result in evaluations/."""
    # The key of an image, which is an option, may hold a slash.
    protocol = result.protocol.replace("/", "-")
    words = [f"step-{result.agent_steps}", protocol, f"s{result.seed}"]
    if result.temperature != usual_temperature:
        words.append(f"t{result.temperature:g}")
    return f"{'-'.join(words)}-{len(result.returns)}-episodes.json"


def read_result(path: Path) -> Result | None:
    """Read a result, None if the file does not exist; `DamagedFile` if its checksum differs."""
    if not path.exists():
        return None
    document = read_signed_json(path.parent, path.name, LONGEST)
    try:
        names = {field.name for field in fields(Result)}
        values = {name: value for name, value in document.items() if name in names}
        series = {name: numbers(values.get(name, ())) for name in SERIES}
        info = {name: read_info(document.get(name, {})) for name in INFO}
        training = {"training": read_training(document.get("training"))}
        if not series["returns"] or not isinstance(values["agent_steps"], int):
            raise ValueError("it holds no returns, or no step at which they were played")
        return Result(**{**values, **series, **info, **training})
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise DamagedFile(path, f"{type(error).__name__}: {error}"[:100]) from None


def read_training(document: Mapping[str, Any] | None) -> TrainingEpisodes | None:
    if document is None:
        return None
    found = TrainingEpisodes(**document)
    numbers([found.episodes, found.total_return, *found.unlocked.values()])
    if found.episodes < 1:
        raise ValueError("its training has no episodes")
    return found


def numbers(values: Sequence[Any]) -> tuple[Any, ...]:
    """The values, if all are finite numbers."""
    for value in values:
        whole_or_float = isinstance(value, int | float) and not isinstance(value, bool)
        if not whole_or_float or not -GREATEST <= value <= GREATEST:
            raise ValueError(f"{json.dumps(value)[:20]} is no finite number")
    return tuple(values)


def read_info(document: Mapping[str, Sequence[float]]) -> Info:
    return {name: numbers(values) for name, values in dict(document).items()}


def action_selection(temperature: float) -> str:
    if temperature == 0.0:
        return "greedy actions"
    return "sampled actions" + ("" if temperature == 1.0 else f", temperature {temperature:g}")
