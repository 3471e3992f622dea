"""The report of a run: one HTML page that holds its pictures, and the same pictures as files."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from html import escape
from pathlib import Path
from typing import Any, NewType

from tokenworlds.evaluation.curves import Event, curve_png, loss_png, loss_terms
from tokenworlds.evaluation.dream_picture import draw_dream
from tokenworlds.evaluation.dreams import DreamRows
from tokenworlds.evaluation.pictures import DARK, LIGHT, Theme, data_uri, image_bytes, minus
from tokenworlds.evaluation.results import Result, Score, replace_file

Html = NewType("Html", str)

STYLE = """
:root { color-scheme: light dark; --back: #fff; --panel: #f1f5f9; --text: #0f172a;
  --muted: #64748b; --line: #e2e8f0; --strong: #2563eb; }
@media (prefers-color-scheme: dark) { :root { --back: #0d1117; --panel: #1b2330; --text: #e6edf3;
  --muted: #8b98a9; --line: #252d39; --strong: #60a5fa; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 60rem; padding: 2.5rem 1.25rem 4rem; background: var(--back);
  color: var(--text); font: 16px/1.55 system-ui, "Segoe UI", Roboto, "DejaVu Sans", sans-serif; }
h1 { margin: 0; font-size: 1.9rem; line-height: 1.2; letter-spacing: -0.01em; }
h2 { margin: 3rem 0 0.75rem; font-size: 1.2rem; }
h3 { margin: 1.5rem 0 0.5rem; font-size: 1rem; color: var(--muted); font-weight: 600; }
p { margin: 0.4rem 0; max-width: 46rem; }
.lead, figcaption { color: var(--muted); }
figure { margin: 0; }
figure img { display: block; width: 100%; height: auto; }
figcaption { margin-top: 0.6rem; font-size: 0.9rem; max-width: 46rem; }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(12rem, 1fr)); gap: 0.9rem;
  margin: 1.75rem 0 0; }
.tile { background: var(--panel); border-radius: 0.75rem; padding: 0.9rem 1.1rem; }
.tile b { display: block; font-size: 1.4rem; line-height: 1.5; white-space: nowrap;
  font-variant-numeric: tabular-nums; }
.tile:first-child b { color: var(--strong); }
.tile span { display: block; color: var(--muted); font-size: 0.85rem; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: 0.92rem; }
th, td { padding: 0.4rem 1rem 0.4rem 0; border-bottom: 1px solid var(--line); text-align: left;
  vertical-align: top; overflow-wrap: anywhere; }
th { font-weight: 500; width: 40%; }
td { font-variant-numeric: tabular-nums; }
th small { display: block; color: var(--muted); font-weight: 400; }
details { margin-top: 1rem; }
summary { cursor: pointer; color: var(--muted); }
"""
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
    html = page(
        facts.title,
        heading(facts.title, lead(facts, events)),
        tiles(score_tiles(result, best)),
        *achievement_sections(result),
        section("Learning curve", picture(*curves, "return over agent steps")),
        dream_section(dreams),
        loss_section(events),
        metrics_section(events),
        section("The run", table(fact_rows(facts))),
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
    how = f"± standard error; {played}, protocol {result.protocol}, {manner(result.temperature)}"
    shown = [("mean return", show(result.score), how)]
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
    return [section("Achievements, share of episodes", table(rows, remarks))]


def dream_section(dreams: tuple[bytes, bytes] | None) -> Html:
    """The dream, if there is one."""
    if dreams is None:
        return Html("")
    return section("Dream", picture(*dreams, "real and dreamt frames", DREAM_CAPTION))


def loss_section(events: Sequence[Event]) -> Html:
    """Small multiples of each learner."""
    parts = []
    for learner, terms in loss_terms(events).items():
        pictures = draw_both(partial(loss_png, events, learner, terms))
        alt = f"losses of {learner} over agent steps: {', '.join(terms)}"
        parts += [subtitle(learner), picture(*pictures, alt)]
    return section("Losses over agent steps", *parts) if parts else Html("")


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
    return section(
        "Latest numbers",
        table(chosen, telling),
        fold(f"All {len(everything)} metrics", table(everything)),
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


def join(*parts: Html) -> Html:
    """One after the other."""
    return Html("\n".join(parts))


def page(title: str, *body: Html) -> Html:
    """A whole document that needs no other file."""
    return Html(
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>{STYLE}</style>\n</head>\n"
        f"<body>\n{join(*body)}\n</body>\n</html>\n"
    )


def heading(title: str, lead: str) -> Html:
    """The title of the page and a sentence under it."""
    return Html(f'<header><h1>{escape(title)}</h1><p class="lead">{escape(lead)}</p></header>')


def section(title: str, *body: Html) -> Html:
    """A part of the page under its own title."""
    return Html(f"<section>\n<h2>{escape(title)}</h2>\n{join(*body)}\n</section>")


def subtitle(title: str) -> Html:
    """A title within a section."""
    return Html(f"<h3>{escape(title)}</h3>")


def picture(light: bytes, dark: bytes, alt: str, caption: str = "") -> Html:
    """A PNG in the colours that the reader's screen is set to."""
    below = f"<figcaption>{escape(caption)}</figcaption>" if caption else ""
    return Html(
        "<figure><picture>"
        f'<source media="(prefers-color-scheme: dark)" srcset="{data_uri(dark)}">'
        f'<img src="{data_uri(light)}" alt="{escape(alt)}"></picture>{below}</figure>'
    )


def tiles(values: Sequence[tuple[str, str, str]]) -> Html:
    """Large numbers side by side: name, number, remark."""
    cells = (
        f'<div class="tile"><span>{escape(name)}</span><b>{escape(number)}</b>'
        f"<span>{escape(remark)}</span></div>"
        for name, number, remark in values
    )
    return Html(f'<div class="tiles">{"".join(cells)}</div>')


def table(rows: Mapping[str, str], remarks: Mapping[str, str] | None = None) -> Html:
    """Names at the left, each with a remark if there is one; values at the right."""
    lines = (
        f"<tr><th>{escape(name)}{remark(name, remarks or {})}</th><td>{escape(value)}</td></tr>"
        for name, value in rows.items()
    )
    return Html(f'<div class="scroll"><table>{"".join(lines)}</table></div>')


def remark(name: str, remarks: Mapping[str, str]) -> str:
    """Small letters under a name."""
    return f"<small>{escape(remarks[name])}</small>" if name in remarks else ""


def fold(title: str, *body: Html) -> Html:
    """Something that is opened on request."""
    return Html(f"<details><summary>{escape(title)}</summary>\n{join(*body)}\n</details>")
