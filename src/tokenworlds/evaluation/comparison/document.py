"""The page of a comparison."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import count
from pathlib import Path

from matplotlib.figure import Figure

from tokenworlds.core.files import replace_file
from tokenworlds.evaluation.comparison import charts, tables
from tokenworlds.evaluation.comparison.drawing import DASHES, SERIES, inline_svg
from tokenworlds.evaluation.comparison.grouping import Comparison
from tokenworlds.evaluation.comparison.loading import Run
from tokenworlds.evaluation.comparison.numbers import (
    Estimate,
    curve_kind,
    curve_points,
    mean_curve,
)
from tokenworlds.evaluation.comparison.summary import Summary
from tokenworlds.evaluation.page import Html, format_number, join, page, section
from tokenworlds.evaluation.results import action_selection

Draw = Callable[[Figure, str], Html]
GLYPHS = "\u25cf\u25a0\u25b2\u25c6\u25bc\u271a\u2716\u2605"
"""The markers of the charts, as text."""
TITLE = "Comparison of runs"
CURVES = {
    "evaluation": "Mean return of the evaluations during training, with its 95 % interval.",
    "training": "Mean return of the episodes of training, smoothed, with its 95 % interval.",
}
FINAL = "Mean return over seeds, its 95 % bootstrap interval and the number of seeds."
AGGREGATES = (
    "{scale} over {tasks} tasks, with 95 % stratified bootstrap intervals. The IQM over runs pools "
    "the runs of all tasks; the IQM over task means is another number, the only one that a table "
    "of means allows."
)
STYLE = """
body { max-width: 96rem; }
.chart { display: block; width: 100%; height: auto; overflow: visible; }
.chart * { stroke-linejoin: round; }
.panels { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(17rem, 100%), 1fr));
  gap: 1.25rem 1.5rem; }
.pair { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(26rem, 100%), 1fr));
  gap: 1.5rem 2.5rem; align-items: start; }
.pair h3 { margin-top: 0; }
.legend { display: flex; flex-wrap: wrap; gap: 0.3rem 1.25rem; margin: 0.75rem 0 1rem; padding: 0;
  list-style: none; font-size: 0.92rem; }
.legend li { display: flex; align-items: center; gap: 0.45rem; overflow-wrap: anywhere; }
.legend svg { width: 1.6rem; height: 0.8rem; flex: none; }
.remarks { margin: 1rem 0; padding: 0.75rem 1rem 0.75rem 2rem; background: var(--panel);
  border-radius: 0.75rem; }
.grid { width: auto; min-width: min(100%, 40rem); }
.grid th { width: auto; white-space: nowrap; }
.grid td, .grid thead th { text-align: right; padding: 0.35rem 0 0.35rem 1.5rem;
  overflow-wrap: normal; }
.grid thead th { font-weight: 600; white-space: normal; vertical-align: bottom; }
.grid thead th:first-child { text-align: left; padding-left: 0; }
.grid td small { display: block; color: var(--muted); white-space: nowrap; }
.grid th:first-child { position: sticky; left: 0; background: var(--back); padding-right: 0.75rem; }
.commands td { font-family: ui-monospace, monospace; font-size: 0.85rem; }
"""


@dataclass(frozen=True, slots=True)
class Written:
    page: Path
    markdown: Path
    csv: Path


def write_comparison(path: Path, summaries: Sequence[Summary], notes: Sequence[str]) -> Written:
    """Write the page, and a Markdown and a CSV table beside it."""
    numbers = count()

    def draw(figure: Figure, alt: str) -> Html:
        return inline_svg(figure, alt, next(numbers))

    body = [part for summary in summaries for part in benchmark_sections(summary, draw)]
    html = page(TITLE, lead_of(summaries), remark_list(notes), *body, style=STYLE)
    return Written(
        replace_file(path, html.encode()),
        replace_file(path.with_suffix(".md"), tables.markdown(summaries, notes).encode()),
        replace_file(path.with_suffix(".csv"), tables.csv_table(summaries).encode()),
    )


def lead_of(summaries: Sequence[Summary]) -> str:
    runs = [run for summary in summaries for run in summary.comparison.runs]
    agents, tasks = {run.agent for run in runs}, {(run.benchmark, run.task) for run in runs}
    counts = ((len(runs), "run"), (len(agents), "agent"), (len(tasks), "task"))
    words = [f"{number} {name}{'' if number == 1 else 's'}" for number, name in counts]
    return f"{words[0]} of {words[1]} on {words[2]}."


def benchmark_sections(summary: Summary, draw: Draw) -> Iterator[Html]:
    comparison = summary.comparison
    title = f"{comparison.benchmark}, protocol {', '.join(comparison.protocols)}"
    yield section(title, remark_list(summary.remarks), legend(comparison))
    if summary.aggregates:
        yield aggregate_section(summary, draw)
    panels = list(curve_panels(summary, draw))
    if panels:
        caption = CURVES[curve_kind(comparison)]
        grid = Html(f'<div class="panels">{join(*panels)}</div>')
        yield section("Learning curves", paragraph(caption), legend(comparison), grid)
    yield section("Final scores", paragraph(FINAL), score_grid(summary))
    yield runs_section(comparison)


def aggregate_section(summary: Summary, draw: Draw) -> Html:
    agents = summary.comparison.agents
    panels = [
        draw(charts.estimate_bars(label, found), f"{label} of each agent")
        for label, found in summary.aggregates.items()
    ]
    rows = {
        label: [estimate_cell(found.get(agent)) for agent in agents]
        for label, found in summary.aggregates.items()
    }
    caption = AGGREGATES.format(scale=summary.scale, tasks=len(summary.aggregated_tasks))
    return section(
        "Aggregates",
        paragraph(caption),
        legend(summary.comparison),
        Html(f'<div class="panels">{join(*panels)}</div>'),
        grid_table("statistic", agents, rows),
        Html(f'<div class="pair">{join(*comparison_charts(summary, draw))}</div>'),
    )


def comparison_charts(summary: Summary, draw: Draw) -> Iterator[Html]:
    numbers = {agent: index for index, agent in enumerate(summary.comparison.agents)}
    if summary.profiles:
        curves = {numbers[agent]: curve for agent, curve in summary.profiles.items()}
        chart = draw(charts.profile_chart(summary.scale, curves), "performance profiles")
        yield titled("Performance profiles", chart)
    if summary.improvements:
        chart = draw(charts.improvement_chart(summary.improvements), "probability of improvement")
        yield titled("Probability of improvement, P(X > Y)", chart)


def curve_panels(summary: Summary, draw: Draw) -> Iterator[Html]:
    comparison = summary.comparison
    kind = curve_kind(comparison)
    for task in comparison.tasks:
        runs = {index: comparison.of(agent, task) for index, agent in enumerate(comparison.agents)}
        curves = {index: curve for index, of in runs.items() if (curve := mean_curve(of, kind))}
        thin = [
            (index, curve_points(run, kind))
            for index, of in runs.items()
            for run in of
            if not run.finished and len(curve_points(run, kind).steps)
        ]
        if curves or thin:
            figure = charts.curve_panel(task, curves, thin, reference_scores(summary, task))
            yield draw(figure, f"return on {task} over agent steps")


def reference_scores(summary: Summary, task: str) -> dict[str, float]:
    """Human and random scores of a task, as far as they are known."""
    known = summary.normalisation.references.get(task) if summary.normalisation else None
    if known is not None and summary.comparison.benchmark == "atari":
        return {"human": known.human, "random": known.random}
    random = [run.random for run in summary.comparison.runs if run.task == task]
    measured = [value for value in random if value is not None]
    return {"random": sum(measured) / len(measured)} if measured else {}


def score_grid(summary: Summary) -> Html:
    agents = summary.comparison.agents
    rows = {
        task: [score_cell(summary, agent, task) for agent in agents]
        for task in summary.comparison.tasks
    }
    return grid_table("task", agents, rows)


def score_cell(summary: Summary, agent: str, task: str) -> Html:
    found = summary.scores[agent].get(task)
    if found is None:
        return Html(escape(tables.score_cell(summary, agent, task)))
    seeds = "1 seed" if found.runs == 1 else f"{found.runs} seeds"
    return estimate_cell(found, seeds)


def estimate_cell(found: Estimate | None, remark: str = "") -> Html:
    """The value, and below it the interval and a remark."""
    if found is None:
        return Html(tables.NOTHING)
    words = [remark] if remark else []
    if found.interval is not None:
        low, high = tables.number(found.interval.low), tables.number(found.interval.high)
        words = [f"{low} to {high}", *words]
    return Html(f"{tables.number(found.value)}<small>{escape(', '.join(words))}</small>")


def runs_section(comparison: Comparison) -> Html:
    """Parameters, speed and hours by agent, and the command of every run in a fold."""
    agents = {agent: agent_cells(comparison, agent) for agent in comparison.agents}
    names = ("parameters", "steps/s", "hours per run", "finished", "training steps", "actions")
    rows = {run_name(run): run_cells(run) for run in comparison.runs}
    columns = ("state", "score", "hours", "steps/s", "command")
    summary = f"<summary>All {len(rows)} runs and the commands that made them</summary>"
    fold = Html(f"<details>{summary}{grid_table('run', columns, rows, 'commands')}</details>")
    return section("Runs", grid_table("agent", names, agents), fold)


def agent_cells(comparison: Comparison, agent: str) -> list[Html]:
    runs = [run for run in comparison.runs if run.agent == agent]
    about = [run.description for run in runs if run.description is not None]
    parameters = sorted({found.parameters for found in about if found.parameters is not None})
    speeds = [s for run in runs if run.timing and (s := run.timing.steps_per_second)]
    hours = [run.timing.hours for run in runs if run.timing]
    temperatures = sorted({found.temperature for found in about})
    texts = (
        span([f"{value:,}" for value in parameters]),
        span([format_number(value, 3) for value in extremes(speeds)]),
        span([format_number(value, 3) for value in extremes(hours)]),
        f"{sum(run.finished for run in runs)} of {len(runs)}",
        span([f"{steps:,}" for steps in sorted({run.steps for run in runs if run.steps})]),
        "; ".join(action_selection(value) for value in temperatures) or tables.NOTHING,
    )
    return [Html(escape(text)) for text in texts]


def extremes(values: Sequence[float]) -> list[float]:
    return [min(values), max(values)] if values else []


def span(texts: Sequence[str]) -> str:
    """The first and the last text, once if they are equal."""
    if not texts:
        return tables.NOTHING
    return texts[0] if texts[0] == texts[-1] else f"{texts[0]} to {texts[-1]}"


def run_name(run: Run) -> str:
    return str(run.source) if run.seed is not None else f"{run.source}: {run.task}"


def run_cells(run: Run) -> list[Html]:
    timing = run.timing
    speed = timing.steps_per_second if timing else None
    progress = "" if run.finished else f" at {run.step:,} of {run.steps or 0:,}"
    texts = (
        f"{run.state}{progress}",
        tables.NOTHING if run.score is None else tables.number(run.score),
        tables.NOTHING if timing is None else format_number(timing.hours, 3),
        tables.NOTHING if speed is None else format_number(speed, 3),
        (run.description.command if run.description else "") or tables.NOTHING,
    )
    return [Html(escape(text)) for text in texts]


def legend(comparison: Comparison) -> Html:
    items = []
    for index, agent in enumerate(comparison.agents):
        items.append(f"<li>{legend_mark(index)}{escape(agent)}</li>")
    return Html(f'<ul class="legend">{"".join(items)}</ul>')


def legend_mark(index: int) -> str:
    """A piece of the agent's line with its marker."""
    turn = index + index // len(SERIES)
    style = DASHES[turn % len(DASHES)]
    dashes = "" if isinstance(style, str) else " ".join(f"{2.5 * d:.1f}" for d in style[1])
    colour = f"var(--s{index % len(SERIES)})"
    return (
        f'<svg viewBox="0 0 32 16" aria-hidden="true"><line x2="32" y1="8" y2="8" stroke="{colour}"'
        f' stroke-width="3" stroke-dasharray="{dashes}"/><text x="16" y="13" font-size="14" '
        f'text-anchor="middle" fill="{colour}">{GLYPHS[turn % len(GLYPHS)]}</text></svg>'
    )


def remark_list(remarks: Sequence[str]) -> Html:
    items = "".join(f"<li>{escape(remark)}</li>" for remark in remarks)
    return Html(f'<ul class="remarks">{items}</ul>') if remarks else Html("")


def paragraph(text: str) -> Html:
    return Html(f"<p>{escape(text)}</p>")


def titled(title: str, chart: Html) -> Html:
    return Html(f"<div><h3>{escape(title)}</h3>{chart}</div>")


def grid_table(
    corner: str, columns: Sequence[str], rows: Mapping[str, Sequence[Html]], kind: str = ""
) -> Html:
    head = "".join(f"<th>{escape(name)}</th>" for name in (corner, *columns))
    lines = (
        f"<tr><th>{escape(name)}</th>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>"
        for name, cells in rows.items()
    )
    table = f"<thead><tr>{head}</tr></thead><tbody>{''.join(lines)}</tbody>"
    return Html(f'<div class="scroll"><table class="grid {kind}">{table}</table></div>')
