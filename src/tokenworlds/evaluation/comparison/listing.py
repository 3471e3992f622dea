"""The runs below a folder: state, progress, last score. Nothing is written."""

import fcntl
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from tokenworlds.core import files
from tokenworlds.core.errors import UserError
from tokenworlds.evaluation import results
from tokenworlds.evaluation.comparison.description import (
    RUN,
    STARTING,
    Description,
    read_description,
)
from tokenworlds.runs import events, failure

State = Literal["running", "stopped", "failed", "finished", "damaged"]
CHECKPOINT = re.compile(r"step-(\d{9,18})")
DEEPEST = 6
SCORES = {"evaluation/return": "evaluation", "collect/return": "training"}


@dataclass(frozen=True, slots=True)
class LastScore:
    """`kind` is final, evaluation (during training) or training (an episode of training)."""

    value: float
    kind: str
    step: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Listed:
    """`problem` is the damage or the error that ended the run; `changed` the time of the last
    write."""

    path: Path
    state: State
    problem: str = ""
    description: Description | None = None
    step: int = 0
    score: LastScore | None = None
    changed: float = 0.0


def find_runs(folder: Path) -> list[Path]:
    """Run folders in and below a folder, by name; links are not followed."""
    return sorted(walk(folder, DEEPEST))


def walk(folder: Path, depth: int) -> Iterator[Path]:
    try:
        with os.scandir(folder) as entries:
            found = list(entries)
    except PermissionError:
        yield folder  # Its listing says that it cannot be read.
        return
    if any(entry.name in (RUN, STARTING) for entry in found):
        yield folder
    elif depth:
        for entry in found:
            if entry.is_dir(follow_symlinks=False) and not entry.name.startswith("."):
                yield from walk(folder / entry.name, depth - 1)


def list_run(path: Path) -> Listed:
    """The state of a run, from run.json, evaluation.json and the end of metrics.jsonl."""
    listed = Listed(path=path, state="damaged", changed=last_change(path))
    try:
        begun = (path / RUN).exists()
        name = RUN if begun else STARTING
        about = read_description(path, name)
        listed = replace(listed, description=about)
        if is_locked(path, name):
            known = replace(listed, state="running")
        else:
            problem = failure.read(path)
            known = replace(listed, state="failed" if problem else "stopped", problem=problem)
        return read_progress(known, about) if begun else known
    except UserError as error:
        return replace(listed, state="damaged", problem=str(error))
    except OSError as error:
        return replace(listed, state="damaged", problem=f"cannot read {path}: {error.strerror}")


def read_progress(listed: Listed, description: Description) -> Listed:
    """Add step and score. A run is finished once it was evaluated at its last step, or where it
    stopped early."""
    path = listed.path
    checkpoint = newest_checkpoint(path)
    if checkpoint is None:
        raise UserError(f"{path} has no checkpoint")
    tail = events.read_tail(path)
    step = max([checkpoint, *(event["agent_steps"] for event in tail)])
    result = results.read_result(path / results.FILE)
    if result is not None and (result.agent_steps >= description.steps or result.ended):
        score = LastScore(float(result.score.mean), "final", result.agent_steps)
        return replace(listed, state="finished", problem="", step=result.agent_steps, score=score)
    return replace(listed, step=min(step, description.steps), score=last_score(tail))


def last_score(tail: Sequence[Mapping[str, Any]]) -> LastScore | None:
    """The last evaluation, or else the last average of training episodes."""
    for name, kind in SCORES.items():
        for event in reversed(tail):
            if name in event:
                return LastScore(float(event[name]), kind, event["agent_steps"])
    return None


def newest_checkpoint(path: Path) -> int | None:
    """The step in the name of the newest checkpoint."""
    place = path / "checkpoints"
    names = os.listdir(place) if place.is_dir() else []
    steps = [int(found[1]) for name in names if (found := CHECKPOINT.fullmatch(name))]
    return max(steps, default=None)


def is_locked(path: Path, name: str) -> bool:
    """Whether another process trains the run.

    A shared lock is asked for and given back at once; a run that starts in this moment waits.
    """
    descriptor = files.open_inside(path, name)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def last_change(path: Path) -> float:
    """The time of the last write to a file that a run writes."""
    names = (RUN, STARTING, events.FILE, results.FILE, "checkpoints")
    times = [found for name in names if (found := modified(path / name)) is not None]
    return max(times, default=0.0)


def modified(path: Path) -> float | None:
    try:
        return path.lstat().st_mtime
    except OSError:
        return None
