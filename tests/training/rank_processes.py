"""Start the ranks of a group on this machine, as torchrun does."""

import os
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence

ENDS_WITHIN = 900


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


def start(words: Sequence[str], ranks: int) -> list[subprocess.Popen[str]]:
    """Start a Python command on each rank of a group; a group of one has no variables."""
    port = free_port()
    return [
        subprocess.Popen(
            [sys.executable, *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=variables(rank, ranks, port),
        )
        for rank in range(ranks)
    ]


def variables(rank: int, ranks: int, port: int) -> Mapping[str, str]:
    plain = {**os.environ, "TERM": "dumb", "PYTHONUNBUFFERED": "1", "OMP_NUM_THREADS": "1"}
    if ranks == 1:
        return plain
    place = {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(ranks)}
    return {**plain, **place, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}


def finish(processes: Sequence[subprocess.Popen[str]]) -> list[str]:
    """Wait for the end of all; returns what they printed."""
    texts = [process.communicate(timeout=ENDS_WITHIN) for process in processes]
    for process, (_, errors) in zip(processes, texts, strict=True):
        assert process.returncode == 0, errors[-2000:]
    return [text for text, _ in texts]
