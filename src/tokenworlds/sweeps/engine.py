"""Engines start the runs of a sweep: here as processes of this machine."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, Protocol, runtime_checkable

GIGABYTE = 2**30
MEMINFO = Path("/proc/meminfo")
CGROUP = Path("/sys/fs/cgroup")


class Lost(Exception):
    """A run lost its worker or node, and can go on elsewhere.

    `by_run` is False if all runs were lost at once: then this one cannot be the reason.
    """

    def __init__(self, why: str, by_run: bool = True) -> None:
        super().__init__(why)
        self.by_run = by_run


class Refused(Exception):
    """A worker cannot start a run, for a reason that the user can remove."""


@runtime_checkable
class Task(Protocol):
    """A run that was handed to an engine."""

    def is_placed(self) -> bool:
        """Whether the run has its resources; until then it is queued."""

    def poll(self) -> int | None:
        """The exit code, None while the run is going on.

        `Lost` if it can go on elsewhere, `Refused` if it could not be started.
        """

    def stop(self) -> None:
        """Ask the run to save and stop, as Ctrl-C does."""

    def kill(self) -> None: ...


@runtime_checkable
class Engine(Protocol):
    """Starts runs where there is room: a pool of processes, or a cluster with a shared folder."""

    def has_room(self) -> bool:
        """Whether another run can start now."""

    def start(self, words: Sequence[str], log: Path) -> Task:
        """Start `tokenworlds` with these words; what it prints goes to the log."""

    def close(self) -> None:
        """Give back what the engine holds, once no run is going on."""


class ProcessTask:
    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process

    def is_placed(self) -> bool:
        return True

    def poll(self) -> int | None:
        return self.process.poll()

    def stop(self) -> None:
        if self.poll() is None:
            self.process.send_signal(signal.SIGINT)

    def kill(self) -> None:
        if self.poll() is None:
            self.process.kill()
            self.process.wait()

    @property
    def memory(self) -> tuple[int, int]:
        """Bytes that the process holds now, and the most that it held; 0 where unknown."""
        return memory_of(self.process.pid)


class LocalEngine:
    """At most `jobs` processes of `threads` threads, as long as memory lasts."""

    def __init__(
        self, jobs: int, threads: int, available: Callable[[], int | None] | None = None
    ) -> None:
        self.jobs = jobs
        self.threads = threads
        self._available = available or available_memory
        self._tasks: list[ProcessTask] = []
        self._most = GIGABYTE
        """What a run may need: the most that one has held, at least this."""

    def has_room(self) -> bool:
        self._tasks = [task for task in self._tasks if task.poll() is None]
        return len(self._tasks) < self.jobs and self._has_memory()

    def _has_memory(self) -> bool:
        """Whether memory lasts for another run, after all others have grown as far as any did.

        One run always starts.
        """
        held = [task.memory for task in self._tasks]
        self._most = max([self._most, *(most for _, most in held)])
        available = self._available()
        if available is None or not held:
            return True
        growth = sum(max(self._most - now, 0) for now, _ in held)
        return available - growth >= self._most

    def start(self, words: Sequence[str], log: Path) -> Task:
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("ab") as file:
            task = ProcessTask(self._open(words, file))
        self._tasks.append(task)
        return task

    def close(self) -> None: ...

    def _open(self, words: Sequence[str], file: IO[bytes]) -> subprocess.Popen[bytes]:
        # A group of its own: Ctrl-C reaches the sweep alone, which stops its runs in order.
        return subprocess.Popen(
            [sys.executable, "-m", "tokenworlds", *words],
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            env={**os.environ, "OMP_NUM_THREADS": str(self.threads)},
            start_new_session=True,
        )


def memory_of(process: int) -> tuple[int, int]:
    """Bytes that a process holds now, and the most that it held; 0 where unknown."""
    values = {"VmRSS": 0, "VmHWM": 0}
    try:
        for line in Path(f"/proc/{process}/status").read_text().splitlines():
            name, _, rest = line.partition(":")
            if name in values:
                values[name] = int(rest.split()[0]) * 1024
    except OSError:
        pass
    return values["VmRSS"], values["VmHWM"]


def available_memory() -> int | None:
    """Bytes that new processes can have, within the limit of a container; None where unknown."""
    try:
        lines = MEMINFO.read_text().splitlines()
        free = next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvail"))
    except (OSError, StopIteration, ValueError):
        return None
    try:
        limit = int((CGROUP / "memory.max").read_text())
        used = int((CGROUP / "memory.current").read_text())
    except (OSError, ValueError):
        return free
    return min(free, limit - used)
