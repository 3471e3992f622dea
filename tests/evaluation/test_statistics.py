"""Statistics of scores: values a reader can compute by hand, and refusals of bad scores."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tokenworlds.core.errors import UserError
from tokenworlds.evaluation.statistics import (
    STATISTICS,
    Scores,
    human_normalised,
    iqm,
    iqm_of_task_means,
    mean,
    median,
    optimality_gap,
    performance_profile,
    probability_of_improvement,
    references,
    superhuman,
)

SCORES = {"a": [0.0, 2.0], "b": [0.5, 0.7, 0.9], "c": [4.0, 4.0]}

random_scores = st.dictionaries(
    st.sampled_from("abcdef"),
    st.lists(st.floats(-10, 10), min_size=1, max_size=5),
    min_size=1,
)


def test_tasks_weigh_alike_in_mean_and_median() -> None:
    assert mean(SCORES) == pytest.approx((1 + 0.7 + 4) / 3)
    assert median(SCORES) == pytest.approx(1.0)


def test_iqm_pools_the_runs_and_drops_a_quarter_at_each_end() -> None:
    # Seven runs: one is dropped at each end.
    assert iqm(SCORES) == pytest.approx(np.mean([0.5, 0.7, 0.9, 2.0, 4.0]))


def test_iqm_of_task_means_is_another_number_with_another_label() -> None:
    # Three tasks: a quarter is less than a task, so none is dropped.
    assert iqm_of_task_means(SCORES) == pytest.approx((1 + 0.7 + 4) / 3)
    assert iqm.label == "IQM over runs"
    assert iqm_of_task_means.label == "IQM over task means"


def test_scores_above_1_do_not_lower_the_optimality_gap() -> None:
    assert optimality_gap(SCORES) == pytest.approx(1 - (0.5 + 0.7 + 1) / 3)


def test_a_task_is_superhuman_from_the_human_score_on() -> None:
    assert superhuman(SCORES) == 2


@given(random_scores)
def test_no_statistic_depends_on_the_order_of_tasks_or_runs(scores: dict[str, list[float]]) -> None:
    turned = {task: runs[::-1] for task, runs in reversed(scores.items())}
    for statistic in STATISTICS:
        assert statistic(scores) == pytest.approx(statistic(turned), abs=1e-12)


@given(random_scores)
def test_improvements_in_both_directions_sum_to_1(scores: dict[str, list[float]]) -> None:
    other = {task: [value + 0.5 for value in runs[:1]] for task, runs in scores.items()}
    forward = probability_of_improvement(scores, other)
    assert forward + probability_of_improvement(other, scores) == pytest.approx(1)


def test_a_tie_is_half_an_improvement() -> None:
    assert probability_of_improvement({"a": [1.0, 2.0]}, {"a": [1.0]}) == pytest.approx(0.75)


def test_a_profile_falls_from_all_runs_to_none() -> None:
    profile = performance_profile(SCORES, [-1.0, 0.0, 0.7, 3.0, 4.0])
    expected = [1, (1 / 2 + 1 + 1) / 3, (1 / 2 + 1 / 3 + 1) / 3, 1 / 3, 0]
    assert profile == pytest.approx(expected)


def test_random_play_normalises_to_0_and_human_play_to_1() -> None:
    to = references("exact")
    scores = {game: [of.random, of.human] for game, of in to.items()}
    assert len(scores) == 26
    assert all(runs == pytest.approx([0, 1]) for runs in human_normalised(scores, to).values())


def test_reference_sets_move_scores() -> None:
    scores = {"Boxing": [70.06]}
    exact = human_normalised(scores, references("exact"))["Boxing"][0]
    rounded = human_normalised(scores, references("rounded"))["Boxing"][0]
    assert exact == pytest.approx(69.96 / 12.0)
    assert rounded == pytest.approx(70.06 / 12.0)


@pytest.mark.parametrize(
    ("scores", "message"),
    [
        ({}, "no tasks"),
        ({"Pong": []}, "Pong has no scores"),
        ({"Pong": [1.0, math.nan]}, "a score of Pong is nan"),
        ({"Pong": [math.inf]}, "a score of Pong is inf"),
    ],
)
def test_bad_scores_are_refused_in_a_sentence(scores: Scores, message: str) -> None:
    for statistic in STATISTICS:
        with pytest.raises(UserError, match=message):
            statistic(scores)


def test_algorithms_with_other_tasks_are_not_compared() -> None:
    with pytest.raises(UserError, match="the second scores lack Pong"):
        probability_of_improvement({"Pong": [1.0], "Qbert": [1.0]}, {"Qbert": [1.0]})


def test_names_without_references_get_the_nearest_match() -> None:
    with pytest.raises(UserError, match="did you mean 'Pong'"):
        human_normalised({"Pongg": [1.0]}, references("exact"))
    with pytest.raises(UserError, match="did you mean 'rounded'"):
        references("round")
