"""A long run whose memory and file handles must stay flat, and the hostile environments.

The trial of the first is the number of steps, that of the second the file with the tests.
"""

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from runs_under_test import LATENT, RUN, command
from trials import Outcome, forked

from tokenworlds.training.loop import Loop

STEPS = 50_000
SETTINGS = (
    *LATENT,
    "num_envs=16",
    'schedule.updates={"world":0.002,"behaviour":0.002}',
    "evaluation.every=5000",
    "housekeeping.log_every=500",
    "housekeeping.save_every=2500",
)
GROWTH = 8 * 2**20
"""Bytes that the last two thirds may add: the records of replay, and what the allocator keeps."""
HOSTILE = Path(__file__).parent.parent / "envs" / "test_hostile.py"


class Soak:
    """One trial: a run of many steps on catch."""

    name = "soak"
    enough = 1

    def __init__(self, workspace: Path, seed: int = 0, steps: int = STEPS) -> None:
        self.workspace = workspace
        self.steps = steps

    def trials(self) -> Iterator[str]:
        yield str(self.steps)

    def run(self, trial: str) -> Outcome:
        row = f"{int(trial):,} steps"
        chosen = ["train", "--run", RUN, "--steps", trial, "--threads", "1", "--set", *SETTINGS]
        with tempfile.TemporaryDirectory(dir=self.workspace) as folder:
            work = command(Path(folder), chosen, 1000)

            def start() -> int:
                measure_at_thirds(int(trial))
                return work()

            end = forked(start, patience=3600.0)
        found = [tuple(map(int, pair)) for pair in re.findall(r"^soak (\d+) (\d+)$", end.err, re.M)]
        if end.code or len(found) != 3:
            return Outcome(row, "failure", end.summary)
        memory, handles = zip(*found, strict=True)
        shown = ", ".join(f"{size / 2**20:.1f} MB and {count} handles" for size, count in found)
        detail = f"soak: anonymous memory at 1/3, 2/3 and the end: {shown}"
        flat = memory[2] - memory[0] <= GROWTH and handles[2] <= handles[0]
        return Outcome(row, "same" if flat else "failure", detail)


def measure_at_thirds(steps: int) -> None:
    """Print anonymous memory and open handles when the loop shows progress at each third."""
    show: Callable[[Loop], None] = Loop._show
    due = [steps // 3, 2 * steps // 3, steps]

    def show_and_measure(loop: Loop) -> None:
        show(loop)
        if due and loop.steps >= due[0]:
            due.pop(0)
            status = Path("/proc/self/status").read_text()
            memory = re.search(r"RssAnon:\s+(\d+) kB", status)
            size = 1024 * int(memory[1]) if memory else 0
            print(f"soak {size} {count_handles()}", file=sys.stderr)

    Loop._show = show_and_measure  # type: ignore[method-assign,assignment]


def count_handles() -> int:
    """Open handles, without the memory maps of replay: their number has a limit of its own."""
    handles = Path("/proc/self/fd").iterdir()
    return sum("/replay/" not in os.path.realpath(handle) for handle in handles)


class Hostile:
    """Environments that lie, hang and die; they have tests of their own, which are run here."""

    name = "hostile"
    enough = 20

    def __init__(self, workspace: Path, seed: int = 0) -> None:
        self.workspace = workspace

    def trials(self) -> Iterator[str]:
        yield HOSTILE.name

    def run(self, trial: str) -> Outcome:
        if not HOSTILE.exists():
            return Outcome("environments (no tests yet)", "skipped")
        words = [sys.executable, "-m", "pytest", str(HOSTILE), "-q", "-p", "no:cacheprovider"]
        end = subprocess.run(words, capture_output=True, text=True, cwd=HOSTILE.parents[2])
        passed, failed = (
            sum(map(int, re.findall(rf"(\d+) {word}", end.stdout))) for word in ("passed", "failed")
        )
        if end.returncode or failed:
            return Outcome("tests of environments", "failure", end.stdout.strip().splitlines()[-1])
        return Outcome("tests of environments", "same", count=passed)
