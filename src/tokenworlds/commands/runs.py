"""`tokenworlds runs`."""

import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from tyro.conf import Positional, arg

from tokenworlds.commands.options import Json
from tokenworlds.core.errors import UserError

if TYPE_CHECKING:
    from tokenworlds.evaluation.comparison.listing import Listed

UNITS = ((86400.0, "d"), (3600.0, "h"), (60.0, "min"), (1.0, "s"))
HEADINGS = ("run", "state", "steps", "last score", "changed")


@dataclass(frozen=True, kw_only=True)
class Runs:
    """List the runs in a folder: state, progress, last score. Changes nothing."""

    folder: Annotated[str, Positional, arg(metavar="[DIR]")] = "runs"
    """Folder to search."""
    json: Json = False
    """Print one JSON document."""

    def execute(self) -> int:
        from tokenworlds.evaluation.comparison.listing import find_runs, list_run

        folder = Path(self.folder)
        if not folder.is_dir():
            raise UserError(f"{str(folder)!r} is not a folder: name one that holds runs")
        listed = [list_run(path) for path in find_runs(folder)]
        if self.json:
            print(json.dumps([entry(run) for run in listed], indent=2))
        elif listed:
            print("\n".join(table_lines(listed, folder, time.time())))
        else:
            print(f"no runs in {folder}")
        return 0


def entry(run: "Listed") -> dict[str, Any]:
    about, score = run.description, run.score
    described = {"recipe": None, "size": None, "env": None, "protocol": None, "seed": None}
    names = described if about is None else {name: getattr(about, name) for name in described}
    return {
        "path": str(run.path),
        "state": run.state,
        "problem": run.problem or None,
        **names,
        "step": run.step,
        "steps": None if about is None else about.steps,
        "score": None if score is None else score.value,
        "score_kind": None if score is None else score.kind,
        "score_step": None if score is None else score.step,
        "changed": run.changed,
    }


def table_lines(runs: "list[Listed]", folder: Path, now: float) -> list[str]:
    """Columns, and below a damaged or failed run the sentence that says why."""
    rows = [HEADINGS, *(cells(run, folder, now) for run in runs)]
    widths = [max(len(row[i]) for row in rows) for i in range(len(HEADINGS))]
    problems = ["", *(run.problem for run in runs)]
    lines = []
    for row, problem in zip(rows, problems, strict=True):
        left = "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        lines += [left.rstrip(), *([f"  {problem}"] if problem else [])]
    return lines


def cells(run: "Listed", folder: Path, now: float) -> tuple[str, ...]:
    name = str(run.path.relative_to(folder)) if run.path != folder else run.path.name or "."
    about, score = run.description, run.score
    steps = "" if about is None else f"{run.step:,} of {about.steps:,}"
    last = "" if score is None else f"{score.value:.4g} ({score.kind})"
    return name, run.state, steps, last, age(now - run.changed)


def age(seconds: float) -> str:
    for length, unit in UNITS:
        if seconds >= length:
            return f"{seconds / length:.0f} {unit} ago"
    return "now"
