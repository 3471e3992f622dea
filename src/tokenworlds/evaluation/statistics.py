"""Statistics of scores over tasks and runs; bootstrap.py has their intervals.

The scores of an algorithm are a mapping from each task to the score of each of its runs. Tasks may
have different numbers of runs: tasks weigh alike in every statistic but `iqm`, which pools runs.
With equal numbers all values equal those of rliable (Agarwal et al., 2021).

Each statistic is a `Statistic`: call it with scores for its value, hand it to `bootstrap_interval`
for an interval, and show its `label`. Scores may be normalised or not; `optimality_gap` and
`superhuman` are meant for human-normalised ones. `iqm` and `iqm_of_task_means` are different
numbers; papers that print one score per task allow only the latter.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from tokenworlds.core.errors import UserError, unknown
from tokenworlds.published import Reference, reference_sets

Scores = Mapping[str, Sequence[float]]
Array = np.ndarray
Draws = Sequence[Float[Array, "draws _"]]
"""For each task an array of resampled scores; tasks may differ in their number of runs."""


@dataclass(frozen=True, slots=True)
class Statistic:
    """A number that summarises scores; `kernel` computes it for every draw of a resample."""

    label: str
    kernel: Callable[[Draws], Float[Array, " draws"]]

    def __call__(self, scores: Scores) -> float:
        return float(self.kernel([runs[None] for runs in arrays(scores)])[0])


def task_means(draws: Draws) -> Float[Array, "draws tasks"]:
    return np.stack([runs.mean(axis=1) for runs in draws], axis=1)


def trimmed_mean(values: Float[Array, "draws values"]) -> Float[Array, " draws"]:
    """The mean without the lowest and the highest quarter, both rounded down to whole values."""
    number = values.shape[1]
    cut = number // 4
    middle: Array = np.sort(values, axis=1)[:, cut : number - cut].mean(axis=1)
    return middle


def gap_kernel(draws: Draws) -> Float[Array, " draws"]:
    reached: Array = task_means([np.minimum(runs, 1.0) for runs in draws]).mean(axis=1)
    return 1 - reached


mean = Statistic("mean", lambda draws: task_means(draws).mean(axis=1))
"""The mean over tasks of task means."""
median = Statistic("median", lambda draws: np.median(task_means(draws), axis=1))
"""The median over tasks of task means."""
iqm = Statistic("IQM over runs", lambda draws: trimmed_mean(np.concatenate(draws, axis=1)))
"""The interquartile mean of all runs of all tasks."""
iqm_of_task_means = Statistic("IQM over task means", lambda draws: trimmed_mean(task_means(draws)))
"""The interquartile mean of the tasks' means: another number than `iqm`."""
optimality_gap = Statistic("optimality gap", gap_kernel)
"""By how much scores fall short of 1 on average; scores above 1 count as 1."""
superhuman = Statistic(
    "superhuman tasks",
    # IRIS's Pong is exactly human, up to rounding.
    lambda draws: (task_means(draws) >= 1 - 1e-9).sum(axis=1).astype(float),
)
"""The number of tasks whose mean human-normalised score is at least 1."""

STATISTICS = (mean, median, iqm, iqm_of_task_means, optimality_gap, superhuman)


def arrays(scores: Scores) -> list[Float[Array, " _"]]:
    """The scores of each task; an error if there are none or one is not finite."""
    if not scores:
        raise UserError("there are no tasks to compute a statistic of")
    return [checked(task, runs) for task, runs in scores.items()]


def checked(task: str, runs: Sequence[float]) -> Float[Array, " runs"]:
    values = np.asarray(runs, float)
    if values.ndim != 1:
        raise UserError(f"the scores of {task} must be a list of numbers, one for each run")
    if not len(values):
        raise UserError(f"{task} has no scores")
    if not np.isfinite(values).all():
        raise UserError(
            f"a score of {task} is {values[~np.isfinite(values)][0]}: scores are finite"
        )
    return values


def references(name: str) -> Mapping[str, Reference]:
    """Random and human scores of Atari games; published/SOURCES.md says who uses which set."""
    sets = reference_sets()
    if name not in sets:
        raise unknown("reference set", name, sets)
    return sets[name]


def human_normalised(scores: Scores, to: Mapping[str, Reference]) -> dict[str, list[float]]:
    """(score - random) / (human - random) of every run."""
    arrays(scores)
    return {task: normalise(runs, reference(task, to)) for task, runs in scores.items()}


def reference(task: str, references: Mapping[str, Reference]) -> Reference:
    if task not in references:
        raise unknown("task without reference scores", task, references)
    return references[task]


def normalise(runs: Sequence[float], to: Reference) -> list[float]:
    return [(score - to.random) / (to.human - to.random) for score in runs]


def probability_of_improvement(x: Scores, y: Scores) -> float:
    """The probability that a run of x exceeds a run of y in the same task; ties count half.

    The mean over tasks of the Mann-Whitney U statistic, scaled to [0, 1].
    """
    pairs = paired(x, y)
    return float(improvement([(a[None], b[None]) for a, b in pairs])[0])


def improvement(
    pairs: Sequence[tuple[Float[Array, "draws _"], Float[Array, "draws _"]]],
) -> Float[Array, " draws"]:
    wins = []
    for a, b in pairs:
        above, below = a[:, :, None], b[:, None, :]
        wins.append(((above > below) + 0.5 * (above == below)).mean(axis=(1, 2)))
    return np.asarray(np.mean(wins, axis=0))


def paired(x: Scores, y: Scores) -> list[tuple[Float[Array, " _"], Float[Array, " _"]]]:
    """Both scores of each task in the order of x; an error unless they have the same tasks."""
    arrays(x), arrays(y)
    if x.keys() != y.keys():
        task = min(x.keys() ^ y.keys())
        lacking = "second" if task in x else "first"
        raise UserError(f"the {lacking} scores lack {task}: only the same tasks can be compared")
    return [(checked(task, runs), checked(task, y[task])) for task, runs in x.items()]


def performance_profile(scores: Scores, thresholds: Sequence[float]) -> Float[Array, " points"]:
    """The fraction of runs with a score above each threshold; tasks weigh alike."""
    profile: Array = profile_kernel([runs[None] for runs in arrays(scores)], thresholds)[0]
    return profile


def profile_kernel(draws: Draws, thresholds: Sequence[float]) -> Float[Array, "draws points"]:
    levels = np.asarray(thresholds, float)
    return np.asarray(np.mean([(runs[:, :, None] > levels).mean(axis=1) for runs in draws], axis=0))
