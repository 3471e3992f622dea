"""Read the runs of a report: from run folders, folders of runs and files of scores."""

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import numpy as np

from tokenworlds import published
from tokenworlds.core.errors import UserError
from tokenworlds.evaluation import results
from tokenworlds.evaluation.comparison.description import RUN, STARTING, Description
from tokenworlds.evaluation.comparison.listing import Listed, find_runs, list_run
from tokenworlds.evaluation.comparison.timing import Timing, read_timing
from tokenworlds.evaluation.curves import EVALUATION, TRAINING, Points, select
from tokenworlds.evaluation.exchange import crafter_info, read_crafter_stats, read_scores
from tokenworlds.evaluation.results import CrafterScore, crafter_score, score_of
from tokenworlds.published.lookup import BENCHMARKS
from tokenworlds.runs.events import read_events_with

NOT_STATED = "not stated"
"""The protocol of a file of scores, which names none."""
NO_POINTS = Points(np.zeros(0, np.int64), np.zeros(0, np.float64))


@dataclass(frozen=True, kw_only=True, slots=True)
class Run:
    """One seed of an agent on a task.

    `score` is the final mean return; of an unfinished run it is that of its last evaluation at
    `step`, or None if there was none. `steps` is None where a file does not say it.
    """

    agent: str
    benchmark: str
    task: str
    protocol: str
    source: Path
    score: float | None
    finished: bool
    seed: int | None = None
    step: int = 0
    steps: int | None = None
    state: str = "finished"
    episodes: int = 0
    random: float | None = None
    crafter: CrafterScore | None = None
    training_crafter: CrafterScore | None = None
    """By Crafter's own convention, over the episodes of training."""
    evaluation: Points = NO_POINTS
    training: Points = NO_POINTS
    description: Description | None = None
    timing: Timing | None = None


@dataclass(frozen=True, slots=True)
class Loaded:
    """Runs, and a sentence for everything that was left out."""

    runs: list[Run] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def load(sources: Sequence[str]) -> Loaded:
    """`UserError` for a source that is missing or damaged; what a folder holds may be damaged."""
    loaded, seen = Loaded(), set[str]()
    for source in sources:
        path = Path(source)
        if path.is_file():
            loaded.runs.extend(read_file(path))
        elif is_run(path):
            add_runs(loaded, [path], seen, strict=True)
        elif path.is_dir():
            found = find_runs(path)
            if not found:
                raise UserError(f"{source!r} holds no runs")
            add_runs(loaded, found, seen, strict=False)
        else:
            raise UserError(f"{source!r} is no run, no folder of runs and no file of scores")
    if not loaded.runs:
        raise UserError(f"there is no run to report: {loaded.notes[0]}")
    return loaded


def is_run(path: Path) -> bool:
    return (path / RUN).exists() or (path / STARTING).exists()


def add_runs(loaded: Loaded, paths: Iterable[Path], seen: set[str], strict: bool) -> None:
    for path in paths:
        place = os.path.realpath(path)
        if place in seen:
            continue
        seen.add(place)
        try:
            run, notes = read_run(list_run(path))
        except UserError as error:
            if strict:
                raise
            loaded.notes.append(f"{path} is left out: {error}")
        else:
            loaded.runs.append(run)
            loaded.notes.extend(notes)


def read_run(listed: Listed) -> tuple[Run, list[str]]:
    """A run and notes about its metrics; `UserError` if it is damaged."""
    about, path = listed.description, listed.path
    if listed.state == "damaged" or about is None:
        raise UserError(listed.problem)
    events, notes = read_events_with(path, (EVALUATION, TRAINING))
    result = results.read_result(path / results.FILE) if listed.state == "finished" else None
    training = result.training if result else None
    evaluation = select(events, EVALUATION)
    score = evaluation.values[-1] if len(evaluation.values) else None
    step = int(evaluation.steps[-1]) if len(evaluation.steps) else listed.step
    random = None
    if result is not None:
        score, step = float(result.score.mean), result.agent_steps
        evaluation = with_point(evaluation, step, score)
        random = result.random_score.mean if result.random_score else None
    run = Run(
        agent=about.agent,
        benchmark=about.family,
        task=about.task,
        protocol=about.protocol,
        source=path,
        score=None if score is None else float(score),
        finished=result is not None,
        seed=about.seed,
        step=step,
        steps=about.steps,
        state=listed.state,
        episodes=len(result.returns) if result else 0,
        random=random,
        crafter=result.crafter if result else None,
        training_crafter=training.crafter if training and training.episodes else None,
        evaluation=evaluation,
        training=select(events, TRAINING),
        description=about,
        timing=read_timing(path),
    )
    return run, notes


def read_file(path: Path) -> list[Run]:
    """The runs of a file of scores, which names neither protocol nor seeds."""
    return [read_crafter_run(path)] if path.suffix == ".jsonl" else read_score_file(path)


def read_crafter_run(path: Path) -> Run:
    """The episodes of Crafter's stats.jsonl: one run of an agent that is called as its folder."""
    episodes = read_crafter_stats(path)
    return Run(
        agent=path.absolute().parent.name,
        benchmark="crafter",
        task="crafter",
        protocol=NOT_STATED,
        source=path,
        score=score_of([episode.reward for episode in episodes]).mean,
        finished=True,
        episodes=len(episodes),
        crafter=crafter_score(crafter_info(episodes)),
    )


def read_score_file(path: Path) -> list[Run]:
    """`{task: [score of each run]}`, also with names of agents around it."""
    return [
        Run(
            agent=agent,
            benchmark=family_of(task),
            task=task.partition(":")[2] or task,
            protocol=NOT_STATED,
            source=path,
            score=score,
            finished=True,
        )
        for agent, scores in read_scores(path).items()
        for task, runs in scores.items()
        for score in runs
    ]


def family_of(task: str) -> str:
    """The family of a task that a file may name without it."""
    family, colon, _ = task.partition(":")
    if colon:
        return family
    known = (name for name, benchmark in BENCHMARKS.items() if task in tasks_of(benchmark))
    return next(known, "other")


@cache
def tasks_of(benchmark: str) -> frozenset[str]:
    return frozenset(score.task for score in published.scores(benchmark))


def with_point(points: Points, step: int, value: float) -> Points:
    return Points(np.append(points.steps, step), np.append(points.values, value))
