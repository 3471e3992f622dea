"""report.html: the scores, curves, dream and metrics of a run on one self-contained page."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from html import escape
from pathlib import Path
from typing import Any

from tokenworlds.core.files import replace_file
from tokenworlds.evaluation.curves import Event, curve_figure, loss_png, loss_terms
from tokenworlds.evaluation.dream_picture import dream_png
from tokenworlds.evaluation.dreams import DreamRows
from tokenworlds.evaluation.page import (
    Html,
    format_number,
    in_both_themes,
    page,
    picture,
    section,
    table,
    tiles,
)
from tokenworlds.evaluation.pictures import figure_bytes, minus
from tokenworlds.evaluation.results import CrafterScore, Result, action_selection
from tokenworlds.runs.spec import RunSpec

EXPLANATIONS: Mapping[str, str] = {
    "code_usage": "fraction of the codebook in use",
    "code_perplexity": "perplexity of the token distribution",
    "code_accuracy": "fraction of the next frame's tokens that the world predicts correctly",
    "frame_accuracy": "fraction of frames with every token predicted correctly",
    "loss/reconstruction": "squared error of a frame, summed over pixels",
    "loss/reward": "negative log-likelihood of the reward, in nats",
    "reward_error": "absolute error of the predicted reward of a step",
    "loss/termination": "negative log-likelihood of termination, in nats",
    "termination_error": "fraction of steps with a wrong prediction of termination",
}
"""Metrics for the short table; keys are metric names without the learner."""
DREAM_CAPTION = (
    "From top to bottom: recorded frames; their reconstructions from tokens; the tokens, a colour "
    "for each; the tokens again, faint where equal to the previous frame's; and the dream: after "
    "the context frames, the world imagines the next frames under the recorded actions. The start "
    "of an episode cannot be predicted, so it is context again. In a last row, if there is one, "
    "the tokens are sampled uniformly: whatever still looks right there does not depend on them."
)


@dataclass(frozen=True, slots=True)
class ReportFiles:
    page: Path
    curve: Path
    dream: Path | None


def write_report(
    folder: Path,
    *,
    spec: RunSpec,
    machine: Mapping[str, Any],
    events: Sequence[Event],
    result: Result | None = None,
    best: float | None = None,
    dream: DreamRows | None = None,
) -> ReportFiles:
    """Write report.html, curve.png and dream.png into a run's folder.

    `machine` holds versions and hardware by name, possibly nested; `best` is the best possible
    mean return, if known.
    """
    title = f"{spec.recipe_name} ({spec.size}) on {spec.env.name}"
    curves = in_both_themes(
        lambda theme: figure_bytes(curve_figure(events, title, best, result, theme))
    )
    dreams = in_both_themes(partial(dream_png, dream)) if dream else None
    alt = "recorded and imagined frames"
    html = page(
        title,
        progress_sentence(spec, events, result),
        tiles(score_tiles(result, best)),
        *achievement_sections(result),
        section("Learning curve", picture(*curves, "return over agent steps")),
        section("Dream", picture(*dreams, alt, DREAM_CAPTION)) if dreams else Html(""),
        loss_section(events),
        metrics_section(events),
        section("Run", table(run_rows(spec, machine))),
    )
    return ReportFiles(
        replace_file(folder / "report.html", html.encode()),
        replace_file(folder / "curve.png", curves[0]),
        replace_file(folder / "dream.png", dreams[0]) if dreams else None,
    )


def progress_sentence(spec: RunSpec, events: Sequence[Event], result: Result | None) -> str:
    """Steps may follow the last log event; the result knows of them."""
    logged = max((event["agent_steps"] for event in events), default=0)
    done = logged if result is None else max(logged, result.agent_steps)
    steps = f"{done:,} of {spec.recipe.steps:,} agent steps"
    return f"Protocol {spec.env.protocol}, seed {spec.seed}, {steps}."


def score_tiles(result: Result | None, best: float | None) -> list[tuple[str, str, str]]:
    """Name, number and remark of each score, with the random and best returns to compare."""
    if result is None:
        return [("mean return", "none yet", "the agent has not been evaluated")]
    episodes = f"{result.score.episodes} episodes at {result.agent_steps:,} steps"
    actions = action_selection(result.temperature)
    remark = f"± standard error; {episodes}, protocol {result.protocol}, {actions}"
    shown = [("mean return", minus(str(result.score)), remark)]
    random = result.random_score
    if random is not None:
        shown.append(("random policy", minus(str(random)), f"{random.episodes} episodes"))
    if result.crafter is not None:
        shown.append(("Crafter score", str(result.crafter), "from the success rates below"))
    if result.training is not None and result.training.crafter is not None:
        all_of_them = (
            f"all {result.training.episodes:,} training episodes, as Crafter itself counts"
        )
        shown.append(("Crafter score, training", str(result.training.crafter), all_of_them))
    if best is not None:
        shown.append(("best possible", format_number(best), "mean return"))
    if random is not None and best is not None and best > random.mean:
        share = (result.score.mean - random.mean) / (best - random.mean)
        value = format_number(100 * share, 3) + " %"
        shown.append(("normalised score", value, "random is 0 %, best is 100 %"))
    return shown


def achievement_sections(result: Result | None) -> list[Html]:
    """The success rate of each achievement, if the environment counts them."""
    if result is None or (score := result.crafter) is None:
        return []
    training = result.training.crafter if result.training else None
    others = {"random policy": result.random_crafter, "training": training}
    remarks = {
        name: "; ".join(
            f"{label}: {by_name(other)[name]:.1f} %" for label, other in others.items() if other
        )
        for name in by_name(score)
    }
    rows = {name: f"{rate:.1f} %" for name, rate in by_name(score).items()}
    return [section("Achievements: success rate", table(rows, remarks))]


def by_name(score: CrafterScore) -> dict[str, float]:
    return {"Crafter score": score.score, **score.success}


def loss_section(events: Sequence[Event]) -> Html:
    parts = []
    for learner, terms in loss_terms(events).items():
        pictures = in_both_themes(partial(loss_png, events, learner, terms))
        alt = f"losses of {learner} over agent steps: {', '.join(terms)}"
        parts += [Html(f"<h3>{escape(learner)}</h3>"), picture(*pictures, alt)]
    return section("Losses over agent steps", *parts) if parts else Html("")


def metrics_section(events: Sequence[Event]) -> Html:
    """The latest value of each explained metric, and of all metrics in a fold."""
    latest = latest_metrics(events)
    explained = {
        name: explanation
        for key, explanation in EXPLANATIONS.items()
        for name in latest
        if name.partition("/")[2] == key
    }
    everything = {name: format_number(value) for name, value in latest.items()}
    chosen = {name: everything[name] for name in explained}
    summary = f"<summary>All {len(everything)} metrics</summary>"
    fold = Html(f"<details>{summary}\n{table(everything)}\n</details>")
    return section("Latest metrics", table(chosen, explained), fold)


def latest_metrics(events: Sequence[Event]) -> dict[str, int | float]:
    merged = {name: value for event in events for name, value in event.items()}
    return {name: value for name, value in sorted(merged.items()) if isinstance(value, int | float)}


def run_rows(spec: RunSpec, machine: Mapping[str, Any]) -> dict[str, str]:
    return {
        "recipe": spec.recipe_name,
        "size": spec.size,
        "environment": spec.env.name,
        "protocol": spec.env.protocol,
        "seed": str(spec.seed),
        "agent steps": f"{spec.recipe.steps:,}",
        **flatten(machine),
    }


def flatten(nested: Mapping[str, Any]) -> dict[str, str]:
    """Nested mappings as one; entries that are None are left out."""
    flat: dict[str, str] = {}
    for name, value in nested.items():
        if isinstance(value, Mapping):
            flat.update(flatten(value))
        elif value is not None:
            flat[name] = str(value)
    return flat
