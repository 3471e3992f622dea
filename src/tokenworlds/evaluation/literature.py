"""Aggregates of published scores: as printed, and recomputed from the scores of each task."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from tokenworlds import published
from tokenworlds.evaluation import statistics
from tokenworlds.evaluation.bootstrap import Interval, bootstrap_interval
from tokenworlds.evaluation.statistics import Scores, Statistic, human_normalised, references
from tokenworlds.published import Reference, Score, Table, tables
from tokenworlds.published.catalogue import NORMALISED
from tokenworlds.published.lookup import RETURNS

OVER_RUNS: Mapping[str, Statistic] = {
    "mean": statistics.mean,
    "median": statistics.median,
    "iqm": statistics.iqm,
    "iqm_of_task_means": statistics.iqm_of_task_means,
    "optimality_gap": statistics.optimality_gap,
    "superhuman": statistics.superhuman,
}
"""By the names that tables use; every statistic of human-normalised scores."""
OVER_MEANS = ("mean", "median", "iqm_of_task_means", "superhuman")
"""What follows from one score per task. The others need runs: from means they are other numbers."""
OF_SCORES = ("mean", "median")
"""What is meaningful for scores that are not normalised."""
WITH_INTERVALS = ("mean", "median", "iqm", "optimality_gap")
REPETITIONS = 10_000
ATARI = "atari100k"
COLUMNS = ("task", "metric", "value", "std", "runs", "human_normalised", "references", "basis")


@dataclass(frozen=True, slots=True)
class Aggregate:
    """Statistics of an agent over the tasks of a table."""

    agent: str
    table: Table
    basis: str
    """`claimed`: printed by the source; `recomputed`: from the scores of each task."""
    tasks: int | None
    """The number of tasks; None if the source has no scores of tasks."""
    references: str | None
    """The reference set; None for scores that are not normalised, or if the source names none."""
    values: Mapping[str, float]


def aggregates(benchmark: str, to: str = "exact") -> list[Aggregate]:
    """Printed and recomputed aggregates of a benchmark, agents with the highest mean first.

    `to` is the reference set; tables of human-normalised scores keep their own. Quotations are left
    out if an original is there.
    """
    references(to)
    found = [
        aggregate
        for table in tables(benchmark)
        for agent in table.agents
        if not is_copy(table, agent)
        for aggregate in both(table, agent, to)
    ]
    best: dict[str, float] = {}
    for of in found:
        best[of.agent] = max(of.values.get("mean", -math.inf), best.get(of.agent, -math.inf))
    return sorted(found, key=lambda of: (-best[of.agent], of.agent))


def is_copy(table: Table, agent: str) -> bool:
    """Whether another table has the same scores from those who measured them."""
    others = [other for other in tables(table.benchmark, agent) if agent not in other.quoted]
    quoted = agent in table.quoted and any(other.means(agent) for other in others)
    return quoted or agent in table.repeats


def both(table: Table, agent: str, to: str) -> Iterator[Aggregate]:
    computed = recomputed(table, agent, to)
    printed = table.aggregates.get(agent, {})
    if printed and table.basis == "claimed":
        tasks = len(table.means(agent)) or None
        yield Aggregate(agent, table, "claimed", tasks, table.protocol.references, printed)
        printed = {}
    if computed:
        yield replace(computed, values={**computed.values, **printed})
    elif printed:
        used = table.protocol.references
        yield Aggregate(agent, table, "recomputed", None, used, printed)


def recomputed(table: Table, agent: str, to: str) -> Aggregate | None:
    """None if the table has the score of one task or of none, or another metric."""
    scores: Scores = table.runs.get(agent, {}) or {
        task: [value] for task, value in table.means(agent).items()
    }
    names: tuple[str, ...] = tuple(OVER_RUNS) if table.runs else OVER_MEANS
    used: str | None = to
    if table.metric == NORMALISED:
        used = table.protocol.references
    elif table.metric == "score" and table.benchmark == ATARI:
        scores = normalised(scores, references(to))
    else:
        names, used = OF_SCORES, None
    if len(scores) < 2 or table.metric not in ("score", NORMALISED):
        return None
    values = {name: OVER_RUNS[name](scores) for name in names}
    return Aggregate(agent, table, "recomputed", len(scores), used, values)


def intervals(of: Aggregate) -> dict[str, Interval]:
    """Bootstrap intervals where the table has the scores of runs."""
    runs = of.table.runs.get(of.agent)
    if of.basis != "recomputed" or not runs or of.references is None:
        return {}
    scores = normalised(runs, references(of.references))
    found = {
        name: bootstrap_interval(scores, OVER_RUNS[name], repetitions=REPETITIONS)
        for name in WITH_INTERVALS
    }
    return {name: interval for name, interval in found.items() if interval is not None}


def normalised(scores: Scores, to: Mapping[str, Reference]) -> Scores:
    """Human-normalised scores of the tasks that have references."""
    known = {task: runs for task, runs in scores.items() if task in to}
    return human_normalised(known, to) if known else {}


@dataclass(frozen=True, slots=True)
class Selection:
    """Published numbers of a benchmark: all, or those of an agent or a task."""

    benchmark: str
    agent: str | None = None
    task: str | None = None
    references: str = "exact"

    @property
    def full(self) -> int:
        """The number of tasks of the benchmark."""
        if self.benchmark == ATARI:
            # Smaller World Models has scores of ten games more.
            return len(references("exact"))
        return contents()[self.benchmark]["tasks"]

    def scores(self) -> list[Score]:
        """Mean returns first, then other metrics."""
        metrics = dict.fromkeys(table.metric for table in tables(self.benchmark))
        other = [metric for metric in metrics if metric not in RETURNS]
        return [
            score
            for metric in (None, *other)
            for score in published.scores(self.benchmark, self.agent, self.task, metric)
        ]

    def aggregates(self) -> list[Aggregate]:
        """None for a single task."""
        found = [] if self.task else aggregates(self.benchmark, self.references)
        return [aggregate for aggregate in found if self.agent in (None, aggregate.agent)]

    def normalised(self, score: Score) -> float | None:
        """The human-normalised score; None where there is none."""
        to = references(self.references)
        if self.benchmark != ATARI or score.metric != "score" or score.task not in to:
            return None
        return human_normalised({score.task: [score.value]}, to)[score.task][0]

    def records(self) -> Iterator[dict[str, Any]]:
        """A flat record for each score and aggregate; an aggregate has no task."""
        for score in self.scores():
            yield self.score_record(score)
        for aggregate in self.aggregates():
            for name, value in aggregate.values.items():
                yield aggregate_record(aggregate, name, value)

    def score_record(self, score: Score) -> dict[str, Any]:
        return record(
            score.table,
            score.agent,
            task=score.task,
            metric=score.metric,
            value=score.value,
            std=score.std,
            runs=" ".join(f"{run:g}" for run in score.runs),
            human_normalised=self.normalised(score),
            references=self.references if self.normalised(score) is not None else None,
            basis=score.basis,
            quoted=score.quoted,
        )

    def document(self) -> dict[str, Any]:
        """Scores and aggregates with the tables they come from."""
        scores, found = self.scores(), self.aggregates()
        used = dict.fromkeys([*(s.table.id for s in scores), *(a.table.id for a in found)])
        by_id = {table.id: table for table in tables(self.benchmark)}
        return {
            "benchmark": self.benchmark,
            "references": self.references,
            "scores": [{**self.score_record(score), "runs": list(score.runs)} for score in scores],
            "aggregates": [
                {
                    "agent": of.agent,
                    "basis": of.basis,
                    "tasks": of.tasks,
                    "references": of.references,
                    **{OVER_RUNS[name].label: value for name, value in of.values.items()},
                    "table": of.table.id,
                }
                for of in found
            ],
            "tables": {name: source_of(by_id[name]) for name in used},
        }


def aggregate_record(of: Aggregate, name: str, value: float) -> dict[str, Any]:
    return record(
        of.table,
        of.agent,
        metric=OVER_RUNS[name].label,
        value=value,
        references=of.references,
        basis=of.basis,
        quoted=of.agent in of.table.quoted,
    )


def record(table: Table, agent: str, quoted: bool, **values: Any) -> dict[str, Any]:
    columns = {name: values.get(name) for name in COLUMNS}
    start = {"benchmark": table.benchmark, "agent": agent}
    return {**start, **columns, "quoted": quoted, "table": table.id, "source": table.source}


def source_of(table: Table) -> dict[str, Any]:
    return {
        "paper": table.paper.name,
        "cited": table.paper.cited,
        "links": list(table.paper.links),
        "place": table.place,
        "metric": table.metric,
        "basis": table.basis,
        "protocol": asdict(table.protocol),
        "origins": dict(table.origins),
        "note": table.note,
    }


def contents() -> dict[str, dict[str, int]]:
    """For each benchmark the numbers of its tables, agents and tasks."""
    found = {}
    for name in published.benchmarks():
        of = tables(name)
        agents = {agent for table in of for agent in table.agents}
        tasks = {task for table in of for agent in table.agents for task in table.means(agent)}
        found[name] = {"tables": len(of), "agents": len(agents), "tasks": len(tasks)}
    return found
