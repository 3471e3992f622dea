"""Every statistic equals rliable's; intervals agree within Monte-Carlo error."""

import numpy as np
import pytest
from rliable import library, metrics

from tokenworlds.evaluation import bootstrap, statistics
from tokenworlds.evaluation.exchange import to_rliable
from tokenworlds.evaluation.statistics import Scores, Statistic

RUNS, TASKS = 5, 26
AGGREGATES = {
    statistics.mean: metrics.aggregate_mean,
    statistics.median: metrics.aggregate_median,
    statistics.iqm: metrics.aggregate_iqm,
    statistics.optimality_gap: metrics.aggregate_optimality_gap,
}
BY_LABEL = {statistic.label: statistic for statistic in AGGREGATES}


def matrix(seed: int, runs: int = RUNS) -> np.ndarray:
    """Skewed scores as of Atari, rounded so that there are ties; runs x tasks."""
    generator = np.random.default_rng(seed)
    scale = generator.lognormal(-0.7, 1.2, TASKS)
    return np.asarray(scale * generator.lognormal(0, 0.5, (runs, TASKS)) - 0.1).round(1)


def scores_of(values: np.ndarray) -> Scores:
    return {f"task {task}": list(values[:, task]) for task in range(values.shape[1])}


@pytest.mark.parametrize("label", BY_LABEL)
@pytest.mark.parametrize("runs", [1, 2, 3, 5, 10])
def test_aggregates_equal_those_of_rliable(label: str, runs: int) -> None:
    values = to_rliable({"x": scores_of(matrix(runs, runs))})["x"]
    theirs = AGGREGATES[BY_LABEL[label]](values)
    assert BY_LABEL[label](scores_of(values)) == pytest.approx(theirs, abs=1e-12)


def test_the_iqm_of_task_means_is_that_of_a_single_row() -> None:
    values = matrix(0)
    theirs = metrics.aggregate_iqm(values.mean(axis=0, keepdims=True))
    ours = statistics.iqm_of_task_means(scores_of(values))
    assert ours == pytest.approx(theirs, abs=1e-12)


@pytest.mark.parametrize("runs", [3, 5])
def test_probabilities_of_improvement_equal_those_of_rliable(runs: int) -> None:
    x, y = matrix(1, runs), matrix(1)
    y = y + np.random.default_rng(2).normal(0, 0.3, y.shape).round(1)
    theirs = metrics.probability_of_improvement(x, y)
    ours = statistics.probability_of_improvement(scores_of(x), scores_of(y))
    assert ours == pytest.approx(theirs, abs=1e-12)


def test_profiles_and_their_bands_equal_those_of_rliable() -> None:
    values, thresholds = matrix(3), np.linspace(0, 4, 21)
    profiles, bands = library.create_performance_profile({"x": values}, thresholds, reps=1000)
    curve = bootstrap.profile_curve(scores_of(values), list(thresholds), repetitions=1000)
    assert curve.low is not None
    assert curve.high is not None
    assert curve.y == pytest.approx(profiles["x"], abs=1e-12)
    # A profile moves in steps of 1/130.
    assert curve.low == pytest.approx(bands["x"][0], abs=1.5 / 130)
    assert curve.high == pytest.approx(bands["x"][1], abs=1.5 / 130)


@pytest.mark.parametrize("label", BY_LABEL)
def test_intervals_agree_with_those_of_rliable(label: str) -> None:
    values, statistic = matrix(4), BY_LABEL[label]
    theirs = library.get_interval_estimates(
        {"x": values}, lambda x: np.array([AGGREGATES[statistic](x)]), reps=2000
    )[1]["x"]
    compare(statistic, scores_of(values), theirs[:, 0])


def compare(statistic: Statistic, scores: Scores, theirs: np.ndarray) -> None:
    ours = bootstrap.bootstrap_interval(scores, statistic)
    assert ours is not None
    # The standard error of a 2.5 % quantile of 2,000 normal values is 0.06 standard deviations,
    # which is 0.015 of the interval's width: four standard errors are allowed.
    tolerance = 0.06 * (ours.high - ours.low)
    assert [ours.low, ours.high] == pytest.approx(theirs, abs=tolerance)


def test_intervals_of_improvement_agree_with_those_of_rliable() -> None:
    # rliable takes 30 ms for a resample of 26 tasks.
    x, y = matrix(5)[:, :6], matrix(5, 4)[:, :6] + 0.1
    theirs = library.get_interval_estimates(
        {"x,y": (x, y)},
        lambda x, y: np.array([metrics.probability_of_improvement(x, y)]),
        reps=500,
    )[1]["x,y"]
    ours = bootstrap.improvement_interval(scores_of(x), scores_of(y))
    assert ours is not None
    # The standard error is 0.12 standard deviations of 500 normal values, 0.03 widths.
    tolerance = 0.1 * (ours.high - ours.low)
    assert [ours.low, ours.high] == pytest.approx(theirs[:, 0], abs=tolerance)
