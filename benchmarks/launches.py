"""Count the launches of every recipe at `paper` size, and write the tables of docs/gpu.md.

    python benchmarks/launches.py [RECIPE ...]     # counts, then writes; all recipes take an hour
    python benchmarks/launches.py --write          # writes from docs/launches.json alone

docs/launches.json holds the counts. `before` are those of dream steps before they were reduced, and
are kept.
"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tokenworlds.benchmarking.launches import DREAM_STEP, count_launches
from tokenworlds.core.types import ActionSpace, FrameShape
from tokenworlds.recipes.catalogue import RECIPES, load

ROOT = Path(__file__).parents[1]
COUNTS, PAGE = ROOT / "docs" / "launches.json", ROOT / "docs" / "gpu.md"
BEGIN, END = "<!-- launches -->\n", "<!-- end of launches -->\n"
ACTIONS = 4


def count(names: list[str]) -> None:
    document = json.loads(COUNTS.read_text())
    for name in names:
        recipe = load(name, "paper").recipe
        shape = FrameShape(recipe.resolution, recipe.resolution, 1 if recipe.grey else 3)
        document["recipes"][name] = {
            each.name: {
                "operations": each.launches.operations,
                "waits": dict(each.launches.waits),
            }
            for each in count_launches(recipe, shape, ActionSpace(ACTIONS))
        }
        COUNTS.write_text(json.dumps(document, indent=1, sort_keys=True) + "\n")


def table(document: dict[str, Any]) -> Iterator[str]:
    yield "| recipe | operations per update | waits per update | dream step before | dream step |"
    yield "|---|---|---|---|---|"
    for name in RECIPES:
        found = document["recipes"].get(name)
        if found is None:
            continue
        updates = {key: each for key, each in found.items() if key != DREAM_STEP}
        operations = [f"{key} {each['operations']:,.0f}" for key, each in updates.items()]
        waits = [f"{key} {sum(each['waits'].values())}" for key, each in updates.items()]
        before = document["before"].get(name)
        after = found.get(DREAM_STEP)
        cells = [
            *(f"`{name}`", ", ".join(operations), ", ".join(waits)),
            *("-" if before is None else f"{before:,.0f}", step_cell(after, before)),
        ]
        yield f"| {' | '.join(cells)} |"


def step_cell(after: dict[str, Any] | None, before: float | None) -> str:
    if after is None:
        return "-"
    share = "" if before is None else f" ({after['operations'] / before:.0%})"
    waits = sum(after["waits"].values())
    return f"{after['operations']:,.0f}{share}" + (f", {waits} waits" if waits else "")


def wait_lines(document: dict[str, Any]) -> Iterator[str]:
    """Each file that waits, and the recipes whose updates do so there."""
    places: dict[str, set[str]] = {}
    for name, found in document["recipes"].items():
        for each in found.values():
            for place in each["waits"]:
                places.setdefault(place.split(":")[0], set()).add(name)
    yield ""
    yield "Files at which an update waits:"
    yield ""
    for place, names in sorted(places.items()):
        everybody = len(names) == len(document["recipes"])
        listed = "every recipe" if everybody else ", ".join(f"`{each}`" for each in sorted(names))
        yield f"- `{place}`: {listed}"


def write() -> None:
    document = json.loads(COUNTS.read_text())
    head, _, rest = PAGE.read_text().partition(BEGIN)
    _, _, tail = rest.partition(END)
    lines = [*table(document), *wait_lines(document)]
    PAGE.write_text(head + BEGIN + "\n" + "\n".join(lines) + "\n\n" + END + tail)


if __name__ == "__main__":
    words = sys.argv[1:]
    if words != ["--write"]:
        count(words or list(RECIPES))
    write()
