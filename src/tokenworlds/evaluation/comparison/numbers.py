"""The numbers of a comparison: scores by task, aggregates, improvements, profiles and curves."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from tokenworlds.evaluation import bootstrap, statistics
from tokenworlds.evaluation.bootstrap import Curve, Interval
from tokenworlds.evaluation.comparison.grouping import Comparison
from tokenworlds.evaluation.comparison.loading import Run
from tokenworlds.evaluation.curves import Points, smooth
from tokenworlds.evaluation.statistics import Scores, Statistic
from tokenworlds.published.references import Reference, reference_sets

GRID = 60
"""At most this many points in a curve."""
PROFILE_POINTS = 81
CONTROL_BEST = 1000.0
"""The greatest return of a task of DeepMind Control."""
EFFICIENCY_POINTS = 30
CRAFTER = "Crafter score"
CRAFTER_TRAINING = "Crafter score, training episodes"
"""The convention of the benchmark's authors: over all episodes of training."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A value with its interval, which is None if a task has a single run."""

    value: float
    interval: Interval | None
    runs: int


@dataclass(frozen=True, slots=True)
class Normalisation:
    """How scores of different tasks are brought to one scale; `label` names the scale."""

    label: str
    references: Mapping[str, Reference]
    human: bool = False
    """Whether 1 is the score of a human."""

    def __call__(self, scores: Scores) -> dict[str, list[float]]:
        known = {task: runs for task, runs in scores.items() if task in self.references}
        return statistics.human_normalised(known, self.references) if known else {}


def normalisation_of(comparison: Comparison, reference_set: str) -> Normalisation | None:
    """The benchmark's usual scale, None where the tasks have no reference scores."""
    tasks = comparison.tasks
    if comparison.benchmark == "atari":
        references = reference_sets()[reference_set]
        known = {task: references[task] for task in tasks if task in references}
        label = f"human-normalised score ({reference_set} reference scores)"
        return Normalisation(label, known, human=True) if known else None
    if comparison.benchmark == "dmc":
        best = {task: Reference(random=0.0, human=CONTROL_BEST) for task in tasks}
        return Normalisation("return / 1,000", best)
    return None


def aggregated_scores(
    comparison: Comparison, normalisation: Normalisation | None
) -> dict[str, dict[str, list[float]]]:
    """By agent, the scores on the tasks that all agents have, on one scale.

    Empty if the tasks are several and have no common scale.
    """
    tasks = comparison.common_tasks
    if normalisation is not None:
        tasks = [task for task in tasks if task in normalisation.references]
    if not tasks or (normalisation is None and len(tasks) > 1):
        return {}
    found = {}
    for agent in comparison.agents:
        scores = comparison.scores(agent)
        if scores:
            common = {task: scores[task] for task in tasks}
            found[agent] = normalisation(common) if normalisation else common
    return found


def estimate(scores: Scores, statistic: Statistic, repetitions: int = 10_000) -> Estimate:
    interval = bootstrap.bootstrap_interval(scores, statistic, repetitions)
    return Estimate(statistic(scores), interval, sum(map(len, scores.values())))


def statistics_for(scores: Mapping[str, Scores], human: bool) -> list[Statistic]:
    """All of them for several tasks; with one task, those that say something of its runs.

    Only on a human-normalised scale there are superhuman tasks.
    """
    if all(len(of_agent) == 1 for of_agent in scores.values()):
        return [statistics.mean, statistics.iqm]
    return [kind for kind in statistics.STATISTICS if human or kind != statistics.superhuman]


def improvements(scores: Mapping[str, Scores]) -> dict[tuple[str, str], Estimate]:
    """For every pair of agents, the probability that a run of the first exceeds the second's."""
    agents = list(scores)
    pairs = [(x, y) for i, x in enumerate(agents) for y in agents[i + 1 :]]
    return {
        (x, y): Estimate(
            statistics.probability_of_improvement(scores[x], scores[y]),
            bootstrap.improvement_interval(scores[x], scores[y]),
            sum(map(len, scores[x].values())) + sum(map(len, scores[y].values())),
        )
        for x, y in pairs
    }


def profiles(scores: Mapping[str, Scores], most: float) -> dict[str, Curve]:
    """Profiles from 0 to the best score, at least to 1 and at most to `most`."""
    highest = max((max(map(max, found.values())) for found in scores.values()), default=0.0)
    thresholds = np.linspace(0.0, min(max(highest, 1.0), most), PROFILE_POINTS).tolist()
    return {agent: bootstrap.profile_curve(found, thresholds) for agent, found in scores.items()}


def curve_points(run: Run, kind: str) -> Points:
    """Evaluations as they are, episodes of training smoothed."""
    if kind == "evaluation" or not len(run.training.steps):
        return run.evaluation if kind == "evaluation" else run.training
    spread = max(2.0, len(run.training.values) / 50)
    return Points(run.training.steps, smooth(run.training.values, spread))


def curve_kind(comparison: Comparison) -> str:
    """Evaluations during training if every finished run has them, else episodes of training.

    While no run is finished, one with evaluations is enough.
    """
    known = [run for run in comparison.runs if run.description is not None]
    finished = [run for run in known if run.finished]
    evaluated = [len(run.evaluation.steps) > 1 for run in finished or known]
    return "evaluation" if (all if finished else any)(evaluated) else "training"


def mean_curve(runs: Sequence[Run], kind: str) -> Curve | None:
    """The mean of finished runs over steps; None if they have no points."""
    of_runs = [curve_points(run, kind) for run in runs if run.finished]
    of_runs = [found for found in of_runs if len(found.steps)]
    if not of_runs:
        return None
    steps = common_steps(of_runs)
    values = on_steps(of_runs, steps)
    return bootstrap.sample_efficiency(
        steps.tolist(), {"task": values.tolist()}, statistics.mean, repetitions=1000
    )


def efficiency(
    comparison: Comparison, agent: str, tasks: Sequence[str], scale: Normalisation
) -> Curve | None:
    """The IQM over runs of an agent against steps; None if a task has no curve."""
    by_task = {
        task: [run.evaluation for run in comparison.of(agent, task) if run.finished]
        for task in tasks
    }
    curves = [curve for of_task in by_task.values() for curve in of_task]
    if not curves or any(len(curve.steps) < 2 for curve in curves):
        return None
    steps = common_steps(curves, EFFICIENCY_POINTS)
    if len(steps) < 2:
        return None
    scores = {
        task: [scale({task: curve})[task] for curve in on_steps(of_task, steps).tolist()]
        for task, of_task in by_task.items()
    }
    return bootstrap.sample_efficiency(steps.tolist(), scores, statistics.iqm, repetitions=500)


def achievements(comparison: Comparison, agent: str) -> dict[str, Estimate]:
    """The Crafter score and the success rates of finished runs, in percent."""
    runs = [run for run in comparison.runs if run.agent == agent]
    scores = [run.crafter for run in runs if run.crafter]
    if not scores:
        return {}
    rates = {CRAFTER: [found.score for found in scores]}
    if training := [run.training_crafter.score for run in runs if run.training_crafter]:
        rates[CRAFTER_TRAINING] = training
    names = [name for name in scores[0].success if all(name in found.success for found in scores)]
    rates |= {name: [found.success[name] for found in scores] for name in names}
    return {name: estimate({name: values}, statistics.mean, 2000) for name, values in rates.items()}


def common_steps(curves: Sequence[Points], most: int = GRID) -> Float[np.ndarray, " T"]:
    """Steps within the range of every curve, thinned to at most `most`."""
    begin = max(float(curve.steps[0]) for curve in curves)
    end = min(float(curve.steps[-1]) for curve in curves)
    every = np.unique(np.concatenate([curve.steps for curve in curves])).astype(float)
    inside = every[(every >= begin) & (every <= end)]
    if len(inside) > most:
        return np.linspace(inside[0], inside[-1], most)
    return inside


def on_steps(
    curves: Sequence[Points], steps: Float[np.ndarray, " T"]
) -> Float[np.ndarray, "runs T"]:
    return np.stack([np.interp(steps, curve.steps, curve.values) for curve in curves])
