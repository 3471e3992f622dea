"""Independent jobs, done by this process and, if they take long, by others beside it.

A helper is a new interpreter: a fork would copy the locks of torch's threads in an unknown state,
and multiprocessing's spawn would execute the user's script again. No helper is missed that cannot
start, fails or dies: its job goes back to the others, and this process raises the error if the job
is at fault.
"""

import contextlib
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Hashable, Sequence
from multiprocessing.connection import Connection, wait
from typing import Any, Generic, TypeVar

import torch

PATIENCE = 2.0
"""Seconds of work before helpers are started; to start one takes about as long."""
DISCONNECTED = (EOFError, BrokenPipeError, ConnectionResetError)
Job = TypeVar("Job", bound=Hashable)
Result = TypeVar("Result")
Check = Callable[[], None]
"""Called often within a job; raises if it should stop."""
Work = Callable[[Job, Check], Result]


class Helper(Generic[Job, Result]):
    """A process that makes a `Work` and does one job after the other."""

    def __init__(self, setup: tuple[Any, ...]) -> None:
        self._setup = setup
        self._introduced = False
        self.is_free = False
        self.job: Job | None = None
        self.pipe, far_end = multiprocessing.Pipe()
        code = f"from {__name__} import serve; serve({far_end.fileno()})"
        paths = os.pathsep.join(path or os.getcwd() for path in sys.path)
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-c", code],
            pass_fds=[far_end.fileno()],
            env={**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        far_end.close()

    def give(self, job: Job) -> None:
        self.job, self.is_free = job, False
        self.pipe.send(job)

    def receive(self) -> tuple[Job, Result] | None:
        """Read a message: that it runs, that it is ready, or the result of its job."""
        message = self.pipe.recv()
        if not self._introduced:
            # Sent only now, because a pipe that nobody reads yet would block.
            self.pipe.send(self._setup)
            self._introduced = True
            return None
        job, self.job, self.is_free = self.job, None, True
        return None if job is None else (job, message)

    def close(self) -> None:
        self.pipe.close()
        self._process.kill()
        self._process.wait()


def serve(descriptor: int) -> None:
    """Do jobs until the other end of the pipe is closed."""
    # Ctrl-C reaches all processes of a terminal; only the first one handles it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    torch.set_num_threads(1)
    pipe: Connection[Any, Any] = Connection(descriptor)

    def check() -> None:
        # Nothing is sent within a job: there is something to read only if the pipe is closed.
        if pipe.poll():
            raise EOFError

    try:
        pipe.send("running")
        factory, arguments = pipe.recv()
        work = factory(*arguments)
        pipe.send("ready")
        while True:
            pipe.send(work(pipe.recv(), check))
    except DISCONNECTED:
        return


class Team(Generic[Job, Result]):
    """Jobs, of which this process and at most `helpers` others each take the next."""

    def __init__(
        self,
        jobs: Sequence[Job],
        factory: Callable[..., Work[Job, Result]],
        arguments: Callable[[], tuple[Any, ...]],
        helpers: int,
    ) -> None:
        """A helper calls the factory with the arguments, which are asked for if there are any."""
        self._waiting = list(jobs)
        self._results: dict[Job, Result] = {}
        self._factory = factory
        self._arguments = arguments
        self._wanted = helpers
        self._helpers: list[Helper[Job, Result]] = []
        self._begin = time.monotonic()

    def run(self, work: Work[Job, Result], check: Check) -> dict[Job, Result]:
        """The result of each job."""

        def tend_and_check() -> None:
            self._tend()
            check()

        try:
            while self._waiting or self._busy():
                if self._waiting:
                    job = self._waiting.pop(0)
                    self._results[job] = work(job, tend_and_check)
                else:
                    self._tend(0.05)
                    check()
        finally:
            for helper in self._helpers:
                helper.close()
        return self._results

    def _busy(self) -> bool:
        return any(helper.job is not None for helper in self._helpers)

    def _tend(self, seconds: float = 0.0) -> None:
        """Read what helpers have sent, waiting for that long, and give the free ones a job."""
        if self._wanted and self._waiting and time.monotonic() - self._begin > PATIENCE:
            self._start()
        if not self._helpers:
            return
        ready = wait([helper.pipe for helper in self._helpers], seconds)
        for helper in list(self._helpers):
            try:
                self._exchange(helper, helper.pipe in ready)
            except DISCONNECTED:
                self._helpers.remove(helper)
                helper.close()
                if helper.job is not None:
                    self._waiting.insert(0, helper.job)

    def _start(self) -> None:
        count, self._wanted = min(self._wanted, len(self._waiting)), 0
        setup = (self._factory, self._arguments())
        # Without memory or processes to spare, this process works alone.
        with contextlib.suppress(OSError):
            for _ in range(count):
                self._helpers.append(Helper(setup))

    def _exchange(self, helper: Helper[Job, Result], has_message: bool) -> None:
        if has_message:
            done = helper.receive()
            if done is not None:
                self._results[done[0]] = done[1]
        if helper.is_free and self._waiting:
            helper.give(self._waiting.pop(0))


def cores() -> int:
    """Cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
