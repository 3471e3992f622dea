"""The command line of `scripts/faults`: which sections, for how long, and the table."""

import argparse
import math
import os
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from damaged_runs import DamagedRuns
from fuzzing import Fuzzing
from kills import Kills
from power_loss import PowerLosses
from runs_under_test import BY_NAME, import_everything
from soak import Hostile, Soak
from trials import Section, Table, run_section

SECTIONS: dict[str, tuple[Callable[[Path, int], Section], float, int]] = {
    "kills": (Kills, 0.35, 14),
    "power": (PowerLosses, 0.15, 8),
    "damages": (DamagedRuns, 0.25, 40),
    "fuzz": (Fuzzing, 0.2, 6),
    "hostile": (Hostile, 0.02, 1),
    "soak": (Soak, 0.03, 1),
}
"""By name: the section, its share of the time, and its trials in a selection."""


def main(arguments: Sequence[str] | None = None) -> int:
    options = parse(arguments)
    os.environ["TERM"] = "dumb"
    import_everything()
    table, begin = Table(), time.monotonic()
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as workspace:
        for name in options.only or SECTIONS:
            run(name, Path(workspace), table, options)
    print(*table.lines(), sep="\n")
    command = " ".join(["scripts/faults", *(sys.argv[1:] if arguments is None else arguments)])
    print(f"\n{time.monotonic() - begin:.0f} s, {time.strftime('%-d %B %Y')}, {command}")
    return 1 if table.failures else 0


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="scripts/faults", description=__doc__)
    parser.add_argument("--minutes", type=float, default=20.0, help="time for all sections")
    parser.add_argument("--only", choices=SECTIONS, action="append", help="may be repeated")
    parser.add_argument("--seed", type=int, default=0, help="which trials are chosen")
    parser.add_argument("--few", action="store_true", help="a selection, as in the tests")
    parser.add_argument("--trial", help="repeat one trial of a section")
    parser.add_argument(
        "--case", choices=BY_NAME, help="kill one run at each of its operations, without a limit"
    )
    options = parser.parse_args(arguments)
    if options.case:
        options.only, options.minutes = ["kills"], math.inf
    return options


def run(name: str, workspace: Path, table: Table, options: argparse.Namespace) -> None:
    build, share, few = SECTIONS[name]
    section = build(workspace, options.seed)
    if isinstance(section, Kills) and options.case:
        section.cases = (BY_NAME[options.case],)
    if options.trial is not None:
        table.add(name, options.trial, section.run(options.trial))
        return
    shares = sum(SECTIONS[each][1] for each in options.only or SECTIONS)
    seconds = 60 * options.minutes * share / shares
    run_section(section, table, seconds, few if options.few else None)
    print(f"{name}: {table.total(name):,} trials", file=sys.stderr, flush=True)
    if not (options.few or options.case) and table.total(name) < section.enough:
        table.remarks.append(f"{name}: fewer than {section.enough:,} trials in this time")
