"""A Ray actor that trains one run, in the process that the command line would start."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from tokenworlds.sweeps.plan import FILE

SECRETS = ("RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH")
"""What lets others into the cluster is no concern of a run."""


class Worker:
    """Calls come one after the other, on the thread that started the process: the kernel ends the
    run together with this thread."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None

    def begin(
        self, words: Sequence[str], log: str, place: str, variables: Mapping[str, str]
    ) -> str:
        """Start the run in folder `place`; returns why it cannot be started, if so."""
        folder = Path(log).parent.parent
        if not (folder / FILE).is_file():
            return (
                f"{socket.gethostname()} does not see {folder}: --runs takes a folder on storage "
                "that all nodes share"
            )
        kept = {name: value for name, value in os.environ.items() if name not in SECRETS}
        with Path(log).open("ab") as file:
            self._process = subprocess.Popen(
                [
                    *(sys.executable, "-m", "tokenworlds.sweeps.cluster.launch"),
                    *(str(os.getpid()), *words),
                ],
                cwd=place if os.path.isdir(place) else None,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                env={**kept, **variables},
                # Ray may signal the group of a worker.
                start_new_session=True,
            )
        return ""

    def wait(self, seconds: float) -> int | None:
        """The exit code; None if the run is going on after some seconds."""
        if self._process is None:
            return None
        try:
            return self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return None

    def stop(self) -> None:
        """Ask the run to save and stop, as Ctrl-C does."""
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)
