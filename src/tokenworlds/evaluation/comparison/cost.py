"""What runs cost and how they were made: parameters, speed, hours, commands."""

from collections.abc import Sequence
from html import escape

from tokenworlds.evaluation.comparison.elements import NOTHING, grid_table, number
from tokenworlds.evaluation.comparison.grouping import Comparison
from tokenworlds.evaluation.comparison.loading import Run
from tokenworlds.evaluation.page import Html, format_number
from tokenworlds.evaluation.results import action_selection

AGENT = ("parameters", "steps/s", "hours per run", "agent steps", "finished runs", "evaluation")
RUN = ("state", "score", "hours", "steps/s", "version", "command")


def tables(comparison: Comparison) -> list[Html]:
    """A row for each agent, and in a fold a row for each run."""
    agents = {agent: agent_cells(comparison, agent) for agent in comparison.agents}
    known = [run for run in comparison.runs if run.description is not None]
    rows = {str(run.source): run_cells(run) for run in known}
    fold = Html(
        f"<details><summary>All {len(rows)} runs and the commands that made them</summary>"
        f"{grid_table('run', RUN, rows, 'wide')}</details>"
    )
    return [grid_table("agent", AGENT, agents), *([fold] if rows else [])]


def agent_cells(comparison: Comparison, agent: str) -> list[Html]:
    runs = [run for run in comparison.runs if run.agent == agent]
    about = [run.description for run in runs if run.description is not None]
    parameters = {found.parameters for found in about if found.parameters is not None}
    speeds = [speed for run in runs if (speed := speed_of(run)) is not None]
    hours = [run.timing.hours for run in runs if run.timing]
    texts = (
        span([f"{value:,}" for value in sorted(parameters)]),
        span([format_number(value, 3) for value in sorted(speeds)]),
        span([format_number(value, 3) for value in sorted(hours)]),
        span([f"{steps:,}" for steps in sorted({run.steps for run in runs if run.steps})]),
        f"{sum(run.finished for run in runs)} of {len(runs)}",
        evaluation(runs),
    )
    return [Html(escape(text)) for text in texts]


def evaluation(runs: Sequence[Run]) -> str:
    """Episodes and choice of actions in the final evaluation."""
    episodes = span(
        [str(count) for count in sorted({run.episodes for run in runs if run.episodes})]
    )
    temperatures = sorted({run.description.temperature for run in runs if run.description})
    words = [action_selection(value) for value in temperatures]
    return "; ".join([f"{episodes} episodes", *words]) if words else NOTHING


def speed_of(run: Run) -> float | None:
    return run.timing.steps_per_second if run.timing else None


def span(texts: Sequence[str]) -> str:
    """The first and the last text, once if they are equal."""
    if not texts:
        return NOTHING
    return texts[0] if texts[0] == texts[-1] else f"{texts[0]} to {texts[-1]}"


def run_cells(run: Run) -> list[Html]:
    about, speed = run.description, speed_of(run)
    progress = "" if run.finished else f" at {run.step:,} of {run.steps or 0:,}"
    texts = (
        f"{run.state}{progress}",
        NOTHING if run.score is None else number(run.score),
        NOTHING if run.timing is None else format_number(run.timing.hours, 3),
        NOTHING if speed is None else format_number(speed, 3),
        (about.version if about else "") or NOTHING,
        (about.command if about else "") or "not started by a command",
    )
    return [Html(escape(text)) for text in texts]
