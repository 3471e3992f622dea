"""Bootstrap intervals: their coverage, what they resample, and when there are none."""

import numpy as np
import pytest

from tokenworlds.core.errors import UserError
from tokenworlds.evaluation.bootstrap import (
    bootstrap_interval,
    improvement_interval,
    profile_curve,
    sample_efficiency,
    single_runs,
)
from tokenworlds.evaluation.statistics import iqm, mean

SCORES = {"a": [0.0, 1.0, 2.0, 3.0], "b": [5.0, 6.0]}


def test_the_interval_of_a_mean_is_that_of_the_exact_resampling_distribution() -> None:
    # Two runs in one task: the resampled mean is 0, 1 or 2 with probabilities 1/4, 1/2, 1/4.
    scores = {"a": [0.0, 2.0]}
    wide = bootstrap_interval(scores, mean, repetitions=4000, confidence=0.9)
    narrow = bootstrap_interval(scores, mean, repetitions=4000, confidence=0.4)
    assert wide is not None
    assert narrow is not None
    assert (wide.low, wide.high) == (0, 2)
    assert (narrow.low, narrow.high) == (1, 1)


def test_intervals_of_means_cover_the_truth_as_often_as_they_say() -> None:
    generator = np.random.default_rng(0)
    trials = 200
    covered = 0
    for trial in range(trials):
        scores = {str(task): list(generator.normal(task, 1, 20)) for task in range(5)}
        found = bootstrap_interval(scores, mean, repetitions=400, seed=trial, confidence=0.8)
        assert found is not None
        covered += found.low <= 2 <= found.high
    # Three standard errors of a binomial count; with 20 runs the bootstrap covers a bit less.
    assert 0.77 * trials - 17 <= covered <= 0.8 * trials + 17


def test_the_seed_decides_the_interval() -> None:
    scores = {"a": list(np.random.default_rng(0).normal(size=20))}
    found = [bootstrap_interval(scores, iqm, repetitions=100, seed=seed) for seed in (1, 1, 2)]
    assert found[0] == found[1] != found[2]


def test_runs_are_resampled_within_their_task() -> None:
    apart = {"a": [0.0, 0.0], "b": [9.0, 9.0]}
    found = bootstrap_interval(apart, mean, repetitions=100)
    assert found is not None
    assert (found.low, found.high) == (4.5, 4.5)


def test_a_task_with_a_single_run_leaves_no_interval() -> None:
    scores = {**SCORES, "c": [1.0]}
    assert single_runs(scores) == ["c"]
    assert bootstrap_interval(scores, mean) is None
    assert improvement_interval(scores, scores) is None
    assert profile_curve(scores, [0.0, 1.0]).low is None
    curves = {"a": [[0.0, 1.0]], "b": [[1.0, 2.0], [2.0, 3.0]]}
    assert sample_efficiency([1.0, 2.0], curves).high is None


def test_better_runs_everywhere_are_an_improvement_without_doubt() -> None:
    better = {task: [run + 10 for run in runs] for task, runs in SCORES.items()}
    found = improvement_interval(better, SCORES, repetitions=100)
    assert found is not None
    assert (found.low, found.high) == (1, 1)


def test_a_sample_efficiency_curve_equals_the_statistic_at_each_step() -> None:
    generator = np.random.default_rng(0)
    curves = {task: generator.normal(size=(4, 3)).tolist() for task in "abc"}
    found = sample_efficiency([100.0, 200.0, 300.0], curves, iqm, repetitions=500, seed=3)
    assert found.low is not None
    assert found.high is not None
    for step in range(3):
        scores = {task: [run[step] for run in runs] for task, runs in curves.items()}
        interval = bootstrap_interval(scores, iqm, repetitions=500, seed=3)
        assert interval is not None
        assert found.y[step] == iqm(scores)
        assert (found.low[step], found.high[step]) == (interval.low, interval.high)


def test_bad_settings_are_refused_in_a_sentence() -> None:
    with pytest.raises(UserError, match="confidence must be between 0 and 1, not 95"):
        bootstrap_interval(SCORES, mean, repetitions=10, confidence=95.0)
    with pytest.raises(UserError, match="repetitions must be at least 1, not 0"):
        bootstrap_interval(SCORES, mean, repetitions=0)
    with pytest.raises(UserError, match="a run of a has 1 scores for 2 steps"):
        sample_efficiency([1.0, 2.0], {"a": [[1.0]]})
    with pytest.raises(UserError, match="a score of a is nan"):
        sample_efficiency([1.0], {"a": [[float("nan")]]})
    with pytest.raises(UserError, match="no tasks"):
        sample_efficiency([1.0], {})
