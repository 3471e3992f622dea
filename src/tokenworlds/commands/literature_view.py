"""Published scores as tables in the terminal, with their sources as footnotes."""

import os
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace

from rich import box
from rich.console import Console, JustifyMethod
from rich.table import Table as Grid
from rich.text import Text

from tokenworlds.evaluation.literature import (
    OVER_RUNS,
    Aggregate,
    Selection,
    contents,
    intervals,
)
from tokenworlds.published import Score, Table, agent_names
from tokenworlds.published.catalogue import NORMALISED

HEADINGS = {
    "mean": "mean",
    "median": "median",
    "iqm": "IQM\nruns",
    "iqm_of_task_means": "IQM\ntasks",
    "optimality_gap": "opt.\ngap",
    "superhuman": "super-\nhuman",
}
LEGEND = (
    "Claimed: printed by the source. Recomputed: from the scores of each game. "
    "IQM runs: over all runs of all games; a claimed IQM is taken to be this one. "
    "IQM tasks: over the means of games, another number."
)
WITH_ONE_DIGIT = ("score", "return", "Crafter score", "FVD", "frames per second")
WIDE = 120
"""The width of output that is piped."""
SHORTEST, GAP = 8, 3


class Footnotes:
    """Numbers for tables, in the order of their first use, with the agents they are used for."""

    def __init__(self) -> None:
        self.tables: list[Table] = []
        self.agents: dict[str, set[str]] = {}

    def mark(self, table: Table, agent: str) -> str:
        if table.id not in self.agents:
            self.tables.append(table)
        self.agents.setdefault(table.id, set()).add(agent)
        return f"[{list(self.agents).index(table.id) + 1}]"

    def grid(self) -> Grid:
        """A grid of two columns, so that long notes are indented."""
        grid = Grid.grid(padding=(0, 1))
        for number, table in enumerate(self.tables, 1):
            grid.add_row(Text(f"[{number}]"), Text(footnote(table, self.agents[table.id])))
        return grid


def footnote(table: Table, agents: Collection[str]) -> str:
    """`agents` are those whose numbers are shown."""
    origins = "; ".join(
        f"{agent_names()[agent]}: {origin}"
        for agent, origin in table.origins.items()
        if agent in agents
    )
    parts = (
        table.source,
        "" if table.metric in ("score", NORMALISED) else table.metric,
        table.basis,
        str(table.protocol),
        origins,
        table.protocol.note.rstrip("."),
        table.note.rstrip("."),
    )
    return ". ".join(part for part in parts if part) + "."


@dataclass(frozen=True, slots=True)
class Column:
    """Cells stay in one piece unless they are `folded`, which the agents' names are."""

    heading: str
    cells: Sequence[str]
    left: bool = False
    folded: bool = False
    dispensable: int = 0
    """In a narrow terminal, the column with the highest number is left out first; 0 never is."""

    @property
    def width(self) -> int:
        lines = [line for text in (self.heading, *self.cells) for line in text.splitlines()]
        longest = max(map(len, lines), default=0)
        return min(longest, SHORTEST) if self.folded else longest


def lay_out(columns: Sequence[Column], width: int) -> Grid:
    """A grid without empty columns and without those that do not fit."""
    shown = [column for column in columns if any(column.cells)]
    while sum(column.width + GAP for column in shown) > width:
        least = max(shown, key=lambda column: column.dispensable)
        if not least.dispensable:
            break
        shown.remove(least)
    grid = Grid(box=box.SIMPLE_HEAD, pad_edge=False)
    for column in shown:
        justify: JustifyMethod = "left" if column.left else "right"
        grid.add_column(
            Text(column.heading, justify=justify),
            no_wrap=not column.folded,
            overflow="fold",
            justify=justify,
            vertical="top",
            min_width=column.width,
        )
    for row in zip(*(column.cells for column in shown), strict=True):
        grid.add_row(*map(Text, row))
    return grid


def console() -> Console:
    found = Console(highlight=False)
    if not found.is_terminal and "COLUMNS" not in os.environ:
        found = Console(highlight=False, width=WIDE)
    return found


def show_benchmarks() -> None:
    out, found = console(), contents()
    columns = [Column("benchmark", list(found), left=True)]
    for kind in ("tables", "agents", "tasks"):
        columns.append(Column(kind, [str(entry[kind]) for entry in found.values()]))
    out.print(lay_out(columns, out.width))
    out.print(Text("Show one: tokenworlds literature atari100k [--game Pong] [--agent iris]"))


def show_selection(selection: Selection) -> None:
    out, notes = console(), Footnotes()
    scores, found = selection.scores(), selection.aggregates()
    if selection.agent and not selection.task and len({score.task for score in scores}) > 1:
        out.print(*agent_grids(scores, notes, out.width), sep="\n")
    elif selection.task or not found:
        out.print(*score_grids(selection, originals(scores), notes, out.width), sep="\n")
    if found:
        show_aggregates(out, selection, found, notes)
    out.print(notes.grid())


def show_aggregates(
    out: Console, selection: Selection, found: Sequence[Aggregate], notes: Footnotes
) -> None:
    """Without an agent, only aggregates over all tasks: others cannot be compared."""
    shown = [of for of in found if selection.agent or of.tasks in (None, selection.full)]
    out.print(aggregate_grid(shown, notes, out.width))
    if any("iqm_of_task_means" in of.values for of in shown):
        out.print(LEGEND)
    if any(of.references == selection.references for of in shown):
        out.print(
            f"Normalised with the {selection.references} references unless a source has its own."
        )
    for line in interval_lines(found, notes) if selection.agent else ():
        out.print(Text(line))
    left_out = sorted({of.agent for of in found} - {of.agent for of in shown})
    if left_out:
        out.print(f"Over fewer games, shown with --agent: {', '.join(left_out)}.")


def interval_lines(aggregates: Sequence[Aggregate], notes: Footnotes) -> Iterator[str]:
    for of in aggregates:
        words = [
            f"{OVER_RUNS[name].label} {statistic(name, found.low)} to {statistic(name, found.high)}"
            for name, found in intervals(of).items()
        ]
        if words:
            mark = notes.mark(of.table, of.agent)
            yield f"95 % bootstrap intervals of the runs in {mark}: {', '.join(words)}."


def aggregate_grid(found: Sequence[Aggregate], notes: Footnotes, width: int) -> Grid:
    names = [agent_names()[of.agent] for of in found]
    once = [
        name if name != before else "" for before, name in zip(["", *names], names, strict=False)
    ]
    tasks = [str(of.tasks or "") for of in found]
    columns = [
        Column("agent", once, left=True, folded=True),
        Column("basis", [of.basis for of in found], left=True),
    ]
    for rank, (name, heading) in enumerate(HEADINGS.items()):
        cells = [statistic(name, of.values.get(name)) for of in found]
        # Mean and median stay.
        columns.append(Column(heading, cells, dispensable=rank if rank > 1 else 0))
    columns.append(
        Column("tasks", tasks if len(set(filter(None, tasks))) > 1 else [""] * len(found))
    )
    marks = [notes.mark(of.table, of.agent) for of in found]
    return lay_out([*columns, Column("source", marks, left=True)], width)


def statistic(name: str, value: float | None) -> str:
    if value is None:
        return ""
    if name == "superhuman":
        return f"{value:.0f}"
    return f"{value:,.1f}" if abs(value) >= 20 else f"{value:.3f}"


def originals(scores: Sequence[Score]) -> list[Score]:
    """Without quotations of what is there and normalised scores that others are derived from."""
    measured = {score.agent for score in scores if not score.quoted}
    derived = {score.table.id for score in scores if score.derived}
    return [
        score
        for score in scores
        if (not score.quoted or score.agent not in measured)
        and (score.derived or score.table.id not in derived)
    ]


def score_grids(
    selection: Selection, scores: Sequence[Score], notes: Footnotes, width: int
) -> Iterator[Grid]:
    """For each metric a row for each agent and source, the highest first."""
    for metric in dict.fromkeys(score.metric for score in scores):
        found = [score for score in scores if score.metric == metric]
        found.sort(key=lambda score: (score.task, -score.value))
        yield lay_out(score_columns(selection, metric, found, notes), width)


def score_columns(
    selection: Selection, metric: str, scores: Sequence[Score], notes: Footnotes
) -> list[Column]:
    several = len({score.task for score in scores}) > 1
    bases = ["quoted" if score.quoted else score.basis for score in scores]
    normalised = [selection.normalised(score) for score in scores]
    return [
        Column("agent", [agent_names()[score.agent] for score in scores], left=True, folded=True),
        Column("task", [score.task if several else "" for score in scores], left=True),
        Column(metric, [number(metric, score.value) for score in scores]),
        Column("± std", [number(metric, score.std) for score in scores], dispensable=2),
        Column("normalised", [number(NORMALISED, value) for value in normalised], dispensable=1),
        Column("basis", bases, left=True, dispensable=3),
        Column("source", [notes.mark(score.table, score.agent) for score in scores], left=True),
    ]


def agent_grids(scores: Sequence[Score], notes: Footnotes, width: int) -> Iterator[Grid]:
    """A row for each task and a column for each source, in as many grids as the width asks for."""
    cells = {(score.table.id, score.task): score for score in scores if not score.derived}
    tasks = Column("task", sorted({task for _, task in cells}), left=True)
    shown: list[Column] = []
    for score in {score.table.id: score for score in cells.values()}.values():
        column = source_column(score, [cells.get((score.table.id, task)) for task in tasks.cells])
        column = replace(
            column, heading=f"{column.heading}\n{notes.mark(score.table, score.agent)}"
        )
        if shown and sum(each.width + GAP for each in (tasks, *shown, column)) > width:
            yield lay_out([tasks, *shown], width)
            shown = []
        shown.append(column)
    yield lay_out([tasks, *shown], width)


def source_column(of: Score, scores: Sequence[Score | None]) -> Column:
    heading = "normalised" if of.metric == NORMALISED else of.metric.replace(" ", "\n")
    return Column(heading, ["" if s is None else number(of.metric, s.value) for s in scores])


def number(metric: str, value: float | None) -> str:
    if value is None:
        return ""
    if metric == "parameters":
        return f"{value / 1e6:,.1f}M"
    if metric == NORMALISED:
        return f"{value:.3f}"
    return f"{value:,.1f}" if metric in WITH_ONE_DIGIT else f"{value:.4g}"
