"""Where environments run: in this process, or in a process of their own. Both answer alike."""

import contextlib
import multiprocessing
import signal
import traceback
from collections.abc import Sequence
from multiprocessing.connection import Connection
from typing import Any

from tokenworlds.core.errors import UserError
from tokenworlds.envs.serial import Streams
from tokenworlds.envs.spec import EnvSpec

STOP = None
GONE = (EOFError, BrokenPipeError, ConnectionResetError)
"""What a pipe raises when there is nobody at its other end."""
PATIENCE = 5.0
"""Seconds that a worker is given to close its environments."""


class WorkerError(RuntimeError):
    """Something went wrong in a worker; the text holds what it had to say."""


class Here:
    """Environments in this process."""

    def __init__(self, spec: EnvSpec, numbers: Sequence[int], seed: int, evaluation: bool) -> None:
        self._streams = Streams(spec, numbers, seed, evaluation)
        self._answer: Any = None

    def ask(self, method: str, *arguments: Any) -> None:
        """Call a method of `Environments`."""
        self._answer = getattr(self._streams, method)(*arguments)

    def answer(self) -> Any:
        """What the method returned."""
        return self._answer

    def close(self) -> None:
        """Close the environments."""
        self._streams.close()


class Worker:
    """Environments in a child process, which ends when this process does."""

    def __init__(self, spec: EnvSpec, numbers: Sequence[int], seed: int, evaluation: bool) -> None:
        self._name = f"the worker of environments {numbers[0]} to {numbers[-1]}"
        # Spawned: a fork would copy the locks of torch's threads in whatever state they are.
        context = multiprocessing.get_context("spawn")
        self._pipe, far_end = context.Pipe()
        arguments = (far_end, spec, tuple(numbers), seed, evaluation)
        self._process = context.Process(target=serve, args=arguments, daemon=True)
        self._process.start()
        # Held only by the worker, so that each side notices when the other is gone.
        far_end.close()

    def ask(self, method: str, *arguments: Any) -> None:
        """Have a method of `Environments` called, without waiting for it."""
        # What a dead worker died of may still be in the pipe: `answer` reads it.
        with contextlib.suppress(*GONE):
            self._pipe.send((method, arguments))

    def answer(self) -> Any:
        """What the method returned, or the error it raised."""
        try:
            value, error = self._pipe.recv()
        except GONE as gone:
            self._process.join(PATIENCE)
            code = self._process.exitcode
            raise WorkerError(f"{self._name} died (exit code {code})") from gone
        if isinstance(error, UserError):
            raise error
        if error is not None:
            raise WorkerError(f"{self._name} failed:\n{error}")
        return value

    def close(self) -> None:
        """Let the worker close its environments; end it if it does not."""
        with contextlib.suppress(*GONE):
            self._pipe.send(STOP)
        self._pipe.close()
        self._process.join(PATIENCE)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()


def serve(
    pipe: Connection, spec: EnvSpec, numbers: Sequence[int], seed: int, evaluation: bool
) -> None:
    """The life of a worker: answer until told to stop or until nobody listens."""
    # Ctrl-C reaches all processes of a terminal; only the parent is to act on it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        num_envs = Streams(spec, numbers, seed, evaluation)
        while (request := pipe.recv()) is not STOP:
            method, arguments = request
            pipe.send((getattr(num_envs, method)(*arguments), None))
        num_envs.close()
    except GONE:
        return
    except UserError as error:
        pipe.send((None, error))
    except Exception:
        pipe.send((None, traceback.format_exc()))
