"""Several processes use one run folder at the same time."""

import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from shutil import copytree

import pytest
from tiny_runs import sentence, signal_at, train

from tokenworlds.cli import main

pytestmark = pytest.mark.usefixtures("_no_report")
SAVE_EVERY = 16
SETTINGS = ("evaluation.every=0", f"housekeeping.save_every={SAVE_EVERY}")
WAITS_BEFORE_IT_REPLACES_A_FILE = """
import os, sys
from tokenworlds.cli import main

replace = os.replace

def wait_and_replace(*names):
    print("replaces", flush=True)
    sys.stdin.readline()
    replace(*names)

os.replace = wait_and_replace
sys.exit(main(sys.argv[1:]))
"""


def test_two_evaluations_at_once_leave_a_valid_file(finished: Path, tmp_path: Path) -> None:
    """Both have written their result before one of them gives it its name."""
    run = Path(copytree(finished, tmp_path / "run"))
    (run / "evaluation.json").unlink()
    words = [sys.executable, "-c", WAITS_BEFORE_IT_REPLACES_A_FILE, "evaluate", str(run)]
    pipe = subprocess.PIPE
    processes = [
        subprocess.Popen(words, stdin=pipe, stdout=pipe, stderr=pipe, text=True) for _ in range(2)
    ]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "replaces\n"
    assert len(list(run.glob(".partial-*"))) == 2
    for process in processes:
        out, err = process.communicate("\n")
        assert (process.returncode, err) == (0, "")
        assert f"file    {run / 'evaluation.json'}" in out
    assert not list(run.glob(".partial-*"))
    assert (run / "evaluation.json").read_bytes() == (finished / "evaluation.json").read_bytes()


class Training:
    """A run that trains in another process; its output tells how far it is."""

    def __init__(self, run: Path, process: "subprocess.Popen[str]") -> None:
        self.run = run
        self._lines = process.stdout or iter(())

    def wait_for_step(self, step: int) -> None:
        found = (re.match(r"step ([\d,]+)/", line) for line in self._lines)
        steps = (int(match[1].replace(",", "")) for match in found if match)
        assert any(reached >= step for reached in steps)

    def replace_checkpoints(self) -> None:
        """Wait until the run has deleted the checkpoints that it has now: it keeps two."""
        name = (self.run / "checkpoints" / "latest").read_text().strip()
        self.wait_for_step(int(name.removeprefix("step-")) + 4 * SAVE_EVERY)

    def copy(self, names: Sequence[str], target: Path) -> None:
        """Copy files one after the other, each with other checkpoints."""
        target.mkdir()
        for name in names:
            # A checkpoint may be deleted while it is copied.
            subprocess.run(["cp", "-r", self.run / name, target], stderr=subprocess.DEVNULL)
            self.replace_checkpoints()


@contextmanager
def training(run: Path) -> Iterator[Training]:
    words = [sys.executable, "-m", "tokenworlds", *train(run, *SETTINGS, steps=10**6)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        found = Training(run, process)
        found.wait_for_step(32)
        yield found
        process.send_signal(signal.SIGINT)
        process.communicate()
    assert process.returncode == 130


def test_a_copy_made_while_a_run_trains_opens_or_says_why_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    names = ["run.json", "checkpoints", "replay", "metrics.jsonl"]
    later_replay, earlier_replay = tmp_path / "later-replay", tmp_path / "earlier-replay"
    with training(tmp_path / "run") as run:
        run.copy(names, later_replay)
        run.copy(names[::-1], earlier_replay)
    signal_at(monkeypatch, 0)
    opened = {"evaluate": 0, "resume": 130}
    for copy in (later_replay, earlier_replay):
        for words in (["evaluate", str(copy), "--episodes", "1"], ["resume", str(copy)]):
            capsys.readouterr()
            code, err = main(words), capsys.readouterr().err
            assert code == opened[words[0]] or str(copy) in sentence(err)
    assert "cannot be continued with its replay" in sentence(err)
