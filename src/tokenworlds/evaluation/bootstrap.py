"""Stratified bootstrap intervals: the runs of each task are resampled with replacement.

Tasks are fixed, as in rliable. With a single run in a task nothing is known about the spread of its
scores: there is no interval then, and `single_runs` names the tasks.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from tokenworlds.core.errors import UserError
from tokenworlds.evaluation.statistics import (
    Array,
    Scores,
    Statistic,
    arrays,
    checked,
    improvement,
    iqm,
    paired,
    performance_profile,
    profile_kernel,
)

AT_ONCE = 2**19
"""Resampled scores that are held at a time: 4 MiB fit a core's cache."""


@dataclass(frozen=True, slots=True)
class Interval:
    """A percentile bootstrap interval."""

    low: float
    high: float
    confidence: float


@dataclass(frozen=True, slots=True)
class Curve:
    """Values with pointwise intervals; `low` and `high` are None if a task has a single run."""

    x: Float[Array, " points"]
    y: Float[Array, " points"]
    low: Float[Array, " points"] | None
    high: Float[Array, " points"] | None
    confidence: float


def single_runs(scores: Scores) -> list[str]:
    """Tasks with one run."""
    return [task for task, runs in scores.items() if len(runs) == 1]


def bootstrap_interval(
    scores: Scores,
    statistic: Statistic,
    repetitions: int = 50_000,
    seed: int = 0,
    confidence: float = 0.95,
) -> Interval | None:
    """Resample the runs of every task; None if a task has a single run."""
    runs = arrays(scores)
    if single_runs(scores):
        return None
    batches = resampled(runs, repetitions, seed)
    return interval(np.concatenate([statistic.kernel(draws) for draws in batches]), confidence)


def improvement_interval(
    x: Scores, y: Scores, repetitions: int = 2_000, seed: int = 0, confidence: float = 0.95
) -> Interval | None:
    """The interval of `probability_of_improvement`; x and y are resampled independently."""
    pairs = paired(x, y)
    if single_runs(x) or single_runs(y):
        return None
    sides = [a for a, _ in pairs] + [b for _, b in pairs]
    values = [
        improvement(list(zip(draws[: len(pairs)], draws[len(pairs) :], strict=True)))
        for draws in resampled(sides, repetitions, seed)
    ]
    return interval(np.concatenate(values), confidence)


def profile_curve(
    scores: Scores,
    thresholds: Sequence[float],
    repetitions: int = 2_000,
    seed: int = 0,
    confidence: float = 0.95,
) -> Curve:
    """`performance_profile` with pointwise intervals."""
    runs = arrays(scores)
    x, y = np.asarray(thresholds, float), performance_profile(scores, thresholds)
    if single_runs(scores):
        return Curve(x, y, None, None, confidence)
    batches = resampled(runs, repetitions, seed, values_per_run=len(x))
    values = np.concatenate([profile_kernel(draws, thresholds) for draws in batches])
    low, high = np.percentile(values, percentiles(confidence), axis=0)
    return Curve(x, y, low, high, confidence)


def sample_efficiency(
    steps: Sequence[float],
    curves: Mapping[str, Sequence[Sequence[float]]],
    statistic: Statistic = iqm,
    repetitions: int = 2_000,
    seed: int = 0,
    confidence: float = 0.95,
) -> Curve:
    """A statistic against steps. `curves` has the scores of each task, run and step.

    A resample takes whole runs, so that all its steps come from the same runs.
    """
    if not curves:
        raise UserError("there are no tasks to compute a curve of")
    runs = [checked_curves(task, of_task, len(steps)) for task, of_task in curves.items()]
    x = np.asarray(steps, float)
    columns = [[of_task[None, :, step] for of_task in runs] for step in range(len(x))]
    y = np.array([statistic.kernel(column)[0] for column in columns])
    if any(len(of_task) == 1 for of_task in runs):
        return Curve(x, y, None, None, confidence)
    low, high = np.empty_like(y), np.empty_like(y)
    for step in range(len(x)):
        # The same seed draws the same runs at every step.
        batches = resampled([of_task[:, step] for of_task in runs], repetitions, seed)
        values = np.concatenate([statistic.kernel(draws) for draws in batches])
        low[step], high[step] = np.percentile(values, percentiles(confidence))
    return Curve(x, y, low, high, confidence)


def checked_curves(
    task: str, curves: Sequence[Sequence[float]], steps: int
) -> Float[Array, "runs steps"]:
    if not curves:
        raise UserError(f"{task} has no runs")
    for curve in curves:
        if len(curve) != steps:
            raise UserError(f"a run of {task} has {len(curve)} scores for {steps} steps")
    return np.stack([checked(task, curve) for curve in curves])


def resampled(
    runs: Sequence[Float[Array, " _"]], repetitions: int, seed: int, values_per_run: int = 1
) -> Iterator[list[Float[Array, "draws _"]]]:
    """Draws with replacement within each task, in batches that fit the cache."""
    if repetitions < 1:
        raise UserError(f"repetitions must be at least 1, not {repetitions}")
    generator = np.random.default_rng(seed)
    at_once = max(1, AT_ONCE // (values_per_run * sum(map(len, runs))))
    for start in range(0, repetitions, at_once):
        number = min(at_once, repetitions - start)
        yield [of_task[indices(generator, number, len(of_task))] for of_task in runs]


def indices(generator: np.random.Generator, draws: int, runs: int) -> Int[Array, "draws runs"]:
    chosen: Array = generator.integers(runs, size=(draws, runs), dtype=np.int32)
    return chosen


def interval(values: Float[Array, " draws"], confidence: float) -> Interval:
    low, high = np.percentile(values, percentiles(confidence))
    return Interval(float(low), float(high), confidence)


def percentiles(confidence: float) -> tuple[float, float]:
    if not (math.isfinite(confidence) and 0 < confidence < 1):
        raise UserError(f"confidence must be between 0 and 1, not {confidence}")
    return 50 * (1 - confidence), 50 * (1 + confidence)
