"""Trials of the fault harness: a command in a forked process, its outcome, and the table of all.

A process needs seconds to import torch. The harness imports everything once and forks a process for
every trial. A trial is named by a text from which it can be repeated.
"""

import contextlib
import os
import select
import signal
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol

Kind = Literal["same", "announced", "sentence", "failure", "skipped"]
CRASHED = 70
"""The exit code of a trial that raised an exception."""
PATIENCE = 120.0
"""Seconds after which a trial counts as hanging."""


@dataclass(frozen=True, slots=True)
class Ended:
    """How a process ended: `code` is negative if a signal ended it, as in `subprocess`."""

    code: int
    out: str
    err: str
    seconds: float

    @property
    def killed(self) -> bool:
        return self.code == -signal.SIGKILL

    @property
    def noted(self) -> bool:
        """Whether the command announced something: a note, or a warning of Python."""
        return "note: " in self.out + self.err or "Warning: " in self.err

    @property
    def one_sentence(self) -> bool:
        """Whether the command ended with exit code 2 and one line about the error."""
        lines = [line for line in self.err.splitlines() if not line.startswith("note: ")]
        return self.code == 2 and len(lines) == 1 and lines[0].startswith("tokenworlds: ")

    @property
    def summary(self) -> str:
        lines = (self.err or self.out).strip().splitlines()
        return f"exit code {self.code}: {lines[-1] if lines else 'no output'}"[:300]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a trial showed; it counts as `count` trials in the line `row` of the table.

    Some trials try many inputs, of which further ones, `sentences`, ended in one sentence.
    """

    row: str
    kind: Kind
    detail: str = ""
    count: int = 1
    sentences: int = 0


class Section(Protocol):
    """One kind of fault. `trials` gives texts without end or until all were given."""

    name: str
    enough: int
    """How many trials are promised."""

    def trials(self) -> Iterator[str]: ...

    def run(self, trial: str) -> Outcome: ...


@dataclass
class Table:
    """Counts of outcomes by row, and a reproduction of each failure."""

    counts: dict[str, Counter[Kind]] = field(default_factory=dict)
    failures: dict[str, list[str]] = field(default_factory=dict)
    """Commands that repeat a failure, by what it showed."""
    remarks: list[str] = field(default_factory=list)

    def add(self, section: str, trial: str, outcome: Outcome) -> None:
        row = f"{section}: {outcome.row}"
        counts = self.counts.setdefault(row, Counter())
        counts[outcome.kind] += outcome.count
        counts["sentence"] += outcome.sentences
        if outcome.kind == "failure":
            command = f"scripts/faults --only {section} --trial '{trial}'"
            self.failures.setdefault(outcome.detail, []).append(command)
        elif outcome.detail and outcome.detail not in self.remarks:
            self.remarks.append(outcome.detail)

    def total(self, section: str) -> int:
        """All trials of a section that were not skipped."""
        found = [counts for row, counts in self.counts.items() if row.startswith(f"{section}: ")]
        return sum(counts.total() - counts["skipped"] for counts in found)

    def lines(self) -> Iterator[str]:
        """The table as Markdown, then remarks and failures."""
        yield "| what | trials | same | announced | one sentence | failures |"
        yield "|---|---|---|---|---|---|"
        for row, counts in self.counts.items():
            if counts["skipped"]:
                yield f"| {row} | skipped | | | | |"
                continue
            kinds: tuple[Kind, ...] = ("same", "announced", "sentence", "failure")
            numbers = [counts.total(), *(counts[kind] for kind in kinds)]
            yield f"| {row} | {' | '.join(f'{number:,}' for number in numbers)} |"
        if self.remarks:
            yield ""
        yield from self.remarks
        for detail, commands in self.failures.items():
            more = f" (and {len(commands) - 1} more)" if len(commands) > 1 else ""
            yield f"\nFAILED  {commands[0]}{more}\n    {detail}"


def run_section(section: Section, table: Table, seconds: float, most: int | None = None) -> None:
    """Run trials until the time is up, or `most` of them have run."""
    deadline = time.monotonic() + seconds
    for number, trial in enumerate(section.trials()):
        if time.monotonic() > deadline or number == most:
            break
        table.add(section.name, trial, section.run(trial))


def forked(
    work: Callable[[], int], kill_after: float | None = None, patience: float = PATIENCE
) -> Ended:
    """Run a function in a forked process; its result is the exit code."""
    sys.stdout.flush()
    sys.stderr.flush()
    captured = [os.memfd_create("out"), os.memfd_create("err")]
    begin = time.monotonic()
    process = os.fork()
    if not process:
        end_process(work, captured)
    code = wait(process, kill_after, patience)
    seconds = time.monotonic() - begin
    out, err = (read_all(descriptor) for descriptor in captured)
    return Ended(code, out, err, seconds)


def end_process(work: Callable[[], int], captured: list[int]) -> None:
    """The life of a forked process; its output goes to the captured descriptors."""
    code = CRASHED
    try:
        for descriptor, target in zip(captured, (1, 2), strict=True):
            os.dup2(descriptor, target)
        # The objects of a test may be those that capture its output.
        sys.stdout, sys.stderr = (open(target, "w", closefd=False) for target in (1, 2))  # noqa: SIM115
        code = work()
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else CRASHED
    except BaseException:
        traceback.print_exc()
    finally:
        with contextlib.suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


def wait(process: int, kill_after: float | None, patience: float) -> int:
    """Wait for a process, which is killed after a time; returns its exit code."""
    ready = os.pidfd_open(process)
    try:
        limit = patience if kill_after is None else kill_after
        if not select.select([ready], [], [], limit)[0]:
            os.kill(process, signal.SIGKILL)
            if kill_after is None:
                os.waitpid(process, 0)
                return -signal.SIGALRM
        return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
    finally:
        os.close(ready)


def read_all(descriptor: int) -> str:
    with open(descriptor, "rb") as file:
        file.seek(0)
        return file.read().decode(errors="replace")


def snapshot(folder: Path) -> dict[str, bytes]:
    """The content of every regular file below a folder, by relative path."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not path.is_symlink()
    }
