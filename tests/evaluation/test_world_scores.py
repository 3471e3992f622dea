import math

import numpy as np
import pytest

from tokenworlds.evaluation.world.scores import (
    average_precision,
    calibration,
    code_figures,
    discounted_returns,
    reward_scores,
    termination_scores,
)

RARE = np.array([0.0, 0, 0, 1, 0, 0, 0, 0, -1, 0])


def test_average_precision_of_a_known_ranking() -> None:
    score = np.array([0.9, 0.8, 0.7, 0.6])
    event = np.array([True, False, True, False])
    assert average_precision(score, event) == pytest.approx((1 + 2 / 3) / 2)


def test_a_score_that_knows_nothing_has_the_base_rate_as_average_precision() -> None:
    event = np.arange(10) < 3
    assert average_precision(np.full(10, 0.5), event) == pytest.approx(0.3)
    assert average_precision(np.zeros(10), np.zeros(10, bool)) is None


def test_perfect_rewards_have_precision_and_recall_one() -> None:
    found = reward_scores(RARE, RARE)
    assert (found["precision"], found["recall"], found["average_precision"]) == (1, 1, 1)
    assert found["explained_variance"] == 1
    assert found["base_rate"] == pytest.approx(0.2)


def test_rewards_that_are_always_zero_recall_nothing_and_have_no_precision() -> None:
    found = reward_scores(np.zeros(10), RARE)
    assert found["precision"] is None
    assert found["recall"] == 0
    assert found["average_precision"] == pytest.approx(0.2)
    assert found["explained_variance"] == 0


def test_a_reward_of_the_wrong_sign_is_not_detected() -> None:
    found = reward_scores(-RARE, RARE)
    assert (found["precision"], found["recall"]) == (0, 0)
    assert found["average_precision"] < 0.3


def test_terminations_are_scored_against_their_base_rate() -> None:
    ended = np.array([False, False, False, True])
    found = termination_scores(np.array([0.1, 0.7, 0.2, 0.9]), ended)
    assert (found["precision"], found["recall"], found["base_rate"]) == (0.5, 1.0, 0.25)


def test_calibration_finds_the_line_between_values_and_returns() -> None:
    value = np.linspace(0, 1, 50)
    found = calibration(value, 2 * value + 1)
    assert found["slope"] == pytest.approx(2)
    assert found["correlation"] == pytest.approx(1)
    assert found["bias"] == pytest.approx(-1.5)
    assert sum(each["steps"] for each in found["bins"]) == 50


def test_a_constant_value_has_no_slope_and_no_correlation() -> None:
    found = calibration(np.zeros(9), np.arange(9.0))
    assert found["slope"] is None
    assert found["correlation"] is None


def test_returns_stop_at_terminations_and_bootstrap_at_cuts() -> None:
    reward = np.array([[1.0, 2.0, 0.0, 4.0]])
    terminated = np.array([[False, True, False, False]])
    known = np.array([[True, False, True, False]])
    value = np.array([[0.0, 0.0, 0.0, 8.0]])
    found = discounted_returns(reward, terminated, known, value, 0.5)
    np.testing.assert_allclose(found, [[2.0, 2.0, 4.0, np.nan]])


def test_usage_perplexity_is_the_number_of_equally_frequent_codes() -> None:
    found = code_figures(np.array([[0, 1], [1, 0], [2, 3], [3, 2]]), 8)
    assert found["usage_perplexity"] == pytest.approx(4)
    assert found["usage"] == 0.5
    assert found["unigram_nll"] == pytest.approx(math.log(4))


def test_a_position_with_one_code_costs_a_predictor_without_history_nothing() -> None:
    found = code_figures(np.array([[0, 1], [0, 1], [0, 1]]), 2)
    assert found["unigram_nll"] == 0.0
    assert found["usage_perplexity"] == pytest.approx(2)
