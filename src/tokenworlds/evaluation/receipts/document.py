"""Fill the generated parts of README.md and docs/results.md.

A part begins with `<!-- results:begin NAME -->` and ends with `<!-- results:end -->`; all other
text is left alone.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from tokenworlds.core import files
from tokenworlds.core.errors import UserError, unknown
from tokenworlds.evaluation.receipts import charts, tables
from tokenworlds.evaluation.receipts.pairs import comparisons
from tokenworlds.evaluation.receipts.plan import Planned, Rates, not_run, rates_of, read_plan
from tokenworlds.evaluation.receipts.receipt import Receipt, read_receipts

RECEIPTS, IMAGES = "results", "docs/images/results"
PAGES = ("README.md", "docs/results.md")
PART = re.compile(r"(<!-- results:begin ([\w-]+) -->\n)(.*?)(<!-- results:end -->)", re.S)
FAMILIES: Mapping[str, tuple[str, Callable[[Sequence[Receipt]], str], str]] = {
    "toys": ("toy", tables.by_game, "tokenworlds train step-vq-m --env catch --seed 0"),
    "minatar": (
        "minatar",
        tables.by_game,
        "tokenworlds train step-vq-m --env minatar:breakout --steps 30000 --seed 0",
    ),
    "atari": (
        "atari",
        tables.atari,
        "tokenworlds train step-vq-m --env atari:Pong --size small --steps 100000 --seed 0",
    ),
    "crafter": (
        "crafter",
        tables.crafter,
        "tokenworlds train dreamer-v3 --env crafter --size 1m --seed 0",
    ),
    "dmc": (
        "dmc",
        tables.by_game,
        "tokenworlds train git-storm --env dmc:cartpole-balance --steps 50000 --seed 0",
    ),
}
"""By the name of a part: the family of environments, its table, and a command that fills it."""


def generated(
    receipts: Sequence[Receipt], plan: Sequence[Planned] = (), rates: Rates | None = None
) -> dict[str, str]:
    """The text of every part."""
    by_family = tables.grouped(receipts)
    parts = {
        name: with_picture(show(by_family[family]), family)
        if family in by_family
        else f"Not run yet: `{command}`"
        for name, (family, show, command) in FAMILIES.items()
    }
    none = "There are no receipts yet."
    return {
        **parts,
        "summary": tables.summary(receipts) if receipts else none,
        "comparisons": comparisons(receipts),
        "runs": tables.runs(receipts, f"../{RECEIPTS}") if receipts else none,
        "not-run": not_run(plan, receipts, rates or {}),
    }


def fill(text: str, parts: Mapping[str, str]) -> str:
    def replaced(found: re.Match[str]) -> str:
        begin, name, _, end = found.groups()
        if name not in parts:
            raise unknown("part of the results", name, parts)
        return f"{begin}\n{parts[name]}\n\n{end}"

    if text.count("<!-- results:begin") != len(PART.findall(text)):
        raise UserError("a generated part has no end: write <!-- results:end --> after it")
    return PART.sub(replaced, text)


def pages(root: Path) -> dict[Path, str]:
    """The pages as the receipts give them."""
    folder = root / RECEIPTS
    receipts = read_receipts(folder)
    parts = generated(receipts, read_plan(folder), rates_of(folder, receipts))
    return {root / name: fill((root / name).read_text(), parts) for name in PAGES}


def with_picture(text: str, family: str) -> str:
    return f"{text}\n\n![Learning curves: thin lines are seeds](images/{RECEIPTS}/{family}.png)"


def pictures(root: Path) -> dict[Path, list[Receipt]]:
    """The receipts that each picture shows."""
    by_family = tables.grouped(read_receipts(root / RECEIPTS))
    shown = [family for family, _, _ in FAMILIES.values() if family in by_family]
    return {root / IMAGES / f"{family}.png": by_family[family] for family in shown}


def update(root: Path) -> list[Path]:
    """Write the pages and pictures that differ; returns them."""
    stale = [(path, text) for path, text in pages(root).items() if path.read_text() != text]
    written = [files.replace_file(path, text.encode()) for path, text in stale]
    for path, receipts in pictures(root).items():
        if not charts.shows(path, receipts):
            path.parent.mkdir(parents=True, exist_ok=True)
            written.append(files.replace_file(path, charts.curve_png(receipts)))
    return written
