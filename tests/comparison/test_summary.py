"""The numbers of a comparison, against numbers that are known."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from test_grouping import a_run

from tokenworlds import published
from tokenworlds.evaluation import bootstrap, statistics
from tokenworlds.evaluation.comparison.drawing import SERIES
from tokenworlds.evaluation.comparison.grouping import Comparison, group
from tokenworlds.evaluation.comparison.loading import Run, load
from tokenworlds.evaluation.comparison.numbers import common_steps, curve_kind, mean_curve
from tokenworlds.evaluation.comparison.summary import Summary, summarise
from tokenworlds.evaluation.curves import Points
from tokenworlds.evaluation.exchange import write_scores
from tokenworlds.evaluation.page import STYLE
from tokenworlds.evaluation.results import CrafterScore


def summary_of(*runs: Run) -> Summary:
    (found,), _ = group(runs)
    return summarise(found, "exact")


def points(*pairs: tuple[int, float]) -> Points:
    steps, values = zip(*pairs, strict=True)
    return Points(np.array(steps), np.array(values, float))


@pytest.fixture(scope="module")
def iris(tmp_path_factory: pytest.TempPathFactory) -> Summary:
    """The released runs of IRIS, read as a file of scores."""
    path = tmp_path_factory.mktemp("scores") / "iris.json"
    scores = published.per_seed("atari100k", "iris")
    assert scores is not None
    write_scores(path, {game: list(runs) for game, runs in scores.items()})
    return summary_of(*load([str(path)]).runs)


@pytest.mark.parametrize(
    ("label", "value"),
    [
        ("mean", 1.046),
        ("median", 0.289),
        ("IQM over runs", 0.501),
        ("IQM over task means", 0.543),
        ("optimality gap", 0.512),
    ],
)
def test_released_runs_give_the_aggregates_of_their_paper(
    iris: Summary, label: str, value: float
) -> None:
    found = iris.aggregates[label]["iris"]
    assert round(found.value, 3) == value
    assert found.interval is not None
    assert found.interval.low < found.value < found.interval.high


def test_the_tables_of_an_agents_own_paper_stand_beside_it() -> None:
    found = summary_of(*(a_run("storm", seed=seed) for seed in range(2)))
    assert [(column.name, column.source) for column in found.columns] == [
        ("STORM", "STORM, results/storm.json: released runs"),
        ("STORM", "STORM, table of scores: claimed"),
    ]
    assert found.columns[0].scores["Pong"].value == pytest.approx(11.28)


def test_a_table_of_means_has_no_iqm_over_runs() -> None:
    tasks = sorted(published.reference_sets()["exact"])
    found = summary_of(*(a_run("storm", task, seed) for task in tasks for seed in range(2)))
    (_, released), (_, claimed) = found.published_columns
    assert round(released["IQM over runs"].value, 3) == 0.561
    assert "IQM over runs" not in claimed
    assert "IQM over task means" in claimed
    assert claimed["mean"].interval is None


def test_one_seed_has_a_score_without_interval_and_a_remark() -> None:
    found = summary_of(a_run(), a_run("other"), a_run("other", seed=1))
    assert found.scores["mine"]["Pong"].interval is None
    assert found.scores["other"]["Pong"].interval is not None
    assert any("mine: a task with one seed has no interval" in text for text in found.remarks)


def test_tasks_without_references_are_not_aggregated() -> None:
    runs = [
        a_run(task=task, seed=seed, benchmark="minatar", protocol="minatar")
        for task in ("asterix", "breakout")
        for seed in range(2)
    ]
    found = summary_of(*runs)
    assert found.aggregates == {}
    assert any("no reference scores" in text for text in found.remarks)
    alone = summary_of(*runs[:2])
    assert list(alone.aggregates) == ["mean", "IQM over runs"]
    assert alone.aggregates["mean"]["mine"].value == 0.5


def test_control_tasks_are_divided_by_their_best_return() -> None:
    runs = [
        a_run(task=task, seed=seed, benchmark="dmc", protocol="dmc-vision", score=score)
        for task, score in (("walker-walk", 900.0), ("hopper-hop", 100.0))
        for seed in range(2)
    ]
    found = summary_of(*runs)
    assert found.scale == "return / 1,000"
    assert found.aggregates["mean"]["mine"].value == pytest.approx(0.5)
    assert "superhuman tasks" not in found.aggregates


def test_probability_of_improvement_is_that_of_every_pair() -> None:
    runs = [a_run(name, seed=seed, score=base + seed) for seed in range(3) for name, base in PAIRS]
    found = summary_of(*runs).improvements
    assert {pair: estimate.value for pair, estimate in found.items()} == {
        ("low", "high"): 0.0,
        ("low", "same"): 0.5,
        ("high", "same"): 1.0,
    }


PAIRS = (("low", 0.0), ("high", 10.0), ("same", 0.0))


def test_runs_that_fall_short_of_the_benchmark_are_said() -> None:
    remarks = " ".join(summary_of(a_run(episodes=4)).remarks)
    assert "Runs have 1,000 agent steps; atari100k has 100,000." in remarks
    assert "Final evaluations have 4 episodes or more; atari100k has 100." in remarks


def test_other_code_and_other_precision_are_said() -> None:
    runs = [a_run(), a_run(seed=1)]
    changes: list[dict[str, Any]] = [
        {"machine": {"commit": "0123456789abcdef-dirty"}, "precision": "float32"},
        {"machine": {"packages": {"tokenworlds": "0.1.0"}}, "precision": "bfloat16"},
    ]
    abouts = [
        replace(run.description, **change)
        for run, change in zip(runs, changes, strict=True)
        if run.description
    ]
    changed = [replace(run, description=about) for run, about in zip(runs, abouts, strict=True)]
    remarks = summary_of(*changed).remarks
    assert (
        "The runs of mine have different versions of the code: 0.1.0, 0123456789-dirty." in remarks
    )
    assert "The runs of mine have different precisions: bfloat16, float32." in remarks
    assert not any("different" in text for text in summary_of(*runs).remarks)


def test_crafter_scores_of_both_conventions_are_apart() -> None:
    crafter: dict[str, Any] = {"benchmark": "crafter", "protocol": "crafter-1m"}
    final, training = CrafterScore(20.0, {"wake_up": 20.0}), CrafterScore(10.0, {"wake_up": 10.0})
    run = replace(a_run(task="crafter", **crafter), crafter=final, training_crafter=training)
    found = summary_of(run).achievements["mine"]
    assert {name: estimate.value for name, estimate in found.items()} == {
        "Crafter score": 20.0,
        "Crafter score, training episodes": 10.0,
        "wake_up": 20.0,
    }


def test_curves_are_averaged_where_all_seeds_have_been() -> None:
    runs = [
        replace(a_run(), evaluation=points((0, 0.0), (10, 10.0), (20, 20.0))),
        replace(a_run(seed=1), evaluation=points((10, 30.0), (30, 50.0))),
    ]
    curve = mean_curve(runs, "evaluation")
    assert curve is not None
    assert curve.x.tolist() == [10.0, 20.0]
    assert curve.y.tolist() == [20.0, 30.0]
    assert curve.low is not None
    assert curve.low.tolist() == [10.0, 20.0]


def test_long_curves_are_thinned() -> None:
    long = Points(np.arange(1000), np.zeros(1000))
    assert len(common_steps([long, long])) == 60


def test_training_episodes_are_shown_where_a_run_has_no_evaluations() -> None:
    one = replace(a_run(), evaluation=points((0, 0.0), (10, 1.0)))
    assert curve_kind(Comparison("atari", (one,))) == "evaluation"
    other = replace(a_run(seed=1), evaluation=points((10, 1.0)), training=points((0, 0.0)))
    assert curve_kind(Comparison("atari", (one, other))) == "training"


def test_sample_efficiency_ends_at_the_final_aggregate() -> None:
    runs = [
        replace(
            a_run(task=task, seed=seed, score=float(seed + 1)),
            evaluation=points((0, 0.0), (1000, seed + 1.0)),
        )
        for task in ("Pong", "Boxing")
        for seed in range(3)
    ]
    found = summary_of(*runs)
    curve = found.efficiency["mine"]
    assert curve.y[-1] == pytest.approx(found.aggregates["IQM over runs"]["mine"].value)


def test_intervals_are_those_of_the_stratified_bootstrap() -> None:
    found = summary_of(*(a_run(seed=seed, score=float(seed**2)) for seed in range(5)))
    scores = {"Pong": [float(seed**2) for seed in range(5)]}
    expected = bootstrap.bootstrap_interval(scores, statistics.mean, 2000)
    assert found.scores["mine"]["Pong"].interval == expected


def test_the_page_knows_the_colours_of_the_charts() -> None:
    light = STYLE.partition("@media")[0]
    assert [f"--s{number}: {colour};" in light for number, colour in enumerate(SERIES)] == [
        True
    ] * 8
