"""Ray clusters on loopback that tests break."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from ray_sweeps import parent_of

VARIABLES = {
    # Listen on loopback only, ask no other server, leave nothing in the home folder.
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_AUTH_MODE": "token",
    "RAY_AUTH_TOKEN": "0123456789abcdef0123456789abcdef",
    "RAY_worker_niceness": "0",
    # Processes that lost the head give up after seconds instead of a minute.
    "RAY_gcs_rpc_server_reconnect_timeout_s": "10",
}
SCRIPT = Path(__file__).with_name("ray_node.py")


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


@dataclass
class Cluster:
    """A head without CPUs and nodes with one each; a new head has new nodes."""

    scratch: Path
    port: int = field(default_factory=free_port)
    heads: list["subprocess.Popen[str]"] = field(default_factory=list)

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def start(self, nodes: int) -> None:
        """Returns once all nodes are there."""
        folder = self.scratch / str(len(self.heads))
        # Where Ray writes the address of the newest cluster.
        (self.scratch / "ray").mkdir(exist_ok=True)
        head = subprocess.Popen(
            [sys.executable, str(SCRIPT), str(self.port), str(folder), str(nodes)],
            env={**os.environ, **VARIABLES, "RAY_TMPDIR": str(self.scratch)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.heads.append(head)
        assert head.stdout is not None
        assert any(line == "ready\n" for line in head.stdout)

    def kill_head(self) -> None:
        """The process that knows all nodes and runs; the nodes find out by themselves."""
        (server,) = children(self.heads[-1].pid, "gcs_server")
        os.kill(server, signal.SIGKILL)

    def close(self) -> None:
        for head in self.heads:
            left = children(head.pid)
            with head:
                head.kill()
            for process in left:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process, signal.SIGKILL)


def children(process: int, name: str = "") -> list[int]:
    """The children of a process whose commands contain a name."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            command = (path / "cmdline").read_bytes()
            if name.encode() in command and parent_of(int(path.name)) == process:
                found.append(int(path.name))
    return found


@contextlib.contextmanager
def cluster(nodes: int) -> Iterator[Cluster]:
    # Paths of sockets are short: not in the folder of the test.
    with tempfile.TemporaryDirectory(prefix="ray-", ignore_cleanup_errors=True) as scratch:
        made = Cluster(Path(scratch))
        try:
            made.start(nodes)
            yield made
        finally:
            made.close()
