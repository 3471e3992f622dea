"""The Markdown and CSV tables beside the page."""

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tokenworlds.evaluation.comparison.loading import Run
from tokenworlds.evaluation.comparison.numbers import Estimate
from tokenworlds.evaluation.comparison.summary import Summary

COLUMNS = (
    "benchmark", "protocol", "agent", "task", "seed", "state", "step", "steps", "score",
    "normalised", "episodes", "crafter_score", "parameters", "steps_per_second", "hours", "run",
    "command",
)  # fmt: skip


NOTHING = "\N{EN DASH}"


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
    comparison = summary.comparison
    yield f"## {comparison.benchmark} (protocol {', '.join(comparison.protocols)})"
    yield from (f"> {remark}" for remark in summary.remarks)
    agents = comparison.agents
    if summary.aggregates:
        rows = {
            label: [text(found.get(agent)) for agent in agents]
            for label, found in summary.aggregates.items()
        }
        yield f"Aggregates of the {summary.scale}, with 95 % stratified bootstrap intervals:"
        yield grid("statistic", agents, rows)
    rows = {
        task: [score_cell(summary, agent, task) for agent in agents] for task in comparison.tasks
    }
    yield "Final scores (mean return over runs, 95 % interval, number of runs):"
    yield grid("task", agents, rows)


def score_cell(summary: Summary, agent: str, task: str) -> str:
    """The mean of the finished runs, else where the unfinished ones are."""
    found = summary.scores[agent].get(task)
    if found is not None:
        return f"{text(found)} ({found.runs})"
    runs = summary.comparison.of(agent, task)
    scored = [run for run in runs if run.score is not None]
    if scored:
        best = max(scored, key=lambda run: run.step)
        return f"{number(best.score or 0.0)} at step {best.step:,}, not finished"
    return "no score yet" if runs else NOTHING


def text(found: Estimate | None) -> str:
    if found is None:
        return NOTHING
    value = number(found.value)
    if found.interval is None:
        return f"{value} (one seed)" if found.runs == 1 else value
    return f"{value} [{number(found.interval.low)}, {number(found.interval.high)}]"


def number(value: int | float) -> str:
    """Digits as papers print them: scores above 100 without decimals."""
    if abs(value) >= 100:
        return f"{value:,.0f}".replace("-", "\N{MINUS SIGN}")
    digits = 1 if abs(value) >= 10 else 3
    return f"{value:.{digits}f}".replace("-", "\N{MINUS SIGN}")


def grid(corner: str, columns: Sequence[str], rows: Mapping[str, Sequence[str]]) -> str:
    lines = [[corner, *columns], ["---", *("---:" for _ in columns)]]
    lines += [[name, *cells] for name, cells in rows.items()]
    return "\n".join(f"| {' | '.join(escaped(cell) for cell in line)} |" for line in lines)


def escaped(cell: str) -> str:
    return cell.replace("|", "\\|").replace("\n", " ")
