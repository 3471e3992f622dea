"""An object in a child process whose methods are called through a pipe."""

import contextlib
import multiprocessing
import signal
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

from tokenworlds.core.errors import UserError
from tokenworlds.envs.boundary import EnvironmentFailed

STOP = None
READY = "ready"
DISCONNECTED = (EOFError, BrokenPipeError, ConnectionResetError)
ANSWER_SECONDS = 120.0
"""How long a worker may take to answer a call."""
CLOSING_SECONDS = 5.0
"""How long a worker may take to close its environments."""


class WorkerError(RuntimeError):
    """An error in a worker process; the message holds its traceback."""


class Worker:
    """An object in a child process, which exits when this process does.

    A child that dies or does not answer within `timeout` seconds raises `EnvironmentFailed`, as do
    the environments in it. The time starts when the child is ready to make the object.
    """

    def __init__(
        self, name: str, factory: Callable[..., Any], *arguments: Any, timeout: float
    ) -> None:
        """`name` is the subject of the sentence that reports a failure."""
        self._name = name
        self._timeout = timeout
        self._is_ready = False
        # Spawned: a fork would copy the locks of torch's threads in an unknown state.
        context = multiprocessing.get_context("spawn")
        self._pipe, far_end = context.Pipe()
        self._process = context.Process(
            target=serve, args=(far_end, factory, arguments), daemon=True
        )
        try:
            self._process.start()
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            raise UserError(f"{name}: cannot start a process ({reason})") from error
        # Only the worker holds its end, so that each side notices when the other exits.
        far_end.close()

    def call(self, method: Callable[..., Any], *arguments: Any) -> None:
        """Start a call of a method of the object."""
        # The error of a worker that died may still be in the pipe, where `result` reads it.
        with contextlib.suppress(*DISCONNECTED):
            self._pipe.send((method, arguments))

    def result(self, patience: float = 1.0) -> Any:
        """Wait for the call, `patience` times as long as usual; return its result or raise."""
        try:
            if not self._is_ready:
                self._is_ready = self._pipe.recv() == READY
            self._wait(self._timeout * patience)
            value, error, text = self._pipe.recv()
        except DISCONNECTED as disconnected:
            raise EnvironmentFailed(f"{self._name} died ({self._exit()})") from disconnected
        if error is not None:
            raise error from WorkerError(text)
        if text:
            raise WorkerError(f"{self._name} failed:\n{text}")
        return value

    def _wait(self, seconds: float) -> None:
        if self._pipe.poll(seconds):
            return
        self._process.kill()
        raise EnvironmentFailed(f"{self._name} did not answer within {seconds:g} s")

    def _exit(self) -> str:
        self._process.join(CLOSING_SECONDS)
        code = self._process.exitcode
        hint = ": killed, perhaps for lack of memory" if code == -signal.SIGKILL else ""
        return f"exit code {code}{hint}"

    def close(self) -> None:
        """Let the worker close its environments; kill it if that takes too long."""
        with contextlib.suppress(*DISCONNECTED):
            self._pipe.send(STOP)
        self._pipe.close()
        self._process.join(CLOSING_SECONDS)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()


def serve(pipe: Connection, factory: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    """Run the calls of a `Worker` until it stops or its process exits."""
    # Ctrl-C reaches all processes of a terminal; only the parent handles it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        pipe.send(READY)
        served = factory(*arguments)
        while (request := pipe.recv()) is not STOP:
            method, given = request
            pipe.send((method(served, *given), None, ""))
        served.close()
    except DISCONNECTED:
        return
    except Exception as error:
        sentence = error if isinstance(error, UserError) else None
        with contextlib.suppress(*DISCONNECTED):
            pipe.send((None, sentence, traceback.format_exc()))
