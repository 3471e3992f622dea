"""Smaller World Models, figure 8: human-normalised scores on a symmetrical logarithmic scale."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, NullLocator
from PIL import Image

from tokenworlds.core.errors import UserError, unknown
from tokenworlds.evaluation.curves import style_axes
from tokenworlds.evaluation.pictures import Theme, minus
from tokenworlds.evaluation.results import FILE, read_result
from tokenworlds.evaluation.statistics import human_normalised, references
from tokenworlds.figures.picture import Picture, Request, RunSource, new_figure, to_image
from tokenworlds.figures.runs import spec_facts
from tokenworlds.published.catalogue import Table, agent_names, tables

TABLE, REFERENCES = "swm-2", "dqn-2015"
AGENTS = ("swm", "swm-1frame", "simple")
LINEAR = 0.1
"""The scale is linear up to here and logarithmic beyond."""
TICKS = (-1, -0.1, 0, 0.1, 1, 10)
GAME = 0.29
"""Inches of the three bars of a game."""


@dataclass(frozen=True, slots=True)
class RunScore:
    """The final evaluation of a run, human-normalised."""

    label: str
    game: str
    score: float
    normalised: float
    facts: Mapping[str, Any]


def make(request: Request) -> Picture:
    table = the_table()
    published = {agent: normalise(table.means(agent)) for agent in AGENTS}
    runs = [score_run(source, published["swm"]) for source in request.runs]
    order = sorted(published["swm"], key=lambda game: best(published, game), reverse=True)
    data = {
        "source": table.source,
        "references": REFERENCES,
        "games": order,
        "published": published,
        "runs": [{**run.facts, "score": run.score, "normalised": run.normalised} for run in runs],
    }
    return Picture(
        "Human-normalised scores of Smaller World Models",
        caption(table, published, runs),
        data,
        lambda theme: draw(order, published, runs, theme),
    )


def the_table() -> Table:
    return next(table for table in tables() if table.id == TABLE)


def normalise(scores: Mapping[str, float]) -> dict[str, float]:
    found = human_normalised(
        {game: [score] for game, score in scores.items()}, references(REFERENCES)
    )
    return {game: values[0] for game, values in found.items()}


def best(published: Mapping[str, Mapping[str, float]], game: str) -> float:
    """The better of the paper's two models, as its own table ranks them."""
    return max(published[agent][game] for agent in ("swm", "swm-1frame"))


def score_run(source: RunSource, games: Mapping[str, float]) -> RunScore:
    spec = source.spec
    family, _, game = spec.env.name.partition(":")
    if family != "atari":
        raise UserError(f"{source.name} plays {spec.env.name}; swm-8 shows runs on Atari games")
    if game not in games:
        raise unknown(f"game of {source.name}", game, games)
    result = read_result(source.folder.path / FILE)
    if result is None:
        raise UserError(
            f"{source.name} has no final evaluation: finish it with 'tokenworlds resume "
            f"{source.name}'"
        )
    score = result.score.mean
    facts = {**spec_facts(spec), "agent_steps": result.agent_steps, "episodes": len(result.returns)}
    label = f"{spec.recipe_name} ({spec.size})"
    return RunScore(label, game, score, normalise({game: score})[game], facts)


def caption(
    table: Table, published: Mapping[str, Mapping[str, float]], runs: Sequence[RunScore]
) -> str:
    means = ", ".join(
        f"{agent_names()[agent]} {fmean(published[agent].values()):.2f}" for agent in AGENTS
    )
    text = (
        f"(score - random) / (human - random) with the references of {REFERENCES}: 0 is a random "
        f"policy, 1 a human. Bars: {table.source}, {table.protocol}; SimPLe as quoted there. Mean "
        f"of the {len(published['swm'])} games: {means}. Linear up to {LINEAR:g}, logarithmic "
        f"beyond."
    )
    own = "; ".join(
        f"{run.label} on {run.facts['env']}, seed {run.facts['seed']}, protocol "
        f"{run.facts['protocol']}, {run.facts['agent_steps']:,} steps, {run.facts['episodes']} "
        f"episodes: {minus(f'{run.normalised:.2f}')}"
        for run in runs
    )
    return minus_formula(text) + (f"\nDiamonds, runs of this library: {own}." if own else "")


def minus_formula(text: str) -> str:
    return text.replace(" - ", f" {minus('-')} ")


def draw(
    order: Sequence[str],
    published: Mapping[str, Mapping[str, float]],
    runs: Sequence[RunScore],
    theme: Theme,
) -> Image.Image:
    figure = new_figure(0.9 + GAME * len(order), theme)
    axes = figure.add_subplot()
    colours = (theme.strong, theme.best, theme.soft)
    for offset, agent, colour in zip((-0.27, 0.0, 0.27), AGENTS, colours, strict=True):
        places = [place + offset for place in range(len(order))]
        values = [published[agent][game] for game in order]
        axes.barh(places, values, height=0.25, color=colour, label=agent_names()[agent])
    axes.axvline(0.0, color=theme.muted, lw=1.2)
    axes.axvline(1.0, color=theme.muted, lw=1.2, ls=(0, (4, 3)))
    draw_runs(axes, order, runs, theme)
    style(axes, order, theme)
    return to_image(figure)


def draw_runs(axes: Axes, order: Sequence[str], runs: Sequence[RunScore], theme: Theme) -> None:
    if not runs:
        return
    places = [order.index(run.game) for run in runs]
    look: dict[str, Any] = {"mfc": theme.background, "mec": theme.text, "mew": 1.6, "ls": "none"}
    values = [run.normalised for run in runs]
    axes.plot(values, places, marker="D", ms=7, zorder=5, label="runs of this library", **look)


def style(axes: Axes, order: Sequence[str], theme: Theme) -> None:
    axes.set_xscale("symlog", linthresh=LINEAR)
    style_axes(axes, theme, grid="x", spine="left", label_size=9)
    axes.set_yticks(range(len(order)), order)
    axes.tick_params(axis="y", labelcolor=theme.text)
    axes.set_ylim(len(order) - 0.4, -0.6)
    axes.set_xticks(TICKS)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: tick_label(float(value))))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xlabel("human-normalised score", color=theme.muted, fontsize=10)
    look: dict[str, Any] = {"frameon": False, "labelcolor": theme.text, "fontsize": 9}
    handles, labels = axes.get_legend_handles_labels()
    # Lines come before bars; the runs are to be last.
    first = len(labels) - len(AGENTS)
    handles, labels = handles[first:] + handles[:first], labels[first:] + labels[:first]
    axes.legend(handles, labels, loc="lower right", bbox_to_anchor=(1, 1), ncols=4, **look)


def tick_label(value: float) -> str:
    names = {0.0: "\nrandom", 1.0: "\nhuman"}
    return minus(f"{value:g}") + names.get(value, "")
