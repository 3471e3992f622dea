"""The engine that trains runs on a Ray cluster, through a process that is connected to it."""

import contextlib
import importlib.util
import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tokenworlds.core.errors import UserError
from tokenworlds.sweeps.cluster.connection import Settings
from tokenworlds.sweeps.engine import Lost, Refused

LOG = "ray.log"
AHEAD = 1
"""Runs that are queued while all slots are taken: a cluster that grows by itself sees them."""
PAUSE = 5.0
"""Seconds between attempts to reach a cluster that is gone."""
PATIENCE = 600.0
CLOSING = 60.0


class RayTask:
    def __init__(self, number: int, engine: "RayEngine") -> None:
        self.number = number
        self._engine = engine
        self.placed = False
        self.code: int | None = None
        self.problem: Exception | None = None

    @property
    def is_over(self) -> bool:
        return self.code is not None or self.problem is not None

    def is_placed(self) -> bool:
        return self.placed

    def poll(self) -> int | None:
        self._engine.hear()
        if self.problem is not None:
            raise self.problem
        return self.code

    def stop(self) -> None:
        self._engine.order("stop", self)

    def kill(self) -> None:
        self._engine.order("kill", self)
        self.code = -signal.SIGKILL


class RayEngine:
    """At most `jobs` runs at a time, as many as the nodes have resources for.

    A cluster that is gone is looked for again for `PATIENCE` seconds; its runs are lost, and go on
    from their folders.
    """

    def __init__(
        self,
        settings: Settings,
        logs: Path,
        jobs: int | None = None,
        note: Callable[[str], None] = lambda text: None,
    ) -> None:
        if importlib.util.find_spec("ray") is None:
            raise UserError("--engine ray needs Ray: pip install 'tokenworlds[ray]'")
        self._settings, self._logs, self._jobs, self._note = settings, logs, jobs, note
        self._tasks: dict[int, RayTask] = {}
        self._count = 0
        self._slots = 0
        self._ready = False
        self._was_ready = False
        self._gone_since = time.monotonic()
        self._try_after = 0.0
        self._process: subprocess.Popen[str] | None = None
        self._reports: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()

    def has_room(self) -> bool:
        self.hear()
        most = self._slots + AHEAD if self._jobs is None else min(self._jobs, self._slots + AHEAD)
        return self._ready and len(self._tasks) < most

    def start(self, words: Sequence[str], log: Path) -> RayTask:
        log.parent.mkdir(parents=True, exist_ok=True)
        self._count += 1
        task = self._tasks[self._count] = RayTask(self._count, self)
        self.order("start", task, words=list(words), log=str(log.absolute()))
        return task

    def order(self, kind: str, task: RayTask, **values: Any) -> None:
        if self._process is None or self._process.stdin is None or task.is_over:
            return
        # If the process has ended, `hear` finds all its tasks lost.
        with contextlib.suppress(BrokenPipeError):
            line = json.dumps({"do": kind, "id": task.number, **values})
            self._process.stdin.write(f"{line}\n")
            self._process.stdin.flush()

    def hear(self) -> None:
        """Take in all reports, and start the connecting process if there is none."""
        if self._process is None and time.monotonic() >= self._try_after:
            self._connect()
        with contextlib.suppress(queue.Empty):
            while True:
                self._take(self._reports.get_nowait())

    def _connect(self) -> None:
        self._logs.mkdir(parents=True, exist_ok=True)
        with (self._logs / LOG).open("ab") as log:
            # A group of its own: Ctrl-C reaches the sweep alone, which stops its runs in order.
            self._process = subprocess.Popen(
                [
                    *(sys.executable, "-m", "tokenworlds.sweeps.cluster.connection"),
                    self._settings.dump(),
                ],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                env=os.environ,
                text=True,
                start_new_session=True,
            )
        threading.Thread(target=self._read, args=(self._process,), daemon=True).start()

    def _read(self, process: "subprocess.Popen[str]") -> None:
        assert process.stdout is not None
        with process.stdout:
            for line in process.stdout:
                self._reports.put(json.loads(line))
        self._reports.put({"is": "gone"})

    def _take(self, report: dict[str, Any]) -> None:
        match report:
            case {"is": "ready"}:
                self._ready = self._was_ready = True
            case {"is": "slots", "count": count, "nodes": nodes}:
                self._slots = count
                self._tell_slots(count, nodes)
            case {"is": "unreachable", "why": why}:
                self._check_patience(why)
            case {"is": "gone"}:
                self._lose_all()
            case {"id": number}:
                self._take_of(self._tasks[number], report)

    def _take_of(self, task: RayTask, report: dict[str, Any]) -> None:
        """A report of one run."""
        match report:
            case {"is": "placed"}:
                task.placed = True
                return
            case {"is": "ended", "code": code}:
                task.code = code
            case {"is": "lost", "why": why}:
                task.problem = Lost(why)
            case {"is": "refused", "why": why}:
                task.problem = Refused(why)
        del self._tasks[task.number]

    def _tell_slots(self, count: int, nodes: int) -> None:
        machines = "1 node" if nodes == 1 else f"{nodes} nodes"
        if count:
            self._note(f"Ray has room for {count} runs at a time on {machines}")
            return
        needs = f"{self._settings.cpus:g} CPUs and {self._settings.gpus:g} GPUs"
        if not self._settings.address:
            raise UserError(f"a run needs {needs}, which this machine does not have")
        self._note(f"no node of {machines} has {needs}: the runs wait for one")

    def _check_patience(self, why: str) -> None:
        """Raise `UserError` if Ray cannot be reached at first, or not for a long time."""
        where = f"Ray at {self._settings.address}" if self._settings.address else "Ray"
        if not self._was_ready:
            raise UserError(f"{where} cannot be reached: {why}; see {self._logs / LOG}")
        if time.monotonic() > self._gone_since + PATIENCE:
            raise UserError(f"{where} is gone for {PATIENCE / 60:.0f} minutes: {why}")

    def _lose_all(self) -> None:
        """The connection has ended: all its runs go on from their folders."""
        self.close()
        if not self._was_ready:
            raise UserError(f"Ray could not be started; see {self._logs / LOG}")
        if self._ready:
            self._gone_since = time.monotonic()
            self._note("Ray is gone: looking for it again")
        self._ready, self._slots = False, 0
        self._try_after = time.monotonic() + PAUSE
        for task in self._tasks.values():
            task.problem = Lost("Ray is gone", by_run=False)
        self._tasks.clear()

    def close(self) -> None:
        """Disconnect; runs that are still going on save and stop."""
        if self._process is None:
            return
        with contextlib.suppress(BrokenPipeError):
            assert self._process.stdin is not None
            self._process.stdin.close()
        try:
            self._process.wait(CLOSING)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process = None
