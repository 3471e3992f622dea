"""Work through the runs of a sweep. A run that fails takes no other down."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from tokenworlds.core.errors import UserError
from tokenworlds.sweeps.engine import Engine, Lost, Refused, Task
from tokenworlds.sweeps.logs import failure
from tokenworlds.sweeps.plan import LOGS, Job, next_step
from tokenworlds.sweeps.status import row

State = Literal["waiting", "queued", "running", "elsewhere", "finished", "stopped", "failed"]
PAUSE = 0.2
ELSEWHERE = 5.0
"""Seconds between looks at a run that another process trains."""
INTERRUPTED = (130, 143)
MOST_LOSSES = 3
"""How often a run may lose its worker without a new checkpoint."""
UNDER_WAY = ("waiting", "queued", "running", "elsewhere")


@dataclass(slots=True)
class Entry:
    """A run of a sweep: `reason` says why it failed, or why it waits again.

    `losses` counts the workers that it lost one after the other at step `lost_at`.
    """

    job: Job
    state: State = "waiting"
    reason: str = ""
    task: Task | None = None
    look_after: float = 0.0
    losses: int = 0
    lost_at: int = 0


class Pool:
    """Runs jobs on an engine; `changed` is called when a run changes its state."""

    def __init__(
        self,
        jobs: Sequence[Job],
        folder: Path,
        engine: Engine,
        changed: Callable[[Entry], None] = lambda entry: None,
    ) -> None:
        self.entries = [Entry(job) for job in jobs]
        self._folder = folder
        self._engine = engine
        self._changed = changed

    def run(self, should_stop: Callable[[], bool], show: Callable[[], None]) -> None:
        """Until every run is finished or has failed, or the user asks to stop."""
        try:
            while not should_stop() and self.advance():
                show()
                time.sleep(PAUSE)
            self._stop(show)
        finally:
            # Only after an error, or a second Ctrl-C.
            for entry in self._with_tasks():
                entry.task.kill() if entry.task else None

    def advance(self) -> bool:
        """Look after every run once; returns whether there is more to do."""
        for entry in self._with_tasks():
            self._collect(entry)
        for entry in self.entries:
            if entry.state in ("waiting", "elsewhere"):
                self._try_to_start(entry)
        return any(entry.state in UNDER_WAY for entry in self.entries)

    def _with_tasks(self) -> list[Entry]:
        return [entry for entry in self.entries if entry.task is not None]

    def _stop(self, show: Callable[[], None]) -> None:
        """Let all runs save, and wait for them."""
        for entry in self._with_tasks():
            entry.task.stop() if entry.task else None
        while self._with_tasks():
            for entry in self._with_tasks():
                self._collect(entry)
            show()
            time.sleep(PAUSE)

    def _try_to_start(self, entry: Entry) -> None:
        if time.monotonic() < entry.look_after or not self._engine.has_room():
            return
        try:
            step = next_step(entry.job, self._folder)
        except (UserError, OSError) as error:
            self._set(entry, "failed", str(error))
            return
        if step.kind == "nothing":
            self._set(entry, "finished")
        elif step.kind == "wait":
            entry.look_after = time.monotonic() + ELSEWHERE
            self._set(entry, "elsewhere")
        else:
            entry.task = self._engine.start(step.words, self._log(entry))
            self._set(entry, "running" if entry.task.is_placed() else "queued")

    def _collect(self, entry: Entry) -> None:
        """Take note of a run that was placed or has ended."""
        try:
            code = entry.task.poll() if entry.task is not None else None
        except Lost as lost:
            entry.task = None
            self._lose(entry, lost)
            return
        except Refused as error:
            entry.task = None
            self._set(entry, "failed", str(error))
            return
        if code is None:
            if entry.state == "queued" and entry.task is not None and entry.task.is_placed():
                self._set(entry, "running")
            return
        entry.task = None
        if code == 0:
            self._set(entry, "finished")
        elif code in INTERRUPTED:
            self._set(entry, "stopped")
        else:
            self._set(entry, "failed", failure(self._log(entry), code))

    def _lose(self, entry: Entry, lost: Lost) -> None:
        """Wait for another worker, unless the run itself seems to end its workers."""
        if lost.by_run:
            step = row(entry.job, self._folder).step
            entry.losses = entry.losses + 1 if step <= entry.lost_at else 1
            entry.lost_at = step
        if entry.losses > MOST_LOSSES:
            times = f"{entry.losses} times in a row at step {entry.lost_at:,}"
            self._set(entry, "failed", f"{lost}, {times}")
        else:
            self._set(entry, "waiting", str(lost))

    def _log(self, entry: Entry) -> Path:
        return self._folder / LOGS / f"{entry.job.name}.log"

    def _set(self, entry: Entry, state: State, why: str = "") -> None:
        changes = entry.state != state
        entry.state, entry.reason = state, why
        if changes:
            self._changed(entry)
