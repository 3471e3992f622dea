"""`tokenworlds combinations`."""

import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from tyro.conf import arg

from tokenworlds.commands.options import NO_DEFAULT, Env, Json, Switch

if TYPE_CHECKING:
    from tokenworlds.sweeps.combinations import Table, Verdict

HEADING = """# Combinations of parts

Every combination below was built and trained for a few updates on `{env}`, at size `nano` with
small batches. ✓ trains; a number is the sentence that refuses it, and `show` refuses with the same
one. `tokenworlds combinations{quick} --out docs/combinations.md` makes this page.

A part is chosen by `--set world.tokenizer=fsq world.prior=maskgit`; [extending.md](extending.md)
adds your own. A world is chosen with a recipe, because it comes with its own learners and schedule:
`--set behaviour=ppo` puts another behaviour into it.
"""
WORKS, LEFT_OUT = "✓", "·"


@dataclass(frozen=True, kw_only=True)
class Combinations:
    """Train every combination of parts for a few updates: which work, and why others do not."""

    env: Env = "catch"
    """An environment from 'tokenworlds envs'."""
    quick: Switch = False
    """Leave out most sequence models of the latent world."""
    out: Annotated[str, NO_DEFAULT, arg(metavar="PAGE.md")] = ""
    """Write the tables to a Markdown page."""
    json: Json = False
    """Print one JSON document."""

    def execute(self) -> int:
        from tokenworlds.sweeps.combinations import judge, tables

        judged = []
        for table in tables(self.quick):
            verdicts = []
            for combination in table.combinations:
                verdicts.append(judge(combination, self.env))
                self.progress(verdicts)
            judged.append((table, verdicts))
        self.progress([])
        if self.out:
            Path(self.out).write_text(self.page(judged))
        self.print_result(judged)
        return 0

    def progress(self, verdicts: "Sequence[Verdict]") -> None:
        """The combination that was tried last, on a terminal."""
        if sys.stderr.isatty():
            parts = " ".join(verdicts[-1].combination.parts.values()) if verdicts else ""
            print(f"\r\033[K{len(verdicts) or '':>4} {parts}", end="", file=sys.stderr, flush=True)

    def print_result(self, judged: "Sequence[tuple[Table, list[Verdict]]]") -> None:
        if self.json:
            rows = [as_json(verdict) for _, verdicts in judged for verdict in verdicts]
            print(json.dumps(rows, indent=2))
            return
        for table, verdicts in judged:
            print("\n".join(text_lines(table, verdicts)))
        if self.out:
            print(f"\npage   {self.out}")

    def page(self, judged: "Sequence[tuple[Table, list[Verdict]]]") -> str:
        heading = HEADING.format(env=self.env, quick=" --quick" if self.quick else "")
        parts = ["\n".join(markdown_lines(table, verdicts)) for table, verdicts in judged]
        return "\n".join([heading, *parts])


def as_json(verdict: "Verdict") -> dict[str, Any]:
    return {
        "recipe": verdict.combination.recipe,
        "parts": dict(verdict.combination.parts),
        "works": verdict.works,
        "reason": verdict.reason,
        "shown": verdict.shown,
        "seconds": round(verdict.seconds, 2),
    }


def cells(table: "Table", verdicts: "Sequence[Verdict]") -> tuple[list[list[str]], list[str]]:
    """Rows of marks with their names, and the sentences that numbers refer to."""
    reasons = list(dict.fromkeys(each.reason for each in verdicts if not each.works))
    waiting, rows = iter(verdicts), []
    for name, row in table.rows.items():
        found = [None if each is None else next(waiting) for each in row]
        rows.append([name, *(mark(each, reasons) for each in found)])
    return rows, reasons


def mark(verdict: "Verdict | None", reasons: Sequence[str]) -> str:
    if verdict is None:
        return LEFT_OUT
    return WORKS if verdict.works else str(reasons.index(verdict.reason) + 1)


def text_lines(table: "Table", verdicts: "Sequence[Verdict]") -> Iterator[str]:
    rows, reasons = cells(table, verdicts)
    first = max(len(name.replace("`", "")) for name, *_ in rows) + 2
    yield "\n" + table.title.replace("`", "")
    yield f"  {table.corner:{first}}" + "  ".join(table.columns)
    for name, *marks in rows:
        ends = (f"{each:^{len(column)}}" for each, column in zip(marks, table.columns, strict=True))
        yield f"  {name.replace('`', ''):{first}}" + "  ".join(ends).rstrip()
    yield from (f"  {number}: {text}" for number, text in enumerate(reasons, start=1))


def markdown_lines(table: "Table", verdicts: "Sequence[Verdict]") -> Iterator[str]:
    rows, reasons = cells(table, verdicts)
    yield f"## {table.title}"
    yield ""
    yield f"| {table.corner} | " + " | ".join(f"`{name}`" for name in table.columns) + " |"
    yield "|---|" + ":-:|" * len(table.columns)
    yield from (f"| {' | '.join(row)} |" for row in rows)
    yield ""
    yield from (f"{number}. {text}" for number, text in enumerate(reasons, start=1))
    if reasons:
        yield ""
