"""Sweeps of tiny runs on Ray, in processes of their own; everything listens on loopback only."""

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from tiny_runs import TINY

PATIENCE = 600.0


def wait_for(happened: Callable[[], bool], what: str, sweep: "subprocess.Popen[str]") -> None:
    """Return once it has happened; an error names what did not."""
    end = time.monotonic() + PATIENCE
    while not happened():
        assert sweep.poll() is None, f"the sweep ended before {what}: {sweep.communicate()[0]}"
        assert time.monotonic() < end, f"no {what} in {PATIENCE:.0f} s"
        time.sleep(0.02)


def sweep_words(*words: str, steps: int) -> list[str]:
    fixed = ["--engine", "ray", "--runs", "sw", "--steps", str(steps)]
    return [sys.executable, "-m", "tokenworlds", "sweep", *fixed, *words, "--set", *TINY]


@contextlib.contextmanager
def sweeping(words: list[str], **variables: str) -> Iterator["subprocess.Popen[str]"]:
    """A sweep, which is killed if the test fails: its runs then stop by themselves."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", **variables}
    with subprocess.Popen(words, env=environment, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def has_checkpoint(run: Path, least: int) -> bool:
    found = (run / "checkpoints").glob("step-*")
    return any(int(path.name.removeprefix("step-")) >= least for path in found)


def trainer_of(run: Path) -> int | None:
    """The process that trains a run, if there is one."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            words = path.read_bytes().split(b"\0")
            if b"tokenworlds" in words and str(run.absolute()).encode() in words:
                return int(path.parent.name)
    return None


def parent_of(process: int) -> int:
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("PPid:"))


def worker_of(trainer: int) -> int:
    """The Ray worker of a run: the process between them tells the run that its worker is gone."""
    return parent_of(parent_of(trainer))


def files_of(checkpoint: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(checkpoint.iterdir())}
