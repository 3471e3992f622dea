"""The table of a sweep, from its run folders alone: any process may ask."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tokenworlds.evaluation.comparison.listing import list_run
from tokenworlds.sweeps.logs import error_in
from tokenworlds.sweeps.plan import LOGS, Job


@dataclass(frozen=True, kw_only=True, slots=True)
class Row:
    """A run of a sweep: agent steps done and in all, and its last return."""

    name: str
    state: str
    step: int = 0
    steps: int | None = None
    score: float | None = None
    problem: str = ""


def rows(jobs: Sequence[Job], folder: Path, known: Mapping[str, Row] | None = None) -> list[Row]:
    """Every run of a sweep; finished ones may be `known` already."""
    found = []
    for job in jobs:
        before = (known or {}).get(job.name)
        found.append(before if before and before.state == "finished" else row(job, folder))
    return found


def row(job: Job, folder: Path) -> Row:
    path, log = folder / job.name, folder / LOGS / f"{job.name}.log"
    failure = error_in(log)
    if not path.is_dir():
        state = "failed" if failure else "starting" if log.exists() else "waiting"
        return Row(name=job.name, state=state, steps=job.steps, problem=failure)
    listed = list_run(path)
    failed = listed.state == "stopped" and bool(failure)
    return Row(
        name=job.name,
        state="failed" if failed else listed.state,
        step=listed.step,
        steps=job.steps if listed.description is None else listed.description.steps,
        score=None if listed.score is None else listed.score.value,
        problem=failure if failed else listed.problem,
    )


def share_done(found: Sequence[Row]) -> float:
    """The share of all runs' steps that is done, as far as steps are known."""
    known = [each for each in found if each.steps]
    total = sum(each.steps or 0 for each in known)
    missing = len(found) - len(known)
    if not total:
        return 0.0
    # A run whose steps are unknown counts like the others.
    return sum(each.step for each in known) / (total * (1 + missing / len(known)))
