"""The table of a sweep: live on a terminal, a line for each change elsewhere."""

import contextlib
import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from rich.console import Console, ConsoleOptions
from rich.live import Live
from rich.text import Text

from tokenworlds.commands.screen import encodes_bars, format_duration
from tokenworlds.sweeps.plan import Job
from tokenworlds.sweeps.pool import Entry
from tokenworlds.sweeps.status import Row, rows, share_done

STOPPING = "all runs save and stop; press Ctrl-C again to kill them"
HEADINGS = ("run", "state", "steps", "return")
REFRESH = 2.0
ORDER = (
    *("running", "elsewhere", "starting", "queued", "failed", "damaged", "stopped", "waiting"),
    "finished",
)
STYLES = {"running": "bold cyan", "failed": "red", "damaged": "red", "finished": "green"}


def table_lines(found: Sequence[Row]) -> list[str]:
    """A line for each run, and below a run that failed the reason; then the sums."""
    table = [HEADINGS, *(cells(row) for row in found)]
    widths = [max(len(line[i]) for line in table) for i in range(len(HEADINGS))]
    lines = []
    for line, problem in zip(table, ["", *(row.problem for row in found)], strict=True):
        text = "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True))
        lines += [text.rstrip(), *([f"  {problem}"] if problem else [])]
    return [*lines, summary(found)]


def cells(row: Row) -> tuple[str, ...]:
    steps = "" if row.steps is None else f"{row.step:,} of {row.steps:,}"
    return row.name, row.state, steps, "" if row.score is None else f"{row.score:.4g}"


def summary(found: Sequence[Row]) -> str:
    counts = {state: sum(row.state == state for row in found) for state in ORDER}
    parts = [f"{count} {state}" for state, count in counts.items() if count]
    return f"{share_done(found):.0%} of all steps; {', '.join(parts)}"


class Lines:
    """Prints a line for each change of a run."""

    def changed(self, entry: Entry) -> None:
        why = f": {entry.reason}" if entry.reason else ""
        print(f"{entry.state:9} {entry.job.name}{why}", flush=True)

    def note(self, text: str) -> None:
        print(text, flush=True)

    def show(self, entries: Sequence[Entry]) -> None: ...

    def stopping(self) -> None:
        with contextlib.suppress(OSError):
            os.write(2, f"{STOPPING}\n".encode())


class LiveTable:
    """Redraws the table as runs go on, those that are under way first."""

    def __init__(self, jobs: Sequence[Job], folder: Path, console: Console) -> None:
        self._jobs, self._folder = jobs, folder
        self._rows: dict[str, Row] = {}
        self._began = time.monotonic()
        self._first_share: float | None = None
        self._due = 0.0
        self._stopping = False
        self._note = ""
        self._live = Live(self, console=console, refresh_per_second=1)

    def __enter__(self) -> "LiveTable":
        self._live.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._live.stop()

    def changed(self, entry: Entry) -> None:
        self._due = 0.0

    def show(self, entries: Sequence[Entry]) -> None:
        """Read the run folders again every few seconds."""
        if time.monotonic() < self._due:
            return
        found = rows(self._jobs, self._folder, self._rows)
        self._rows = {
            row.name: as_known(row, entry) for row, entry in zip(found, entries, strict=True)
        }
        if self._first_share is None:
            self._first_share = share_done(found)
        self._due = time.monotonic() + REFRESH

    def note(self, text: str) -> None:
        self._note = f"{text}; "

    def stopping(self) -> None:
        self._stopping = True

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Text]:
        found = sorted(self._rows.values(), key=lambda row: ORDER.index(row.state))
        # The heading, the sums, the footer and one line for what does not fit.
        room = max(console.height - 4, 1)
        heading, *lines, end = table_lines(found)
        yield Text(heading, style="bold", no_wrap=True, overflow="ellipsis")
        for line in lines[:room]:
            style = next((STYLES[state] for state in STYLES if f" {state} " in f"{line} "), "")
            yield Text(line, style=style, no_wrap=True, overflow="ellipsis")
        if len(lines) > room:
            yield Text(f"and {len(lines) - room} more lines", style="dim")
        yield Text(f"{end}{self._remaining()}", style="bold", no_wrap=True, overflow="ellipsis")
        advice = STOPPING if self._stopping else "Ctrl-C saves and stops all"
        yield Text(f"{self._note}{advice}", style="dim", no_wrap=True, overflow="ellipsis")

    def _remaining(self) -> str:
        """The time left if the sweep goes on as fast as since it was started."""
        share, passed = share_done(list(self._rows.values())), time.monotonic() - self._began
        done = share - (self._first_share or 0.0)
        if done <= 0.0 or share >= 1.0:
            return ""
        return f"; about {format_duration(passed * (1 - share) / done)} left"


def as_known(row: Row, entry: Entry) -> Row:
    """The row of a run folder, with what the sweep knows better."""
    if entry.state in ("waiting", "stopped"):
        return row if row.state in ORDER else replace(row, state=entry.state)
    return replace(row, state=entry.state, problem=entry.reason)


@contextlib.contextmanager
def open_table(jobs: Sequence[Job], folder: Path) -> Iterator[Lines | LiveTable]:
    """The table that suits standard output."""
    console = Console()
    if not console.is_terminal or console.is_dumb_terminal or not encodes_bars(console.encoding):
        yield Lines()
        return
    with LiveTable(jobs, folder, console) as table:
        yield table
