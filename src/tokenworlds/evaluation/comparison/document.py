"""The page of a comparison, and the tables beside it."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import count
from pathlib import Path
from typing import TypeVar

from matplotlib.figure import Figure

from tokenworlds.core.files import replace_file
from tokenworlds.evaluation.comparison import charts, cost, literature, tables
from tokenworlds.evaluation.comparison.drawing import inline_svg
from tokenworlds.evaluation.comparison.elements import (
    NOTHING,
    STYLE,
    Heading,
    digits_of,
    estimate_cell,
    grid_table,
    item_list,
    legend,
    number,
    panels,
    paragraph,
    remark_list,
    titled,
)
from tokenworlds.evaluation.comparison.literature import Column
from tokenworlds.evaluation.comparison.numbers import (
    CRAFTER,
    CRAFTER_TRAINING,
    curve_kind,
    curve_points,
    mean_curve,
)
from tokenworlds.evaluation.comparison.summary import Summary
from tokenworlds.evaluation.page import Html, page, section

T = TypeVar("T")
Draw = Callable[[Figure, str], Html]
TASKS_PER_CHART = 13
MOST_PAIRS = 10
FEW_TASKS = 3
IMPROVEMENT = "Probability of improvement, P(X > Y)"
TITLE = "Comparison of runs"
CURVES = {
    "evaluation": "Mean return of the evaluations during training, with its 95 % interval.",
    "training": "Mean return of the episodes of training, smoothed, with its 95 % interval.",
}
FINAL = (
    "Mean return of the final evaluation over seeds, with its 95 % bootstrap interval and the "
    "number of seeds."
)
PUBLISHED = "Published scores are their authors' own: protocol, seeds and episodes may differ."
ONE_TASK = "{scale} on {task}, with 95 % bootstrap intervals over seeds."
SEVERAL = (
    "{scale} over {count} tasks, with 95 % stratified bootstrap intervals. The IQM over runs pools "
    "the runs of all tasks. The IQM over task means is another number, and the only one that a "
    "table of means allows."
)


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

    body = [benchmark_section(summary, draw) for summary in summaries]
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


def benchmark_section(summary: Summary, draw: Draw) -> Html:
    comparison = summary.comparison
    title = f"{comparison.benchmark}, protocol {', '.join(comparison.protocols)}"
    parts = [
        remark_list(summary.remarks),
        *aggregate_sections(summary, draw),
        *curve_sections(summary, draw),
        *score_sections(summary, draw),
        *achievement_sections(summary, draw),
        section("Cost and commands", *cost.tables(comparison)),
    ]
    inner = section(title, *parts)
    return Html(inner.replace("<section>", '<section class="benchmark">', 1))


def aggregate_sections(summary: Summary, draw: Draw) -> Iterator[Html]:
    if not summary.aggregates:
        return
    agents = list(next(iter(summary.aggregates.values())))
    several = len(summary.tasks) > 1
    scale = summary.scale[0].upper() + summary.scale[1:]
    words = SEVERAL if several else ONE_TASK
    charted = [
        draw(charts.estimate_bars(label, numbered(summary, found)), f"{label} of each agent")
        for label, found in summary.aggregates.items()
    ]
    yield section(
        "Aggregates",
        paragraph(words.format(scale=scale, count=len(summary.tasks), task=summary.tasks[0])),
        legend(summary.comparison.agents),
        panels(charted, "small"),
        aggregate_table(summary, agents),
        panels(list(comparison_charts(summary, draw)), "large"),
        improvement_table(summary),
    )


def aggregate_table(summary: Summary, agents: Sequence[str]) -> Html:
    shown = summary.published_columns
    names: list[Heading] = [*agents, *((column.name, column.source) for column, _ in shown)]
    rows = {
        label: [
            *(estimate_cell(found[agent], small=digits_of(label)) for agent in agents),
            *(theirs(estimate_cell(of.get(label), small=digits_of(label))) for _, of in shown),
        ]
        for label, found in summary.aggregates.items()
    }
    return grid_table("statistic", names, rows)


def theirs(cell: Html) -> Html:
    return Html(f'<span class="theirs">{cell}</span>')


def numbered(summary: Summary, found: Mapping[str, T]) -> dict[int, T]:
    """By the number of the agent, which decides its colour."""
    agents = summary.comparison.agents
    return {number: found[agent] for number, agent in enumerate(agents) if agent in found}


def comparison_charts(summary: Summary, draw: Draw) -> Iterator[Html]:
    if summary.efficiency:
        label = "IQM over runs"
        chart = charts.efficiency_chart(label, numbered(summary, summary.efficiency))
        yield titled("Sample efficiency", draw(chart, f"{label} over agent steps"))
    if summary.profiles:
        chart = charts.profile_chart(summary.scale, numbered(summary, summary.profiles))
        yield titled("Performance profiles", draw(chart, "fraction of runs above each score"))
    if 0 < len(summary.improvements) <= MOST_PAIRS:
        chart = charts.improvement_chart(summary.improvements)
        yield titled(IMPROVEMENT, draw(chart, "P(X > Y) of each pair"))


def improvement_table(summary: Summary) -> Html:
    """Many pairs, X in rows and Y in columns; a chart of them would be endless."""
    found = summary.improvements
    if len(found) <= MOST_PAIRS:
        return Html("")
    agents = list(dict.fromkeys(agent for pair in found for agent in pair))
    rows = {
        x: [estimate_cell(found[x, y]) if (x, y) in found else Html("") for y in agents[1:]]
        for x in agents[:-1]
    }
    return titled(IMPROVEMENT, grid_table("X", [f"Y: {agent}" for agent in agents[1:]], rows))


def curve_sections(summary: Summary, draw: Draw) -> Iterator[Html]:
    drawn = list(curve_panels(summary, draw))
    if drawn:
        comparison = summary.comparison
        caption = paragraph(CURVES[curve_kind(comparison)])
        size = "" if len(drawn) > FEW_TASKS else "large"
        yield section("Learning curves", caption, legend(comparison.agents), panels(drawn, size))


def curve_panels(summary: Summary, draw: Draw) -> Iterator[Html]:
    comparison = summary.comparison
    kind = curve_kind(comparison)
    for task in comparison.tasks:
        runs = {
            number: comparison.of(agent, task) for number, agent in enumerate(comparison.agents)
        }
        curves = {number: curve for number, of in runs.items() if (curve := mean_curve(of, kind))}
        unfinished = [
            (number, points)
            for number, of in runs.items()
            for run in of
            if not run.finished and len((points := curve_points(run, kind)).steps)
        ]
        if curves or unfinished:
            lines = reference_scores(summary, task)
            figure = charts.curve_panel(task, curves, unfinished, lines)
            yield draw(figure, f"return on {task} over agent steps")


def reference_scores(summary: Summary, task: str) -> dict[str, float]:
    """Human and random scores of a task, as far as they are known."""
    known = summary.normalisation.references.get(task) if summary.normalisation else None
    if known is not None and summary.normalisation and summary.normalisation.human:
        return {"human": known.human, "random": known.random}
    random = [run.random for run in summary.comparison.runs if run.task == task]
    measured = [value for value in random if value is not None]
    return {"random": sum(measured) / len(measured)} if measured else {}


def score_sections(summary: Summary, draw: Draw) -> Iterator[Html]:
    agents, columns = summary.comparison.agents, summary.columns
    names: list[Heading] = [*agents, *((column.name, column.source) for column in columns)]
    rows = {
        task: [
            *(score_cell(summary, agent, task) for agent in agents),
            *(theirs(published_cell(column, task)) for column in columns),
        ]
        for task in summary.comparison.tasks
    }
    parts = [paragraph(FINAL), grid_table("task", names, rows)]
    if columns:
        protocols = [f"{column.name} ({column.source}): {column.protocol}." for column in columns]
        parts += [paragraph(PUBLISHED), item_list(protocols, "sources")]
    if len(summary.tasks) > 1 and summary.normalised:
        parts += [titled("By task", legend(agents)), panels(score_charts(summary, draw), "large")]
    yield section("Final scores", *parts)


def score_charts(summary: Summary, draw: Draw) -> list[Html]:
    """The normalised scores of all tasks, some of them on each chart."""
    found = numbered(summary, summary.normalised)
    known = {task for of_agent in found.values() for task in of_agent}
    tasks = [task for task in summary.comparison.tasks if task in known]
    parts = [tasks[i : i + TASKS_PER_CHART] for i in range(0, len(tasks), TASKS_PER_CHART)]
    limits = charts.score_limits(found)
    line = "human" if summary.normalisation and summary.normalisation.human else "best"
    return [
        draw(
            charts.score_bars(summary.scale, found, part, limits, line),
            f"{summary.scale} on {', '.join(part)}",
        )
        for part in parts
    ]


def score_cell(summary: Summary, agent: str, task: str) -> Html:
    found = summary.scores[agent].get(task)
    if found is None:
        return Html(escape(tables.score_cell(summary, agent, task)))
    return estimate_cell(found, "1 seed" if found.runs == 1 else f"{found.runs} seeds")


def published_cell(column: Column, task: str) -> Html:
    found = column.scores.get(task)
    if found is None:
        return Html(NOTHING)
    seeds = f"<small>{len(found.runs)} seeds</small>" if found.runs else ""
    return Html(f"{number(found.value)}{seeds}")


def achievement_sections(summary: Summary, draw: Draw) -> Iterator[Html]:
    found = summary.achievements
    if not found:
        return
    agents, first = list(found), next(iter(found.values()))
    rates = [name for name in first if name not in (CRAFTER, CRAFTER_TRAINING)]
    figure = charts.score_bars("success rate, %", numbered(summary, found), rates, (0.0, 100.0))
    rows = {name: [estimate_cell(found[agent].get(name)) for agent in agents] for name in first}
    score = {name: rows.pop(name) for name in (CRAFTER, CRAFTER_TRAINING) if name in rows}
    fold = f"<details><summary>Success rates as a table</summary>{grid_table('', agents, rows)}"
    scores = [
        f"Published Crafter score of {score.agent}: {number(score.value)} % ({score.source}: "
        f"{score.basis})."
        for score in literature.crafter_scores(summary.comparison)
    ]
    chart = draw(figure, "success rate of each achievement")
    parts = [titled("Success rates", legend(summary.comparison.agents), chart)]
    yield section(
        "Achievements",
        paragraph("Percent of the episodes of the final evaluation, mean over seeds."),
        grid_table("", agents, score),
        item_list(scores, "sources"),
        panels(parts, "large"),
        Html(f"{fold}</details>"),
    )
