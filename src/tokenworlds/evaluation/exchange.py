"""Scores in the formats that other projects read and write.

- JSON `{task: [score of each run]}`, also with the algorithm's name around it.
- Crafter's stats.jsonl: an object for each episode with `reward` (its return), `length` and a count
  `achievement_*` for each achievement.
- rliable: a matrix of runs and tasks for each algorithm. pandas: a row for each run.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float

from tokenworlds.core.achievements import ACHIEVEMENT
from tokenworlds.core.errors import UserError, missing_extra
from tokenworlds.core.files import DamagedFile, parse_json, read_bytes, replace_file
from tokenworlds.evaluation.results import Info, info_by_name
from tokenworlds.evaluation.statistics import Scores, checked

if TYPE_CHECKING:
    import pandas

LONGEST = 64 * 2**20
THEIR_ACHIEVEMENT = "achievement_"


@dataclass(frozen=True, slots=True)
class CrafterEpisode:
    """An episode of stats.jsonl; `achievements` counts how often each was unlocked."""

    reward: float
    length: int
    achievements: Mapping[str, int] = field(default_factory=dict)


def read_scores(path: Path) -> dict[str, dict[str, list[float]]]:
    """The scores of each algorithm in a file; one without a name is called as the file."""
    document = read(path)
    if not isinstance(document, dict) or not document:
        raise UserError(f"{path} must hold an object {{task: [score of each run]}}")
    nested = all(isinstance(value, dict) for value in document.values())
    algorithms = document if nested else {path.stem: document}
    return {name: scores_from(path, scores) for name, scores in algorithms.items()}


def read(path: Path) -> Any:
    return parse_json(content(path), path)


def content(path: Path) -> bytes:
    try:
        # A link to a file of scores is fine: it is the user's own.
        found = path.resolve(strict=True)
    except FileNotFoundError:
        raise UserError(f"there is no file {path}") from None
    if not found.is_file():
        raise UserError(f"{path} is no file")
    return read_bytes(found.parent, found.name, LONGEST)


def scores_from(path: Path, scores: Mapping[str, Any]) -> dict[str, list[float]]:
    if not scores:
        raise UserError(f"{path} has an algorithm without tasks")
    return {task: runs_from(path, task, runs) for task, runs in scores.items()}


def runs_from(path: Path, task: str, runs: Any) -> list[float]:
    if not isinstance(runs, list) or not all(is_number(run) for run in runs):
        raise UserError(f"{path}: {task} must have a list of numbers, the score of each run")
    return [float(score) for score in checked(f"{task} in {path}", [float(run) for run in runs])]


def is_number(value: Any) -> bool:
    """Whether JSON has a number here that a float can hold."""
    whole = isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**1023
    return whole or isinstance(value, float)


def write_scores(path: Path, scores: Scores) -> Path:
    """`{task: [score of each run]}`."""
    return write(path, document_of(scores))


def write_algorithms(path: Path, algorithms: Mapping[str, Scores]) -> Path:
    """`{algorithm: {task: [score of each run]}}`."""
    return write(path, {name: document_of(scores) for name, scores in algorithms.items()})


def document_of(scores: Scores) -> dict[str, list[float]]:
    return {task: checked(task, runs).tolist() for task, runs in scores.items()}


def write(path: Path, document: Mapping[str, Any]) -> Path:
    return replace_file(path, (json.dumps(document, indent=1) + "\n").encode())


def read_crafter_stats(path: Path) -> list[CrafterEpisode]:
    """The episodes of Crafter's stats.jsonl."""
    lines = content(path).splitlines()
    found = [episode_from(path, number, line) for number, line in enumerate(lines, 1) if line]
    if not found:
        raise UserError(f"{path} has no episodes")
    return found


def episode_from(path: Path, number: int, line: bytes) -> CrafterEpisode:
    try:
        document = parse_json(line, path)
        achievements = {
            name.removeprefix(THEIR_ACHIEVEMENT): int(count)
            for name, count in document.items()
            if name.startswith(THEIR_ACHIEVEMENT)
        }
        (reward,) = checked("reward", [float(document["reward"])])
        return CrafterEpisode(float(reward), int(document["length"]), achievements)
    except (UserError, AttributeError, KeyError, TypeError, ValueError, OverflowError):
        raise DamagedFile(
            path, f"line {number} is no episode with reward, length and achievements"
        ) from None


def write_crafter_stats(path: Path, episodes: Sequence[CrafterEpisode]) -> Path:
    lines = [json.dumps(stats_of(episode)) + "\n" for episode in episodes]
    return replace_file(path, "".join(lines).encode())


def stats_of(episode: CrafterEpisode) -> dict[str, int | float]:
    counts = {f"{THEIR_ACHIEVEMENT}{name}": n for name, n in episode.achievements.items()}
    # Crafter rounds the sum of its rewards, multiples of 0.1, as well.
    return {"length": episode.length, "reward": round(episode.reward, 1), **counts}


def crafter_episodes(
    returns: Sequence[float], lengths: Sequence[int], info: Info
) -> list[CrafterEpisode]:
    """Episodes of an evaluation, for `write_crafter_stats`."""
    counts = {
        name.removeprefix(ACHIEVEMENT): values
        for name, values in info.items()
        if name.startswith(ACHIEVEMENT)
    }
    return [
        CrafterEpisode(reward, length, {name: int(n[index]) for name, n in counts.items()})
        for index, (reward, length) in enumerate(zip(returns, lengths, strict=True))
    ]


def crafter_info(episodes: Sequence[CrafterEpisode]) -> Info:
    """Achievements under the names that evaluations have; `crafter_score` reads them."""
    return info_by_name(
        [
            {f"{ACHIEVEMENT}{name}": float(n) for name, n in episode.achievements.items()}
            for episode in episodes
        ]
    )


def to_rliable(algorithms: Mapping[str, Scores]) -> dict[str, Float[np.ndarray, "runs tasks"]]:
    """A matrix for each algorithm; columns are the tasks of the first one, in its order."""
    tasks = list(next(iter(algorithms.values()), {}))
    return {name: matrix(name, scores, tasks) for name, scores in algorithms.items()}


def matrix(name: str, scores: Scores, tasks: Sequence[str]) -> Float[np.ndarray, "runs tasks"]:
    if set(scores) != set(tasks):
        task = min(set(scores) ^ set(tasks))
        raise UserError(f"{name} has other tasks than the first algorithm: they differ in {task}")
    numbers = {len(scores[task]) for task in tasks}
    if len(numbers) != 1:
        least, most = min(numbers), max(numbers)
        raise UserError(
            f"{name} has {least} runs of one task and {most} of another: rliable needs a matrix"
        )
    return np.stack([checked(task, scores[task]) for task in tasks], axis=1)


def to_frame(algorithms: Mapping[str, Scores]) -> "pandas.DataFrame":
    """Columns algorithm, task, run (from 0) and score."""
    try:
        import pandas
    except ModuleNotFoundError as error:
        if error.name != "pandas":
            raise
        raise missing_extra("a data frame", "pandas") from None
    return pandas.DataFrame(rows(algorithms), columns=["algorithm", "task", "run", "score"])


def rows(algorithms: Mapping[str, Scores]) -> Iterator[tuple[str, str, int, float]]:
    for name, scores in algorithms.items():
        for task, runs in scores.items():
            for run, score in enumerate(checked(task, runs).tolist()):
                yield name, task, run, score
