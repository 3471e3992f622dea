"""The Markdown and CSV tables beside the page."""

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tokenworlds.evaluation.comparison.elements import NOTHING, digits_of, number
from tokenworlds.evaluation.comparison.literature import Column
from tokenworlds.evaluation.comparison.loading import Run
from tokenworlds.evaluation.comparison.numbers import Estimate
from tokenworlds.evaluation.comparison.summary import Summary

COLUMNS = (
    "benchmark", "protocol", "agent", "task", "seed", "state", "step", "steps", "score",
    "normalised", "episodes", "crafter_score", "parameters", "steps_per_second", "hours", "run",
    "command",
)  # fmt: skip


def csv_table(summaries: Sequence[Summary]) -> str:
    """One row for each run; empty where nothing is known."""
    buffer = io.StringIO()
    writer = csv.DictWriter(buffer, COLUMNS, lineterminator="\n")
    writer.writeheader()
    for summary in summaries:
        writer.writerows(csv_row(run, summary) for run in summary.comparison.runs)
    return buffer.getvalue()


def csv_row(run: Run, summary: Summary) -> dict[str, Any]:
    about, timing = run.description, run.timing
    speed = timing.steps_per_second if timing else None
    return {
        "benchmark": run.benchmark,
        "protocol": run.protocol,
        "agent": run.agent,
        "task": run.task,
        "seed": run.seed,
        "state": run.state,
        "step": run.step,
        "steps": run.steps,
        "score": run.score,
        "normalised": normalised(run, summary),
        "episodes": run.episodes or None,
        "crafter_score": run.crafter.score if run.crafter else None,
        "parameters": about.parameters if about else None,
        "steps_per_second": None if speed is None else f"{speed:.4g}",
        "hours": None if timing is None else f"{timing.hours:.4g}",
        "run": run.source,
        "command": about.command if about else None,
    }


def normalised(run: Run, summary: Summary) -> float | None:
    scale = summary.normalisation
    if scale is None or run.score is None or run.task not in scale.references:
        return None
    return scale({run.task: [run.score]})[run.task][0]


def markdown(summaries: Sequence[Summary], notes: Sequence[str]) -> str:
    parts = ["# Comparison of runs", *(f"> {note}" for note in notes)]
    for summary in summaries:
        parts += benchmark_parts(summary)
    return "\n\n".join(parts) + "\n"


def benchmark_parts(summary: Summary) -> Iterator[str]:
    comparison, columns = summary.comparison, summary.columns
    yield f"## {comparison.benchmark}, protocol {', '.join(comparison.protocols)}"
    yield from (f"> {remark}" for remark in summary.remarks)
    yield from aggregate_parts(summary)
    names = [*comparison.agents, *map(column_name, columns)]
    rows = {
        task: [
            *(score_cell(summary, agent, task) for agent in comparison.agents),
            *(number(c.scores[task].value) if task in c.scores else NOTHING for c in columns),
        ]
        for task in comparison.tasks
    }
    yield "Final scores: mean return, 95 % bootstrap interval, number of seeds:"
    yield grid("task", names, rows)
    yield from achievement_parts(summary)


def column_name(column: Column) -> str:
    return f"{column.name} ({column.source})"


def aggregate_parts(summary: Summary) -> Iterator[str]:
    if not summary.aggregates:
        return
    agents, shown = list(next(iter(summary.aggregates.values()))), summary.published_columns
    rows = {
        label: [
            *(text(found[agent], digits_of(label)) for agent in agents),
            *(text(of.get(label), digits_of(label)) for _, of in shown),
        ]
        for label, found in summary.aggregates.items()
    }
    over = (
        f"over {len(summary.tasks)} tasks" if len(summary.tasks) > 1 else f"on {summary.tasks[0]}"
    )
    yield f"Aggregates of the {summary.scale} {over}, with 95 % stratified bootstrap intervals:"
    yield grid("statistic", [*agents, *(column_name(column) for column, _ in shown)], rows)


def achievement_parts(summary: Summary) -> Iterator[str]:
    found = summary.achievements
    if found:
        first = next(iter(found.values()))
        rows = {name: [text(found[agent].get(name)) for agent in found] for name in first}
        yield "Success rates in percent:"
        yield grid("achievement", list(found), rows)


def score_cell(summary: Summary, agent: str, task: str) -> str:
    """The mean of the finished runs, else where the unfinished ones are."""
    found = summary.scores[agent].get(task)
    if found is not None:
        return f"{text(found)} ({'one seed' if found.runs == 1 else f'{found.runs} seeds'})"
    runs = summary.comparison.of(agent, task)
    scored = [run for run in runs if run.score is not None]
    if scored:
        best = max(scored, key=lambda run: run.step)
        return f"{number(best.score or 0.0)} at step {best.step:,}, not finished"
    return "no score yet" if runs else NOTHING


def text(found: Estimate | None, small: int = 2) -> str:
    if found is None:
        return NOTHING
    value = number(found.value, small)
    if found.interval is None:
        return value
    return f"{value} [{number(found.interval.low, small)}, {number(found.interval.high, small)}]"


def grid(corner: str, columns: Sequence[str], rows: Mapping[str, Sequence[str]]) -> str:
    lines = [[corner, *columns], ["---", *("---:" for _ in columns)]]
    lines += [[name, *cells] for name, cells in rows.items()]
    return "\n".join(f"| {' | '.join(escaped(cell) for cell in line)} |" for line in lines)


def escaped(cell: str) -> str:
    return cell.replace("|", "\\|").replace("\n", " ")
