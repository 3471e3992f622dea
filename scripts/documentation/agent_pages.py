"""Fill the generated parts of docs/agents: settings, parameters, published and own scores.

A part begins with `<!-- agent:begin KIND NAME... -->` and ends with `<!-- agent:end -->`; all other
text is left alone. `make results` runs this.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from tokenworlds.agent import Agent
from tokenworlds.commands.show import leaves
from tokenworlds.core import files
from tokenworlds.core.description import to_json
from tokenworlds.core.errors import UserError, unknown
from tokenworlds.core.types import ActionSpace, FrameShape
from tokenworlds.evaluation.comparison.elements import NOTHING, number
from tokenworlds.evaluation.literature import Aggregate, Selection
from tokenworlds.evaluation.receipts import tables
from tokenworlds.evaluation.receipts.document import RECEIPTS
from tokenworlds.evaluation.receipts.receipt import read_receipts
from tokenworlds.published import Score, agent_names
from tokenworlds.published.lookup import BENCHMARKS, RETURNS
from tokenworlds.recipes.catalogue import load
from tokenworlds.runs.recipe import Recipe
from tokenworlds.training.summary import parameter_tree

ROOT = Path(__file__).resolve().parents[2]
PAGES = ROOT / "docs" / "agents"
PART = re.compile(r"(<!-- agent:begin ([^\n]+?) -->\n)(.*?)(<!-- agent:end -->)", re.S)
SIZES = ("paper", "small", "tiny", "nano")
ENV, ACTIONS = "atari:Pong", ActionSpace(6)
"""Where settings and parameters are shown; other families of environments change some."""
STATISTICS = {
    "mean": "mean",
    "median": "median",
    "iqm": "IQM over runs",
    "iqm_of_task_means": "IQM over task means",
    "superhuman": "superhuman",
}


def settings(name: str) -> str:
    """All settings at `paper`; at the other sizes those that differ."""
    by_size = {size: dict(leaves(to_json(recipe_of(name, size)), ())) for size in SIZES}
    paths = dict.fromkeys(path for values in by_size.values() for path in values)
    rows = [[f"`{path}`", *cells(path, by_size)] for path in paths]
    title = f"All settings of <code>{name}</code> on Atari, by size"
    return folded(title, tables.table(["setting", *SIZES], rows))


def cells(path: str, by_size: Mapping[str, Mapping[str, str]]) -> Iterator[str]:
    paper = by_size["paper"].get(path, NOTHING)
    yield shown(paper)
    for size in SIZES[1:]:
        value = by_size[size].get(path, NOTHING)
        yield "" if value == paper else shown(value)


def shown(value: str) -> str:
    return value if value == NOTHING else f"`{value}`"


def parameters(name: str) -> str:
    """Trainable parameters of the components at every size."""
    counted = {size: components(parameter_tree(build(recipe_of(name, size)))) for size in SIZES}
    parts = dict.fromkeys(part for counts in counted.values() for part in counts)
    rows = [[part, *(count_text(counted[size].get(part)) for size in SIZES)] for part in parts]
    return tables.table([f"trainable parameters of `{name}`", *SIZES], rows)


def count_text(count: int | None) -> str:
    return NOTHING if count is None else f"{count:,}"


def components(tree: Mapping[str, Any]) -> dict[str, int]:
    """World and behaviour, the parts of the world, and the sum."""
    found: dict[str, int] = {}
    for name, part in tree.items():
        if name == "total":
            continue
        inner = part if isinstance(part, Mapping) else {}
        if name == "world":
            found |= {f"world: {key}": total(item) for key, item in inner.items() if key != "total"}
        else:
            found[name] = total(part)
    return {**found, "all": total(tree)}


def total(part: int | Mapping[str, Any]) -> int:
    return int(part["total"] if isinstance(part, Mapping) else part)


def build(recipe: Recipe) -> Agent:
    """The agent without memory for its weights."""
    shape = FrameShape(recipe.resolution, recipe.resolution, 1 if recipe.grey else 3)
    with torch.device("meta"):
        return Agent.build(recipe, shape, ACTIONS)


def recipe_of(name: str, size: str) -> Recipe:
    return load(name, size, ENV).recipe


def published(*agents: str) -> str:
    """Aggregates of each benchmark with their sources, then the scores of the tasks."""
    texts = [of_benchmark(name, agents) for name in BENCHMARKS.values()]
    return "\n\n".join(text for text in texts if text) or "No paper reports scores of this agent."


def of_benchmark(benchmark: str, agents: Sequence[str]) -> str:
    selections = [Selection(benchmark, agent) for agent in agents]
    found = [of for selection in selections for of in selection.aggregates()]
    scores = [score for selection in selections for score in selection.scores()]
    scores = [score for score in scores if score.metric in RETURNS and not score.derived]
    parts = [aggregate_table(found)] if found else []
    parts += [score_table(benchmark, scores)] if scores else []
    return "\n\n".join([f"**`{benchmark}`**", *parts]) if parts else ""


def aggregate_table(found: Sequence[Aggregate]) -> str:
    shown = {
        name: label for name, label in STATISTICS.items() if any(name in of.values for of in found)
    }
    rows = [
        [
            agent_names()[of.agent],
            of.basis,
            *(statistic(of, name) for name in shown),
            of.table.source,
        ]
        for of in found
    ]
    return tables.table(["agent", "basis", *shown.values(), "source"], rows)


def statistic(of: Aggregate, name: str) -> str:
    value = of.values.get(name)
    if value is None:
        return NOTHING
    return (
        f"{value:.0f}"
        if name == "superhuman"
        else f"{value:,.3f}"
        if value < 20
        else f"{value:,.1f}"
    )


def score_table(benchmark: str, scores: Sequence[Score]) -> str:
    """A row for each task, a column for each agent and source; quotations are left out."""
    own = [score for score in scores if not score.quoted] or list(scores)
    columns = dict.fromkeys((score.agent, score.table.source) for score in own)
    by_cell = {(score.task, score.agent, score.table.source): score.value for score in own}
    tasks = sorted({score.task for score in own})
    rows = [
        [task, *(value_text(by_cell.get((task, *column))) for column in columns)] for task in tasks
    ]
    several = len({agent for agent, _ in columns}) > 1
    heads = [
        f"{agent_names()[agent]}: {source}" if several else source for agent, source in columns
    ]
    if len(tasks) == 1:
        return tables.table(["task", *heads], rows)
    return folded(f"Mean returns of <code>{benchmark}</code>", tables.table(["task", *heads], rows))


def value_text(value: float | None) -> str:
    return NOTHING if value is None else number(value)


def own(*names: str) -> str:
    """The receipts of recipes."""
    found = [receipt for receipt in read_receipts(ROOT / RECEIPTS) if receipt.recipe in names]
    if not found:
        return f"There are no receipts of {' and '.join(f'`{name}`' for name in names)} yet."
    return tables.summary(found)


def folded(title: str, text: str) -> str:
    """Text that a click unfolds, on the site and on GitHub."""
    return f'<details markdown="1">\n<summary>{title}</summary>\n\n{text}\n\n</details>'


KINDS: Mapping[str, Callable[..., str]] = {
    "settings": settings,
    "parameters": parameters,
    "published": published,
    "own": own,
}


def fill(text: str) -> str:
    """A page with its parts made anew."""

    def replaced(found: re.Match[str]) -> str:
        begin, words, _, end = found.groups()
        kind, *names = words.split()
        if kind not in KINDS:
            raise unknown("part of an agent's page", kind, KINDS)
        return f"{begin}\n{KINDS[kind](*names)}\n\n{end}"

    if text.count("<!-- agent:begin") != len(PART.findall(text)):
        raise UserError("a generated part has no end: write <!-- agent:end --> after it")
    return PART.sub(replaced, text)


def pages() -> dict[Path, str]:
    """The pages as recipes, published tables and receipts give them."""
    return {path: fill(path.read_text()) for path in sorted(PAGES.glob("*.md"))}


def update() -> list[Path]:
    """Write the pages that differ; returns them."""
    stale = {path: text for path, text in pages().items() if path.read_text() != text}
    return [files.replace_file(path, text.encode()) for path, text in stale.items()]
