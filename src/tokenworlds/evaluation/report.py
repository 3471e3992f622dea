"""The report of a run: one HTML page that holds its pictures, and the same pictures as files."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from tokenworlds.evaluation import page
from tokenworlds.evaluation.curve import Event, curve_png
from tokenworlds.evaluation.dream_picture import draw_dream
from tokenworlds.evaluation.dream_rows import DreamRows
from tokenworlds.evaluation.loss_curves import loss_png, loss_terms
from tokenworlds.evaluation.page import Html
from tokenworlds.evaluation.pictures import DARK, LIGHT, Theme, image_bytes, minus
from tokenworlds.evaluation.results import Result, Score, replace_file

TELLING: Mapping[str, str] = {
    "code_usage": "share of the codes in use",
    "code_perplexity": "perplexity of the codes: as if so many were used evenly",
    "code_accuracy": "share of the next frame's codes that the world foresaw",
    "frame_accuracy": "share of frames of which it foresaw every code",
    "loss/reconstruction": "squared error of a frame, summed over pixels",
    "loss/reward": "how badly rewards were foreseen, in nats",
    "reward_error": "how far the foreseen reward of a step is off",
    "loss/termination": "how badly endings were foreseen, in nats",
    "termination_error": "share of steps at which an ending was foreseen wrongly",
}
DREAM_CAPTION = (
    "Above, what happened; below it, the same frames as their codes hold them, and the codes, a "
    "colour for each, then once more with those faint that the frame before has too. After them "
    "the dream: from the frames marked as seen the world goes on by itself under the recorded "
    "actions. An episode's opening cannot be foreseen, so it is seen. If there is one more line, "
    "its codes were drawn at random: what still is as it should be does not hang on them."
)


@dataclass(frozen=True, kw_only=True, slots=True)
class RunFacts:
    """What a run is. `machine` holds versions and hardware by name, nested as it may be."""

    recipe: str
    size: str
    env: str
    protocol: str
    seed: int
    steps: int
    machine: Mapping[str, Any]

    @property
    def title(self) -> str:
        """A name for people."""
        return f"{self.recipe} ({self.size}) on {self.env}"


@dataclass(frozen=True, slots=True)
class Report:
    """The files of a report."""

    page: Path
    curve: Path
    dream: Path | None


def write_report(
    folder: Path,
    *,
    facts: RunFacts,
    events: Sequence[Event],
    result: Result | None = None,
    best: float | None = None,
    dream: DreamRows | None = None,
) -> Report:
    """Write report.html, curve.png and dream.png into a run's folder.

    `best` is the best possible mean return, where it is known.
    """
    curves = draw_both(lambda theme: draw_curve(facts, events, result, best, theme))
    dreams = draw_both(lambda theme: image_bytes(draw_dream(dream, theme))) if dream else None
    html = page.page(
        facts.title,
        page.heading(facts.title, lead(facts, events)),
        page.tiles(score_tiles(result, best)),
        *achievement_sections(result),
        page.section("Learning curve", page.picture(*curves, "return over agent steps")),
        dream_section(dreams),
        loss_section(events),
        metrics_section(events),
        page.section("The run", page.table(fact_rows(facts))),
    )
    return Report(
        replace_file(folder / "report.html", html.encode()),
        replace_file(folder / "curve.png", curves[0]),
        replace_file(folder / "dream.png", dreams[0]) if dreams else None,
    )


def draw_both(draw: Callable[[Theme], bytes]) -> tuple[bytes, bytes]:
    """A picture for light pages and for dark ones."""
    return draw(LIGHT), draw(DARK)


def draw_curve(
    facts: RunFacts,
    events: Sequence[Event],
    result: Result | None,
    best: float | None,
    theme: Theme,
) -> bytes:
    """The learning curve under the name of the run."""
    chance = result.random_score if result else None
    random = chance.mean if chance else None
    title = facts.title
    return curve_png(events, title=title, best=best, random=random, final=result, theme=theme)


def lead(facts: RunFacts, events: Sequence[Event]) -> str:
    """How far the run is, in a sentence."""
    done = max((event["agent_steps"] for event in events), default=0)
    return f"Protocol {facts.protocol}, seed {facts.seed}, {done:,} of {facts.steps:,} agent steps."


def score_tiles(result: Result | None, best: float | None) -> list[tuple[str, str, str]]:
    """The score beside what chance and what perfection bring."""
    if result is None:
        return [("mean return", "none yet", "the agent has not been evaluated")]
    played = f"{result.score.episodes} episodes at {result.agent_steps:,} steps"
    remark = f"± standard error; {played}, protocol {result.protocol}, {manner(result.temperature)}"
    shown = [("mean return", show(result.score), remark)]
    chance = result.random_score
    if chance is not None:
        shown.append(("random policy", show(chance), f"{chance.episodes} episodes"))
    if result.crafter is not None:
        shown.append(("Crafter score", str(result.crafter), "from the success rates below"))
    if best is not None:
        shown.append(("best possible", number(best), "mean return"))
    if chance is not None and best is not None and best > chance.mean:
        share = (result.score.mean - chance.mean) / (best - chance.mean)
        shown.append(("of the way", number(100 * share, 3) + " %", "from random to best"))
    return shown


def achievement_sections(result: Result | None) -> list[Html]:
    """How often each achievement was unlocked, if the environment counts them."""
    if result is None or (score := result.crafter) is None:
        return []
    chance = result.random_crafter
    by_chance = {"Crafter score": chance.score, **chance.success} if chance else {}
    rates = {"Crafter score": score.score, **score.success}
    remarks = {name: f"random policy: {rate:.1f} %" for name, rate in by_chance.items()}
    rows = {name: f"{rate:.1f} %" for name, rate in rates.items()}
    return [page.section("Achievements, share of episodes", page.table(rows, remarks))]


def dream_section(dreams: tuple[bytes, bytes] | None) -> Html:
    """The dream, if there is one."""
    if dreams is None:
        return Html("")
    return page.section("Dream", page.picture(*dreams, "real and dreamt frames", DREAM_CAPTION))


def loss_section(events: Sequence[Event]) -> Html:
    """Small multiples of each learner."""
    parts = []
    for learner, terms in loss_terms(events).items():
        pictures = draw_both(partial(loss_png, events, learner, terms))
        alt = f"losses of {learner} over agent steps: {', '.join(terms)}"
        parts += [page.subtitle(learner), page.picture(*pictures, alt)]
    return page.section("Losses over agent steps", *parts) if parts else Html("")


def metrics_section(events: Sequence[Event]) -> Html:
    """The latest numbers: those that tell most, and all of them on request."""
    latest = latest_metrics(events)
    telling = {
        name: meaning
        for key, meaning in TELLING.items()
        for name in latest
        if name.partition("/")[2] == key
    }
    everything = {name: number(value) for name, value in latest.items()}
    chosen = {name: everything[name] for name in telling}
    return page.section(
        "Latest numbers",
        page.table(chosen, telling),
        page.fold(f"All {len(everything)} metrics", page.table(everything)),
    )


def latest_metrics(events: Sequence[Event]) -> dict[str, int | float]:
    """The last value of every metric, by name."""
    merged = {name: value for event in events for name, value in event.items()}
    return {name: value for name, value in sorted(merged.items()) if isinstance(value, int | float)}


def fact_rows(facts: RunFacts) -> dict[str, str]:
    """Everything that the numbers hang on."""
    return {
        "recipe": facts.recipe,
        "size": facts.size,
        "environment": facts.env,
        "protocol": facts.protocol,
        "seed": str(facts.seed),
        "agent steps": f"{facts.steps:,}",
        **flatten(facts.machine),
    }


def flatten(nested: Mapping[str, Any]) -> dict[str, str]:
    """Nested facts as lines; what is not known is left out."""
    lines: dict[str, str] = {}
    for name, value in nested.items():
        if isinstance(value, Mapping):
            lines.update(flatten(value))
        elif value is not None:
            lines[name] = str(value)
    return lines


def manner(temperature: float) -> str:
    """How actions were chosen."""
    if temperature == 0.0:
        return "likeliest actions"
    return (
        "actions drawn" if temperature == 1.0 else f"actions drawn at temperature {temperature:g}"
    )


def show(score: Score) -> str:
    """Mean and standard error."""
    return minus(str(score))


def number(value: int | float, digits: int = 4) -> str:
    """A number with so many digits that count, whole ones in full."""
    return minus(f"{value:,.0f}" if float(value).is_integer() else f"{value:.{digits}g}")
