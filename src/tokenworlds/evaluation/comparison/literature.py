"""Published scores beside those of runs, each column from one table of a paper."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from tokenworlds import published
from tokenworlds.core.errors import unknown
from tokenworlds.evaluation.comparison.grouping import Comparison
from tokenworlds.evaluation.comparison.numbers import Normalisation
from tokenworlds.published import Score
from tokenworlds.published.lookup import BENCHMARKS

TABLES = 2
"""Columns of an agent: released runs where they exist, and the table with most of the tasks."""
CRAFTER_SCORE = "Crafter score"


@dataclass(frozen=True, slots=True)
class Column:
    """The scores of one agent in one table, by task."""

    agent: str
    scores: Mapping[str, Score]

    @property
    def first(self) -> Score:
        return next(iter(self.scores.values()))

    @property
    def name(self) -> str:
        return published.agent_names().get(self.agent, self.agent)

    @property
    def source(self) -> str:
        """Where the numbers are from, and whether somebody claims or has recomputed them."""
        return f"{self.first.source}: {self.first.basis}"

    @property
    def protocol(self) -> str:
        return str(self.first.protocol)

    def runs(self, tasks: Sequence[str]) -> dict[str, list[float]] | None:
        """The score of each run; the mean alone where no runs were released.

        None unless the table has all these tasks.
        """
        if not all(task in self.scores for task in tasks):
            return None
        return {task: list(self.scores[task].runs or (self.scores[task].value,)) for task in tasks}

    @property
    def has_runs(self) -> bool:
        return all(score.runs for score in self.scores.values())


def columns(comparison: Comparison, others: Sequence[str] = ()) -> list[Column]:
    """The tables of the agents' own papers, and those of other agents that were asked for."""
    benchmark = BENCHMARKS.get(comparison.benchmark)
    if benchmark is None:
        return []
    recipes = dict.fromkeys(run.description.recipe for run in comparison.runs if run.description)
    names = [name for recipe in recipes for name in published.agents_of(recipe)]
    found = []
    for name in dict.fromkeys([*names, *others]):
        scores = published.scores(benchmark, name)
        found += best_tables(name, scores, comparison.tasks)
    return found


def best_tables(agent: str, scores: Iterable[Score], tasks: Sequence[str]) -> list[Column]:
    by_table: dict[str, dict[str, Score]] = {}
    for score in scores:
        if score.task in tasks and not score.quoted:
            by_table.setdefault(score.table.id, {})[score.task] = score
    found = [Column(agent, of_table) for of_table in by_table.values()]
    found.sort(key=lambda column: (not column.has_runs, -len(column.scores)))
    return found[:TABLES]


def check_names(names: Sequence[str]) -> None:
    """`UserError` for an agent without published scores."""
    known = {agent for benchmark in BENCHMARKS.values() for agent in agents_on(benchmark)}
    for name in names:
        if name not in known:
            raise unknown("published agent", name, known)


def agents_on(benchmark: str) -> set[str]:
    return {score.agent for score in published.scores(benchmark)}


def on_scale(
    column: Column, tasks: Sequence[str], normalisation: Normalisation | None
) -> dict[str, list[float]] | None:
    """The scores of a column on the scale of the aggregates, if it has all tasks."""
    scores = column.runs(tasks)
    if scores is None or normalisation is None:
        return scores
    return normalisation(scores)


def crafter_scores(comparison: Comparison) -> list[Score]:
    """Published Crafter scores of the agents' papers."""
    if comparison.benchmark != "crafter":
        return []
    recipes = dict.fromkeys(run.description.recipe for run in comparison.runs if run.description)
    names = [name for recipe in recipes for name in published.agents_of(recipe)]
    benchmark = BENCHMARKS["crafter"]
    return [s for name in names for s in published.scores(benchmark, name, metric=CRAFTER_SCORE)]
