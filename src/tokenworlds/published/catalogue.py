"""Tables of papers and released score files: what they hold, and how it was measured."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from types import MappingProxyType
from typing import Any

from tokenworlds.published.files import names, read

NORMALISED = "human-normalised score"
Values = Mapping[str, float]
"""A number for each task; a task without a published number is absent."""


@dataclass(frozen=True, slots=True)
class Paper:
    """Where tables come from; `links` are arXiv ids and addresses."""

    name: str
    cited: str
    links: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Protocol:
    """How scores were measured; None where the source does not say."""

    sticky_actions: bool | None = None
    seeds: int | None = None
    episodes: int | None = None
    agent_steps: int | None = None
    frames: int | None = None
    references: str | None = None
    """The reference set of human-normalised scores and aggregates."""
    note: str = ""

    def __str__(self) -> str:
        sticky = {None: "", True: "sticky actions", False: "no sticky actions"}
        counts = {"seed": self.seeds, "episode": self.episodes, "frame": self.frames}
        words = [
            f"{number:,} {what}{'' if number == 1 else 's'}"
            for what, number in counts.items()
            if number is not None
        ]
        references = f"{self.references} references" if self.references else ""
        return ", ".join(word for word in (*words, sticky[self.sticky_actions], references) if word)


@dataclass(frozen=True, kw_only=True, slots=True)
class Table:
    """A table or file of a paper. All mappings begin with the agent's name."""

    id: str
    paper: Paper
    place: str
    """The number of the table or the name of the file."""
    benchmark: str
    metric: str
    basis: str
    """`claimed` as printed, `released runs` with a score per run, or `recomputed` from such."""
    protocol: Protocol
    note: str = ""
    origins: Mapping[str, str] = field(default_factory=dict)
    """Where the numbers of an agent come from, if not from the paper itself."""
    quoted: frozenset[str] = frozenset()
    """Agents whose numbers others measured: the protocol does not hold for them."""
    repeats: Mapping[str, str] = field(default_factory=dict)
    """Agents whose numbers the named table printed before."""
    scores: Mapping[str, Values] = field(default_factory=dict)
    std: Mapping[str, Values] = field(default_factory=dict)
    runs: Mapping[str, Mapping[str, tuple[float, ...]]] = field(default_factory=dict)
    aggregates: Mapping[str, Values] = field(default_factory=dict)
    """By agent and statistic (the names of evaluation/statistics.py), as printed."""

    @property
    def source(self) -> str:
        return f"{self.paper.name}, {self.place}"

    @property
    def agents(self) -> list[str]:
        return list(dict.fromkeys([*self.runs, *self.scores, *self.aggregates]))

    def means(self, agent: str) -> Values:
        """The score of each task; the mean of the runs if there are runs."""
        runs = self.runs.get(agent, {})
        means = {task: sum(values) / len(values) for task, values in runs.items()}
        return means or self.scores.get(agent, {})


def tables(
    benchmark: str | None = None, agent: str | None = None, metric: str | None = None
) -> tuple[Table, ...]:
    """All tables, or those of a benchmark, agent and metric."""
    return tuple(
        table
        for table in all_tables()
        if benchmark in (None, table.benchmark)
        and metric in (None, table.metric)
        and (agent is None or agent in table.agents)
    )


def benchmarks() -> list[str]:
    return sorted({table.benchmark for table in all_tables()})


@cache
def agent_names() -> Mapping[str, str]:
    """For each agent its name in print."""
    return MappingProxyType(dict(read("agents.json")["agents"]))


@cache
def all_tables() -> tuple[Table, ...]:
    papers = {
        key: Paper(entry["name"], entry.get("cited", ""), tuple(entry["links"]))
        for key, entry in read("papers.json")["papers"].items()
    }
    found: dict[str, Table] = {}
    for document in documents():
        found[document["id"]] = to_table(document, papers, found)
    return tuple(found.values())


def documents() -> Iterator[dict[str, Any]]:
    for name in names():
        yield from read(name).get("tables", [])


def to_table(
    document: Mapping[str, Any], papers: Mapping[str, Paper], earlier: Mapping[str, Table]
) -> Table:
    scores = by_agent(document.get("scores", {}))
    for agent, table in document.get("repeats", {}).items():
        repeated = earlier[table].scores[agent]
        scores[agent] = {task: repeated[task] for task in document["tasks"]}
    return Table(
        id=document["id"],
        paper=papers[document["paper"]],
        place=document["place"],
        benchmark=document["benchmark"],
        metric=document["metric"],
        basis=document["basis"],
        protocol=Protocol(**document["protocol"]),
        note=document.get("note", ""),
        origins=document.get("origins", {}),
        quoted=frozenset(document.get("quoted", [])),
        repeats=document.get("repeats", {}),
        scores=scores,
        std=by_agent(document.get("std", {})),
        runs={
            agent: {task: tuple(map(float, values)) for task, values in tasks.items()}
            for agent, tasks in document.get("runs", {}).items()
        },
        aggregates=by_agent(document.get("aggregates", {})),
    )


def by_agent(values: Mapping[str, Any]) -> dict[str, Values]:
    return {
        agent: {task: float(value) for task, value in of_agent.items() if value is not None}
        for agent, of_agent in values.items()
    }
