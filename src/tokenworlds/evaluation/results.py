"""evaluation.json: the return of every episode, with all that a score means nothing without."""

import json
import math
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from tokenworlds.core.errors import UserError

FILE = "evaluation.json"


@dataclass(frozen=True, slots=True)
class Score:
    """The mean return of some episodes; its standard error is not known from one alone."""

    mean: float
    error: float | None
    episodes: int

    def __str__(self) -> str:
        return f"{self.mean:.2f}" if self.error is None else f"{self.mean:.2f} ± {self.error:.2f}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Result:
    """Episodes played by one agent, and by a random policy in the same environment."""

    recipe: str
    size: str
    env: str
    protocol: str
    seed: int
    agent_steps: int
    greedy: bool
    returns: tuple[float, ...]
    random_returns: tuple[float, ...] = ()

    @property
    def score(self) -> Score:
        """How the agent did."""
        return score_of(self.returns)

    @property
    def random_score(self) -> Score | None:
        """How the random policy did, if it played."""
        return score_of(self.random_returns) if self.random_returns else None


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
    """What evaluation.json holds: the fields of a result, `score` and `random_score`."""
    random = result.random_score
    return {
        **asdict(result),
        "score": asdict(result.score),
        "random_score": None if random is None else asdict(random),
    }


def read_result(path: Path) -> Result | None:
    """The result in a file, None if there is no such file. Scores are worked out anew."""
    if not path.exists():
        return None
    try:
        document = json.loads(path.read_text())
        values = {field.name: document[field.name] for field in fields(Result)}
        returns = {name: tuple(values[name]) for name in ("returns", "random_returns")}
        return Result(**{**values, **returns})
    except (ValueError, KeyError, TypeError) as error:
        raise UserError(f"{path} cannot be read: {error!r}") from error


def replace_file(path: Path, content: bytes) -> Path:
    """Write a file so that a reader finds the old one or the new one, whole."""
    partial = path.with_name(f".partial-{path.name}")
    try:
        partial.write_bytes(content)
        return partial.replace(path)
    except OSError:
        partial.unlink(missing_ok=True)
        raise
