"""The page of a world model's figures, and one for several runs, each self-contained."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from html import escape
from pathlib import Path
from typing import Any

from tokenworlds.core.files import replace_file
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
from tokenworlds.evaluation.pictures import Theme
from tokenworlds.evaluation.world.measurement import Measured
from tokenworlds.evaluation.world.plots import (
    Document,
    comparison_png,
    examples_png,
    frames_png,
    outcomes_png,
    tokens_png,
    value_png,
)

STYLE = """
.verdict { list-style: none; margin: 1.5rem 0 0; padding: 0; max-width: 52rem; }
.verdict li { padding: 0.5rem 0 0.5rem 6.2rem; border-bottom: 1px solid var(--line); }
.verdict b { float: left; margin-left: -6.2rem; font-weight: 600; }
.fault b { color: #d55e00; } .good b { color: #009e73; } .unknown b { color: var(--muted); }
@media (prefers-color-scheme: dark) { .fault b { color: #ff8c42; } .good b { color: #34d399; } }
"""
MARKS = {"fault": "✗ fault", "good": "✓ good", "unknown": "? unclear"}
CAPTIONS = {
    "frames": (
        "After 8 real frames the world imagines on under the recorded actions (open loop). Closed "
        "loop: each frame is predicted from all real frames before it. Changed pixels differ from "
        "the real frame before; 1 is perfect, and 0 is a picture in which nothing moves."
    ),
    "examples": "Recorded frames, and those that the world imagines for the same step.",
    "tokens": (
        "How well the tokens of the real next frame are predicted from an imagined history. "
        "“Without history” is the entropy of each position's tokens."
    ),
    "outcomes": (
        "Rewards are rare: precision and recall are those of non-zero rewards with the right sign. "
        "Gaps are horizons without a reward, or without a predicted one."
    ),
    "value": (
        "Steps in ten groups of equal size by their predicted value, with the mean and the "
        "deviation of the discounted returns that came. A calibrated value lies on the line."
    ),
}


def write_page(path: Path, document: Document, measured: Measured) -> Path:
    """Write the page of one run."""
    title = f"World model of {name_of(document)}"
    held = document["held_out"]
    lead = (
        f"{document['agent_steps']:,} agent steps, protocol {document['protocol']}, seed "
        f"{document['seed']}. {held['steps']:,} held-out steps, {held['games']} finished games."
    )
    example = partial(examples_png, measured.real, measured.imagined, measured.known)
    html = page(
        title,
        lead,
        verdict_list(document["verdict"]),
        Html(f"<p><b>{escape(document['conclusion'].capitalize())}.</b></p>"),
        tiles(tiles_of(document)),
        plot("Frames", "frames", partial(frames_png, document)),
        plot("Imagined frames", "examples", example),
        plot("Tokens", "tokens", partial(tokens_png, document)),
        plot("Rewards and terminations", "outcomes", partial(outcomes_png, document)),
        plot("Value", "value", partial(value_png, document)),
        *(section(name, table(rows)) for name, rows in tables(document).items() if rows),
        section("Absent", table(document["absent"])) if document["absent"] else Html(""),
        style=STYLE,
    )
    return replace_file(path, html.encode())


def write_overlay(path: Path, documents: Mapping[str, Document]) -> Path:
    """Write the page of several runs: their open loops in one picture, and their verdicts."""
    pictures = in_both_themes(partial(comparison_png, documents))
    parts = [
        section(label, verdict_list(document["verdict"])) for label, document in documents.items()
    ]
    caption = "Open loops, a colour for each run."
    alt = f"open-loop errors against horizon of {', '.join(documents)}"
    html = page(
        "World models compared",
        f"{len(documents)} runs, each on held-out episodes of its own agent.",
        section("Open loop", picture(*pictures, alt, caption)),
        *parts,
        style=STYLE,
    )
    return replace_file(path, html.encode())


def name_of(document: Document) -> str:
    return f"{document['recipe']} ({document['size']}) on {document['env']}"


def verdict_list(findings: Sequence[Mapping[str, str]]) -> Html:
    lines = (
        f'<li class="{escape(each["status"])}"><b>{MARKS[each["status"]]}</b>'
        f"{escape(each['sentence'])}</li>"
        for each in findings
    )
    return Html(f'<ul class="verdict">{"".join(lines)}</ul>')


def plot(title: str, name: str, draw: Callable[[Theme], bytes | None]) -> Html:
    """A section with a picture; nothing if there is nothing to draw."""
    drawn: list[bytes] = []

    def render(theme: Theme) -> bytes:
        made = draw(theme)
        if made is not None:
            drawn.append(made)
        return made or b""

    pictures = in_both_themes(render)
    if len(drawn) < len(pictures):
        return Html("")
    return section(title, picture(*pictures, f"{title.lower()} of the world model", CAPTIONS[name]))


def tiles_of(document: Document) -> list[tuple[str, str, str]]:
    closed, found = document["closed_loop"], list[tuple[str, str, str]]()
    frames = closed["frames"]
    explained = frames["changed_explained"]
    if explained is not None:
        shown = f"{100 * explained:.3g} %"
        found.append(("changed pixels", shown, "variance explained one step ahead"))
    if frames["psnr"] is not None:
        found.append(("PSNR", f"{frames['psnr']:.3g} dB", "one step ahead"))
    precision = closed["reward"]["average_precision"]
    if precision is not None:
        base = f"base rate {100 * closed['reward']['base_rate']:.3g} %"
        found.append(("rewards", f"{100 * precision:.3g} %", f"average precision; {base}"))
    correlation = (document["value"] or {}).get("correlation")
    if correlation is not None:
        found.append(("value", f"{correlation:.2g}", "correlation with returns"))
    return found


def tables(document: Document) -> dict[str, dict[str, str]]:
    closed = document["closed_loop"]
    parts: dict[str, Any] = {
        "Reconstruction": document["tokenizer"],
        "Codes": document["codes"],
        "Frames, one step ahead": closed["frames"],
        "Tokens, one step ahead": closed["tokens"],
        "Rewards, one step ahead": closed["reward"],
        "Terminations, one step ahead": closed["termination"],
        "Actions in dreams": document["actions"],
        "Value calibration": document["value"],
        "Policy": document["policy"],
        "Video distance": document.get("video"),
    }
    return {name: numbers(part) for name, part in parts.items() if part}


def numbers(figures: Mapping[str, Any]) -> dict[str, str]:
    """The plain numbers; lists are in the plots, and the file."""
    return {
        name.replace("_", " "): format_number(value) if not isinstance(value, str) else value
        for name, value in figures.items()
        if isinstance(value, int | float | str)
    }
