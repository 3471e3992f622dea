"""Published tables: complete, consistent with each other, and with gaps where sources have gaps."""

from pathlib import Path

import pytest

from tokenworlds import published
from tokenworlds.envs import control
from tokenworlds.evaluation import statistics
from tokenworlds.evaluation.statistics import STATISTICS, references
from tokenworlds.published.sources import page_part
from tokenworlds.recipes.listing import entries

TABLES = {table.id: table for table in published.tables()}
ASKED = [
    *(f"step-vq-{number}" for number in range(1, 8)),
    *(f"swm-{number}" for number in (2, 3, 4, 6, 7, 8)),
    *("git-storm-3-fvd", "git-storm-4-perplexity", "git-storm-5", "git-storm-6", "git-storm-7"),
    *("delta-iris-1-1m", "delta-iris-6-tokens", "delta-iris-8", "dreamer-v3-atari100k"),
]
WITHOUT_SCORES = {"git-storm-mlp-logits", "swm-small-field", "step-vq-iris"}
"""Recipes whose papers print no score for them."""


def test_every_table_has_an_id_of_its_own_and_known_agents() -> None:
    assert len(TABLES) == len(published.tables())
    assert set(ASKED) <= set(TABLES)
    used = {agent for table in TABLES.values() for agent in table.agents}
    assert used == set(published.agent_names())
    for table in TABLES.values():
        assert table.basis in ("claimed", "released runs", "recomputed")
        assert set(table.origins) | table.quoted <= set(table.agents), table.id


def test_tasks_have_the_names_of_environments() -> None:
    games = set(references("dqn-2015"))
    assert set(references("exact")) < games
    for table in published.tables("atari100k"):
        for agent in table.agents:
            assert set(table.means(agent)) <= games, table.id
    tasks = {task for table in published.tables("dmc-vision") for task in table.means("git-storm")}
    assert len(tasks) == 20
    assert tasks <= set(control.names())


def test_printed_aggregates_have_names_of_statistics() -> None:
    names = {name for name, value in vars(statistics).items() if value in STATISTICS}
    for table in TABLES.values():
        for agent, values in table.aggregates.items():
            assert set(values) <= names, (table.id, agent)


def test_sources_page_lists_all_tables() -> None:
    page = Path(published.__file__).with_name("SOURCES.md").read_text(encoding="utf-8")
    assert page.endswith(page_part())


@pytest.mark.parametrize("recipe", [entry.name for entry in entries()])
def test_every_recipe_finds_the_scores_of_its_paper(recipe: str) -> None:
    envs = ("atari:Boxing", "atari:Gopher", "atari:Alien", "atari:BankHeist", "crafter")
    found = [score for env in envs for score in published.for_run(recipe, env)]
    assert bool(found) != (recipe in WITHOUT_SCORES)
    assert {score.agent for score in found} <= set(published.agents_of(recipe))


def test_released_runs_come_before_claims_and_quotations_are_left_out() -> None:
    found = published.for_run("iris", "atari:Pong")
    assert [score.table.id for score in found] == ["iris-runs"]
    assert found[0].runs == (19.3, 18.5, 16.6, 6.2, 12.4)
    assert found[0].value == pytest.approx(14.6)
    storm = [score.table.id for score in published.for_run("storm", "atari:Freeway")]
    assert storm[0] == "storm-runs"
    assert {"storm-paper", "git-storm-5"} <= set(storm)


def test_scores_follow_from_normalised_ones_where_only_those_are_printed() -> None:
    (score,) = published.for_run("step-vq-m", "atari:Boxing")
    assert score.derived
    assert score.value == pytest.approx(7.244 * 12)
    assert score.basis == "claimed, derived"


def test_a_quoted_score_has_no_protocol_of_the_quoting_paper() -> None:
    quoted = [score for score in published.scores("atari100k", "iris", "Pong") if score.quoted]
    assert quoted
    assert all(score.protocol == published.Protocol() for score in quoted)


def test_control_and_crafter_scores_are_found_by_environment() -> None:
    (walker,) = published.for_run("git-storm", "dmc:walker-walk")
    assert walker.value == 854.7
    crafter = {score.agent: score.value for score in published.for_run("delta-iris", "crafter")}
    assert crafter == {"delta-iris": 7.7}
    assert published.for_run("delta-iris", "crafter:noreward") == ()
    assert published.for_run("my_agents.py:mine", "gym:CartPole-v1") == ()


def test_gaps_stay_gaps() -> None:
    missing = {"Breakout", "Freeway", "Pong", "PrivateEye"}
    drama = TABLES["drama-means"].means("drama")
    assert set(references("exact")) - set(drama) == missing
    assert published.for_run("drama", "atari:Pong") == ()
    ppo = TABLES["swm-3-ppo"].means("ppo-10m")
    assert set(references("dqn-2015")) - set(ppo) == {"Hero", "YarsRevenge"}
    assert published.per_seed("atari100k", "git-storm") is None


def test_repeated_columns_equal_their_origin() -> None:
    table, origin = TABLES["step-vq-6"].means("step-vq-m"), TABLES["step-vq-1"].means("step-vq-m")
    assert len(table) == 8
    assert all(origin[task] == value for task, value in table.items())
