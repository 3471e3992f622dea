"""Find the published scores of an agent and a task, each with its source."""

import itertools
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from tokenworlds.published.catalogue import NORMALISED, Protocol, Table, tables
from tokenworlds.published.files import read
from tokenworlds.published.references import reference_sets

BENCHMARKS = {"atari": "atari100k", "crafter": "crafter-1m", "dmc": "dmc-vision"}
"""The benchmark of an environment's family."""
RETURNS = ("score", "return")
"""Metrics that are the mean return of episodes, under the name that the benchmark uses."""


@dataclass(frozen=True, slots=True)
class Score:
    """A number of a table. `derived` from a human-normalised score, it has few digits."""

    agent: str
    task: str
    value: float
    std: float | None
    """Over runs: as printed, or computed from released runs."""
    runs: tuple[float, ...]
    """The score of each run, if they were released."""
    metric: str
    table: Table
    derived: bool = False

    @property
    def source(self) -> str:
        origin = self.table.origins.get(self.agent)
        return self.table.source + (f" ({origin})" if origin else "")

    @property
    def quoted(self) -> bool:
        return self.agent in self.table.quoted

    @property
    def protocol(self) -> Protocol:
        """Unknown for a number that the table quotes."""
        return Protocol() if self.quoted else self.table.protocol

    @property
    def basis(self) -> str:
        return f"{self.table.basis}, derived" if self.derived else self.table.basis


def scores(
    benchmark: str, agent: str | None = None, task: str | None = None, metric: str | None = None
) -> tuple[Score, ...]:
    """Published scores, in the order of the tables; none for unknown names.

    Without a metric: mean returns of episodes, also those that follow from human-normalised ones.
    """
    found = [
        score
        for table in tables(benchmark, agent)
        for score in scores_of(table, metric)
        if agent in (None, score.agent) and task in (None, score.task)
    ]
    in_print = {
        (score.agent, score.task, score.table.paper) for score in found if not score.derived
    }
    return tuple(
        score
        for score in found
        if not score.derived or (score.agent, score.task, score.table.paper) not in in_print
    )


def scores_of(table: Table, metric: str | None) -> Iterator[Score]:
    if metric == table.metric or (metric is None and table.metric in RETURNS):
        yield from printed(table)
    elif metric is None and table.metric == NORMALISED and table.protocol.references:
        yield from derived(table)


def printed(table: Table) -> Iterator[Score]:
    for agent in own_agents(table):
        for task, value in table.means(agent).items():
            runs = table.runs.get(agent, {}).get(task, ())
            computed = statistics.stdev(runs) if len(runs) > 1 else None
            std = table.std.get(agent, {}).get(task, computed)
            yield Score(agent, task, value, std, runs, table.metric, table)


def derived(table: Table) -> Iterator[Score]:
    """Scores from human-normalised ones."""
    references = reference_sets()[str(table.protocol.references)]
    for agent in own_agents(table):
        for task, value in table.means(agent).items():
            to = references[task]
            score = to.random + value * (to.human - to.random)
            yield Score(agent, task, score, None, (), "score", table, derived=True)


def own_agents(table: Table) -> list[str]:
    """Without those that an earlier table has printed: each number is found once."""
    return [agent for agent in table.agents if agent not in table.repeats]


def per_seed(benchmark: str, agent: str) -> Mapping[str, tuple[float, ...]] | None:
    """The released score of each run and task: the first such table, by the agent's own authors."""
    return next((table.runs[agent] for table in tables(benchmark) if agent in table.runs), None)


def for_run(recipe: str, env: str) -> tuple[Score, ...]:
    """Published scores that a run of a recipe in an environment is compared with.

    Released runs come first; a number that a paper quotes is left out if its source is there.
    """
    family, _, game = env.partition(":")
    if family not in BENCHMARKS or (family == "crafter" and game):
        return ()
    task = game or family
    found = [best_first(scores(BENCHMARKS[family], agent, task)) for agent in agents_of(recipe)]
    return tuple(itertools.chain.from_iterable(found))


def best_first(found: Sequence[Score]) -> list[Score]:
    measured = [score for score in found if not score.quoted]
    return sorted(measured or found, key=lambda score: not score.runs)


def agents_of(recipe: str) -> list[str]:
    """Published agents that a recipe implements; the first is meant by the recipe's numbers."""
    others: list[str] = read("agents.json")["variants"].get(recipe, [])
    return [recipe, *others]
