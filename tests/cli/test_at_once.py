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
from tokenworlds.evaluation.results import read_result

pytestmark = pytest.mark.usefixtures("_no_report")
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


def test_evaluations_at_once_leave_a_valid_file_each(finished: Path, tmp_path: Path) -> None:
    """Two of them write the same file, the third another; all have written it before one ends."""
    run = Path(copytree(finished, tmp_path / "run"))
    (run / "evaluation.json").unlink()
    words = [sys.executable, "-c", WAITS_BEFORE_IT_REPLACES_A_FILE, "evaluate", str(run)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    processes = [
        subprocess.Popen([*words, *more], text=True, **pipes)
        for more in ([], [], ["--episodes", "1"])
    ]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "replaces\n"
    assert len(list(run.rglob(".partial-*"))) == 3
    for process in processes:
        out, err = process.communicate("\n")
        assert (process.returncode, err) == (0, "")
        assert "file    " in out
    assert not list(run.rglob(".partial-*"))
    assert (run / "evaluation.json").read_bytes() == (finished / "evaluation.json").read_bytes()
    (other,) = (run / "evaluations").iterdir()
    result = read_result(other)
    assert result is not None
    assert len(result.returns) == 1


class Training:
    """A run that trains in another process; its output tells how far it is."""

    def __init__(self, run: Path, process: "subprocess.Popen[str]") -> None:
        self.run = run
        self._lines = process.stdout or iter(())

    def wait_for_step(self, step: int) -> None:
        found = (re.match(r"step ([\d,]+)/", line) for line in self._lines)
        steps = (int(match[1].replace(",", "")) for match in found if match)
        assert any(reached >= step for reached in steps)

    def pass_two_checkpoints(self) -> None:
        name = (self.run / "checkpoints" / "latest").read_text().strip()
        self.wait_for_step(int(name.removeprefix("step-")) + 32)

    def copy(self, names: Sequence[str], target: Path) -> None:
        """Copy files one after the other; the run saves checkpoints between them."""
        target.mkdir()
        for name in names:
            # A checkpoint may be deleted while it is copied.
            subprocess.run(["cp", "-r", self.run / name, target], stderr=subprocess.DEVNULL)
            self.pass_two_checkpoints()


@contextmanager
def training(run: Path) -> Iterator[Training]:
    words = [sys.executable, "-m", "tokenworlds", *train(run, "evaluation.every=0", steps=10**6)]
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
    copies = [tmp_path / "in-order", tmp_path / "backwards"]
    with training(tmp_path / "run") as run:
        for order, copy in zip((names, names[::-1]), copies, strict=True):
            run.copy(order, copy)
    signal_at(monkeypatch, 0)
    for copy in copies:
        for words in (["evaluate", str(copy), "--episodes", "1"], ["resume", str(copy)]):
            capsys.readouterr()
            code, err = main(words), capsys.readouterr().err
            if code == 2:
                assert str(copy) in sentence(err)
            else:
                assert code == (130 if words[0] == "resume" else 0)
