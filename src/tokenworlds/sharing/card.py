"""The model card of a saved agent: README.md with the front matter of the Hugging Face hub."""

import importlib.util
import json
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tokenworlds.agent import CONFIG, WEIGHTS, OpenedAgent
from tokenworlds.core.files import DamagedFile, read_bytes, replace_file
from tokenworlds.envs.catalogue import best_return
from tokenworlds.evaluation.results import FILE, FOLDER, Result, action_selection, read_result
from tokenworlds.runs.events import read_metrics
from tokenworlds.training.trainer import progress_of

CARD, CURVE = "README.md", "curve.png"
LIBRARY = "library_name: tokenworlds"
LONGEST_CARD = 2**20
OWN_LICENSE, UNKNOWN_LICENSE = "mit", "other"
COMPACT = "large weights rounded to bytes, with a scale for each row; without target networks"
UNROUNDED = "; scored before rounding"


@dataclass(frozen=True, kw_only=True, slots=True)
class Card:
    """What a card says of an agent. `source` is where imported weights come from."""

    title: str
    rows: Mapping[str, str]
    license: str
    results: Sequence[Result] = ()
    command: str = ""
    curve: bool = False
    source: str = ""


def write_card(
    folder: Path,
    opened: OpenedAgent,
    license: str = "",
    source: str = "",
    compact: bool = False,
    measured: Sequence[Result] | None = None,
) -> None:
    """Write README.md, and curve.png if the agent's run has metrics.

    `measured` are evaluations of the saved weights; without them the card shows those of the run.

    A README.md that is no card of tokenworlds stays as it is.
    """
    if not replaceable(folder):
        warnings.warn(f"{folder / CARD} is no model card, so it was kept", stacklevel=3)
        return
    results = list(results_of(opened) if measured is None else measured)
    stored = COMPACT + (UNROUNDED if measured is None and results else "")
    curve = write_curve(folder, opened, results)
    own = OWN_LICENSE if opened.run is not None else UNKNOWN_LICENSE
    card = Card(
        title=title_of(opened),
        rows=rows_of(opened) | ({"weights": stored} if compact else {}),
        license=license or own,
        results=results,
        command=command_of(opened),
        curve=curve,
        source=source,
    )
    replace_file(folder / CARD, render(card).encode())


def replaceable(folder: Path) -> bool:
    if not (folder / CARD).exists():
        return True
    return LIBRARY.encode() in read_bytes(folder, CARD, LONGEST_CARD).splitlines()


def title_of(opened: OpenedAgent) -> str:
    recipe, env = opened.agent.recipe, opened.env
    paper = recipe.paper if recipe else "agent"
    name = opened.spec.recipe_name if opened.spec else paper
    return f"{name} on {env.name}" if env else name


def results_of(opened: OpenedAgent) -> Iterator[Result]:
    """The evaluations of the run in which this checkpoint played; damaged ones are left out."""
    run, checkpoint = opened.run, opened.checkpoint
    if run is None or checkpoint is None:
        return
    others = sorted((run.path / FOLDER).glob("step-*.json"))
    for path in (run.path / FILE, *others):
        try:
            result = read_result(path)
        except DamagedFile as error:
            warnings.warn(str(error), stacklevel=4)
            continue
        if result is not None and result.checkpoint == checkpoint.manifest:
            yield result


def write_curve(folder: Path, opened: OpenedAgent, results: Sequence[Result]) -> bool:
    """Draw the learning curve up to the checkpoint; returns whether there is one."""
    run, spec, checkpoint = opened.run, opened.spec, opened.checkpoint
    if run is None or spec is None or checkpoint is None:
        return False
    steps = progress_of(checkpoint).steps
    events = [event for event in read_metrics(run.path)[0] if event["agent_steps"] <= steps]
    if not events or importlib.util.find_spec("matplotlib") is None:
        return False
    from tokenworlds.evaluation.curves import curve_figure
    from tokenworlds.evaluation.pictures import LIGHT, figure_bytes

    final = results[0] if results else None
    best = best_return(spec.env.name)
    figure = curve_figure(events, title_of(opened), best, final, LIGHT)
    replace_file(folder / CURVE, figure_bytes(figure))
    return True


def rows_of(opened: OpenedAgent) -> dict[str, str]:
    """What is known of the agent and of its training."""
    agent, spec, env = opened.agent, opened.spec, opened.env
    count = sum(each.numel() for each in agent.parameters())
    rows = {"paper": agent.recipe.paper if agent.recipe else "", "parameters": f"{count:,}"}
    if env is not None:
        rows |= {"environment": env.name, "protocol": env.protocol}
    if opened.run is None or spec is None or opened.checkpoint is None:
        return rows
    machine = opened.run.machine
    packages = machine.get("packages")
    packages = packages if isinstance(packages, dict) else {}
    return rows | {
        "recipe": f"{spec.recipe_name}, size {spec.size}",
        "agent steps": f"{progress_of(opened.checkpoint).steps:,}",
        "seed": str(spec.seed),
        "precision": spec.precision,
        "commit": str(machine.get("commit") or "unknown"),
        "versions": ", ".join(f"{name} {packages[name]}" for name in sorted(packages)),
    }


def command_of(opened: OpenedAgent) -> str:
    """The command that started the run; empty if it is unknown."""
    command = opened.run.document.get("command") if opened.run else None
    return " ".join(command.split()) if isinstance(command, str) else ""


def render(card: Card) -> str:
    lines = [*front_matter(card), f"# {plain(card.title)}", ""]
    lines += ["An agent of tokenworlds: a world model of discrete tokens and a policy.", ""]
    if card.source:
        lines += [f"Imported from {plain(card.source)}.", ""]
    lines += ["| | |", "|---|---|"]
    lines += [f"| {name} | {plain(value)} |" for name, value in card.rows.items() if value]
    lines += ["", *score_lines(card.results), *curve_lines(card), *use_lines(card)]
    return "\n".join(lines)


def front_matter(card: Card) -> Iterator[str]:
    """The metadata that the hub reads. JSON strings are YAML strings."""
    yield from ("---", LIBRARY, f"license: {json.dumps(card.license)}")
    yield "pipeline_tag: reinforcement-learning"
    yield "tags: [reinforcement-learning, world-model, pytorch]"
    if card.results:
        yield from ("model-index:", f"- name: {json.dumps(card.title)}", "  results:")
    for result in card.results:
        env, score = json.dumps(result.env), result.score
        value = str(score).replace("±", "+/-")
        yield "  - task: {type: reinforcement-learning, name: reinforcement-learning}"
        yield f"    dataset: {{type: {env}, name: {env}}}"
        yield f"    metrics: [{{type: mean_reward, name: mean_reward, value: {json.dumps(value)}}}]"
    yield from ("---", "")


def score_lines(results: Sequence[Result]) -> Iterator[str]:
    """Mean returns with standard errors, and how they were measured."""
    yield "## Scores"
    yield ""
    if not results:
        yield from ("This agent was not evaluated.", "")
        return
    yield "| environment | protocol | episodes | actions | mean return | random policy |"
    yield "|---|---|---:|---|---:|---:|"
    for each in results:
        selection, random = action_selection(each.temperature), each.random_score
        cells = (each.env, each.protocol, each.score.episodes, selection, each.score, random or "")
        yield f"| {' | '.join(plain(str(cell)) for cell in cells)} |"
    yield ""
    for each in results:
        if each.crafter is not None:
            yield from (f"Crafter score: {each.crafter}.", "")


def curve_lines(card: Card) -> list[str]:
    return [f"![Learning curve]({CURVE})", ""] if card.curve else []


def use_lines(card: Card) -> Iterator[str]:
    if card.command:
        # The indented form has no fence that a command could close.
        yield from ("## Training", "", f"    {card.command}", "")
    yield from ("## Use", "", "```python", "import tokenworlds as tw", "")
    yield 'agent = tw.Agent.load("FOLDER")  # or "hub:USER/NAME"'
    yield from ("print(agent.evaluate(episodes=10))", "```", "")
    yield f"`{WEIGHTS}` holds the weights, `{CONFIG}` the recipe. Loading executes nothing."
    yield ""


def plain(text: Any) -> str:
    """Text on one line that Markdown and HTML do not interpret."""
    words = " ".join(str(text).split())[:500]
    return "".join(f"\\{each}" if each in "\\`*[]<>|#" else each for each in words)
