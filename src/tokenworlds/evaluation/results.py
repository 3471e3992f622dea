"""evaluation.json: the return of every episode, with all that a score means nothing without."""

import json
import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np

from tokenworlds.core.errors import UserError
from tokenworlds.core.facts import ACHIEVEMENT

FILE = "evaluation.json"
FACTS = ("facts", "random_facts")
Facts = Mapping[str, tuple[float, ...]]


@dataclass(frozen=True, slots=True)
class Score:
    """The mean return of some episodes; its standard error is not known from one alone."""

    mean: float
    error: float | None
    episodes: int

    def __str__(self) -> str:
        return f"{self.mean:.2f}" if self.error is None else f"{self.mean:.2f} ± {self.error:.2f}"


@dataclass(frozen=True, slots=True)
class CrafterScore:
    """In percent: the share of episodes with each achievement, and the score made from them."""

    score: float
    success: Mapping[str, float]

    def __str__(self) -> str:
        return f"{self.score:.1f} %"


@dataclass(frozen=True, kw_only=True, slots=True)
class Result:
    """Episodes played by one agent, and by a random policy in the same environment.

    Facts are what the environment tells of a game beside its return: for each name a value of
    every episode, in the order of the returns.
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
    returns: tuple[float, ...]
    random_returns: tuple[float, ...] = ()
    facts: Facts = field(default_factory=dict)
    random_facts: Facts = field(default_factory=dict)

    @property
    def score(self) -> Score:
        """How the agent did."""
        return score_of(self.returns)

    @property
    def random_score(self) -> Score | None:
        """How the random policy did, if it played."""
        return score_of(self.random_returns) if self.random_returns else None

    @property
    def crafter(self) -> CrafterScore | None:
        """The Crafter score of the agent, where achievements are counted."""
        return crafter_score(self.facts)

    @property
    def random_crafter(self) -> CrafterScore | None:
        """The Crafter score of the random policy, where achievements are counted."""
        return crafter_score(self.random_facts)


def facts_by_name(episodes: Sequence[Mapping[str, float]]) -> Facts:
    """Each fact that all episodes have, with its value in every episode."""
    first = episodes[0] if episodes else {}
    names = [name for name in first if all(name in facts for facts in episodes)]
    return {name: tuple(facts[name] for facts in episodes) for name in names}


def score_of(returns: Sequence[float]) -> Score:
    """Mean and standard error (from the sample variance) of at least one return."""
    if not returns:
        raise ValueError("no episode, no score")
    mean = statistics.fmean(returns)
    if len(returns) == 1:
        return Score(mean, None, 1)
    return Score(mean, statistics.stdev(returns) / math.sqrt(len(returns)), len(returns))


def write_result(path: Path, result: Result) -> Path:
    """Write a result with its scores worked out; the file is replaced in one go."""
    return replace_file(path, (json.dumps(to_document(result), indent=2) + "\n").encode())


def to_document(result: Result) -> dict[str, Any]:
    """What evaluation.json holds: the fields of a result, `score` and `random_score`.

    Facts, and the Crafter score that is made from them, are there if the environment told any.
    """
    random = result.random_score
    crafter = {"crafter": result.crafter, "random_crafter": result.random_crafter}
    known = {name: value for name, value in asdict(result).items() if name not in FACTS or value}
    return {
        **known,
        "score": asdict(result.score),
        "random_score": None if random is None else asdict(random),
        **{name: asdict(score) for name, score in crafter.items() if score is not None},
    }


def read_result(path: Path) -> Result | None:
    """The result in a file, None if there is no such file. Scores are worked out anew."""
    if not path.exists():
        return None
    try:
        document = json.loads(path.read_text())
        # Where updates are not told, each made one gradient step.
        document = {"updates": document["gradient_steps"], **document}
        names = [field.name for field in fields(Result) if field.name not in FACTS]
        values = {name: document[name] for name in names}
        returns = {name: tuple(values[name]) for name in ("returns", "random_returns")}
        facts = {name: read_facts(document.get(name, {})) for name in FACTS}
        return Result(**{**values, **returns, **facts})
    except (ValueError, KeyError, TypeError) as error:
        raise UserError(f"{path} cannot be read: {error!r}") from error


def read_facts(document: Mapping[str, Sequence[float]]) -> Facts:
    """Facts as a result holds them."""
    return {name: tuple(values) for name, values in dict(document).items()}


def replace_file(path: Path, content: bytes) -> Path:
    """Write a file so that a reader finds the old one or the new one, whole."""
    partial = path.with_name(f".partial-{path.name}")
    try:
        partial.write_bytes(content)
        return partial.replace(path)
    except OSError:
        partial.unlink(missing_ok=True)
        raise


def crafter_score(facts: Mapping[str, Sequence[float]]) -> CrafterScore | None:
    """The score of episodes whose facts count achievements; None if there are no such facts."""
    success = {
        name.removeprefix(ACHIEVEMENT): success_rate(counts)
        for name, counts in facts.items()
        if name.startswith(ACHIEVEMENT)
    }
    return CrafterScore(score_of_rates(list(success.values())), success) if success else None


def success_rate(counts: Sequence[float]) -> float:
    """Percentage of episodes that unlocked an achievement at least once."""
    return 100.0 * float(np.mean(np.asarray(counts) > 0))


def score_of_rates(rates: Sequence[float]) -> float:
    """exp(mean ln(1 + rate)) - 1, rates and score in percent: rare achievements weigh more."""
    return float(np.expm1(np.log1p(np.asarray(rates, float)).mean()))
