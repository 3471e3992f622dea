"""Aggregates of published scores: claimed, recomputed, and omitted where data are missing."""

import math

import pytest

from tokenworlds.core.errors import UserError
from tokenworlds.evaluation.literature import Aggregate, Selection, aggregates, intervals


def found(benchmark: str, table: str, basis: str, to: str = "exact") -> Aggregate:
    (aggregate,) = [
        of for of in aggregates(benchmark, to) if (of.table.id, of.basis) == (table, basis)
    ]
    return aggregate


def test_claimed_and_recomputed_aggregates_stand_side_by_side() -> None:
    storm = {of.table.id: of for of in aggregates("atari100k") if of.agent == "storm"}
    assert storm["storm-claims"].values["mean"] == 1.267
    assert storm["storm-claims"].basis == "claimed"
    assert storm["storm-runs"].values["mean"] == pytest.approx(1.222, abs=5e-4)
    assert storm["storm-runs"].basis == "recomputed"


def test_an_iqm_over_runs_and_a_gap_need_runs() -> None:
    runs = found("atari100k", "iris-runs", "recomputed").values
    assert runs["iqm"] == pytest.approx(0.501, abs=5e-4)
    assert runs["iqm_of_task_means"] == pytest.approx(0.543, abs=5e-4)
    means = found("atari100k", "bbf-means", "recomputed").values
    assert "iqm_of_task_means" in means
    assert not {"iqm", "optimality_gap"} & set(means)


def test_the_references_move_the_mean_and_are_named() -> None:
    exact = found("atari100k", "iris-runs", "recomputed")
    rounded = found("atari100k", "iris-runs", "recomputed", "rounded")
    assert (exact.references, rounded.references) == ("exact", "rounded")
    assert exact.values["mean"] == pytest.approx(1.046, abs=5e-4)
    assert rounded.values["mean"] == pytest.approx(1.048, abs=5e-4)
    normalised = found("atari100k", "swm-3-normalised", "recomputed", "rounded")
    assert normalised.references == "dqn-2015"


def test_quotations_and_repeated_columns_are_counted_once() -> None:
    tables = [of.table.id for of in aggregates("atari100k") if of.agent == "iris"]
    assert tables == ["iris-claims", "iris-runs"]


def test_scores_of_control_are_not_normalised() -> None:
    storm = found("dmc-vision", "dreamer-v3-dmc-vision", "recomputed")
    assert storm.references is None
    assert storm.tasks == 20
    assert set(storm.values) == {"mean", "median"}


def test_released_runs_have_intervals_and_means_have_none() -> None:
    of_runs = found("atari100k", "iris-runs", "recomputed")
    interval = intervals(of_runs)["iqm"]
    assert interval.low < of_runs.values["iqm"] < interval.high
    assert intervals(found("atari100k", "bbf-means", "recomputed")) == {}
    assert intervals(found("atari100k", "iris-claims", "claimed")) == {}


def test_unknown_references_are_refused_with_the_nearest_match() -> None:
    with pytest.raises(UserError, match="did you mean 'rounded'"):
        aggregates("atari100k", "rounds")


def test_a_selection_holds_scores_of_its_agent_and_task_only() -> None:
    scores = Selection("atari100k", "iris", "Pong").scores()
    assert {(score.agent, score.task) for score in scores} == {("iris", "Pong")}
    assert Selection("atari100k", "iris", "Pong").aggregates() == []


def test_records_have_one_set_of_columns_and_finite_values() -> None:
    records = list(Selection("atari100k").records())
    assert len({tuple(record) for record in records}) == 1
    assert all(math.isfinite(record["value"]) for record in records)
    labels = {record["metric"] for record in records if record["task"] is None}
    assert {"IQM over runs", "IQM over task means"} <= labels
