"""Aggregates that follow from published scores, and printed ones that do not."""

import pytest

from tokenworlds import published
from tokenworlds.evaluation.statistics import (
    human_normalised,
    iqm,
    iqm_of_task_means,
    mean,
    median,
    optimality_gap,
    references,
    superhuman,
)

TABLES = {table.id: table for table in published.tables()}


def normalised_runs(agent: str) -> dict[str, list[float]]:
    runs = published.per_seed("atari100k", agent)
    assert runs is not None
    return human_normalised(runs, references("exact"))


def normalised_means(table: str, agent: str, to: str = "exact") -> dict[str, list[float]]:
    means = TABLES[table].means(agent)
    games = {game: [means[game]] for game in references("exact") if game in means}
    return human_normalised(games, references(to))


@pytest.mark.parametrize(
    ("agent", "expected"),
    [
        ("iris", (1.046, 0.289, 0.501)),
        ("storm", (1.222, 0.425, 0.561)),
        ("diamond", (1.459, 0.373, 0.641)),
        ("delta-iris", (1.383, 0.594, 0.682)),
    ],
)
def test_released_runs_give_the_known_aggregates(
    agent: str, expected: tuple[float, float, float]
) -> None:
    scores = normalised_runs(agent)
    found = (mean(scores), median(scores), iqm(scores))
    assert tuple(round(value, 3) for value in found) == expected


def test_the_optimality_gap_of_iris_is_that_of_its_paper() -> None:
    assert round(optimality_gap(normalised_runs("iris")), 3) == 0.512


def test_the_two_iqms_of_iris_differ() -> None:
    scores = normalised_runs("iris")
    assert round(iqm(scores), 3) == 0.501
    assert round(iqm_of_task_means(scores), 3) == 0.543


@pytest.mark.parametrize("number", range(1, 8))
def test_aggregates_of_step_vq_follow_from_its_rows(number: int) -> None:
    table = TABLES[f"step-vq-{number}"]
    for agent, printed in table.aggregates.items():
        scores = {task: [value] for task, value in table.means(agent).items()}
        assert mean(scores) == pytest.approx(printed["mean"], abs=6e-4)
        assert median(scores) == pytest.approx(printed["median"], abs=6e-4)
        assert superhuman(scores) == printed.get("superhuman", superhuman(scores))


def test_step_vq_normalises_with_rounded_references() -> None:
    rounded = {task: [round(run)] for task, run in TABLES["iris-runs"].means("iris").items()}
    scores = {task: [float(run)] for task, (run,) in rounded.items()}
    theirs = TABLES["step-vq-3"].means("iris")
    ours = human_normalised(scores, references("rounded"))
    assert {task: run for task, (run,) in ours.items()} == pytest.approx(theirs, abs=1e-3)
    exact = human_normalised(scores, references("exact"))
    assert abs(exact["Breakout"][0] - theirs["Breakout"]) > 0.05


@pytest.mark.parametrize(
    ("table", "agent"),
    [
        ("iris-runs", "iris"),
        ("rem-runs", "rem"),
        ("diamond-runs", "diamond"),
        ("simulus-runs", "simulus"),
        ("bbf-means", "bbf"),
        ("efficientzero-means", "efficientzero"),
        ("muzero-means", "muzero"),
    ],
)
def test_means_that_papers_print_come_out_only_with_the_exact_references(
    table: str, agent: str
) -> None:
    printed = TABLES[f"{agent}-claims"].aggregates[agent]["mean"]
    assert mean(normalised_means(table, agent)) == pytest.approx(printed, abs=5.1e-4)
    assert mean(normalised_means(table, agent, "rounded")) != pytest.approx(printed, abs=5.1e-4)
    assert TABLES[table].protocol.references == "exact"


def test_git_storm_prints_rounded_references_and_uses_exact_ones() -> None:
    table = TABLES["git-storm-5"]
    for agent, printed in table.aggregates.items():
        scores = normalised_means("git-storm-5", agent)
        assert mean(scores) == pytest.approx(printed["mean"], abs=6e-3)
        assert median(scores) == pytest.approx(printed["median"], abs=6e-3)
    of_paper = table.aggregates["git-storm"]["median"]
    assert round(median(normalised_means("git-storm-5", "git-storm")), 3) == of_paper
    rounded = normalised_means("git-storm-5", "git-storm", "git-storm")
    assert round(median(rounded), 3) != of_paper


@pytest.mark.parametrize("table", ["dreamer-v3-atari100k", "dreamer-v3-atari100k-20k"])
def test_aggregates_of_dreamer_v3_follow_from_its_score_files(table: str) -> None:
    scores = normalised_means(table, "dreamer-v3")
    printed = TABLES[table].aggregates["dreamer-v3"]
    assert mean(scores) == pytest.approx(printed["mean"], abs=1e-4)
    assert median(scores) == pytest.approx(printed["median"], abs=1e-4)


def test_the_score_files_of_dreamer_v3_on_control_give_its_aggregates() -> None:
    table = TABLES["dreamer-v3-dmc-vision"]
    scores = {task: [value] for task, value in table.means("dreamer-v3").items()}
    assert mean(scores) == pytest.approx(table.aggregates["dreamer-v3"]["mean"], abs=0.01)
    assert median(scores) == pytest.approx(table.aggregates["dreamer-v3"]["median"], abs=0.01)


def test_storms_printed_table_and_its_released_runs_differ_in_freeway_only() -> None:
    paper, runs = TABLES["storm-paper"].means("storm"), TABLES["storm-runs"].means("storm")
    differing = [game for game in paper if abs(paper[game] - runs[game]) > 0.06]
    assert differing == ["Freeway"]


def test_printed_means_of_git_storm_on_control_do_not_follow_from_the_rows() -> None:
    table = TABLES["git-storm-6"]
    off = [
        agent
        for agent, printed in table.aggregates.items()
        if abs(mean({task: [v] for task, v in table.means(agent).items()}) - printed["mean"]) > 0.2
    ]
    assert sorted(off) == ["git-storm", "ppo", "storm"]


def test_the_misprint_of_smaller_world_models_is_in_road_runner() -> None:
    best, normalised = TABLES["swm-3"].means("swm-best"), TABLES["swm-3-normalised"]
    ours = human_normalised({game: [v] for game, v in best.items()}, references("dqn-2015"))
    printed = normalised.means("swm-best")
    off = [game for game, (value,) in ours.items() if abs(value - printed[game]) > 2e-3]
    assert off == ["RoadRunner"]
