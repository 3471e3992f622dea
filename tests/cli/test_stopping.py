"""An interrupted run saves itself, and resumes as if it had not been interrupted."""

import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tiny_runs import STEPS, final_weights, newest_checkpoint, signal_at, stop_run, train

from tokenworlds.cli import main
from tokenworlds.evaluation.episodes import Player

pytestmark = pytest.mark.usefixtures("_no_report")


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_saves_and_prints_how_to_continue(
    number: int,
    code: int,
    finished: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    with monkeypatch.context() as during:
        signal_at(during, 40, number)
        assert main(train(Path("run"))) == code
    assert "Stopped at step 40; continue with: tokenworlds resume run" in capsys.readouterr().out
    assert newest_checkpoint(Path("run")).name == "step-000000040"
    assert main(["resume", "run"]) == 0
    assert final_weights(Path("run")) == final_weights(finished)


@pytest.mark.parametrize("steps", [8, 24, 48, 56])
def test_metrics_and_evaluation_are_the_same_wherever_a_run_was_stopped(
    steps: int, finished: Path
) -> None:
    stop_run(Path("run"), steps)
    assert main(["resume", "run"]) == 0
    for name in ("metrics.jsonl", "evaluation.json"):
        assert Path("run", name).read_bytes() == (finished / name).read_bytes()


def test_an_interrupted_evaluation_is_repeated_after_a_resume(
    finished: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as during:
        during.setattr(Player, "play", interrupted_in(Player.play))
        assert main(train(Path("run"))) == 130
    assert "evaluation/return" not in Path("run/metrics.jsonl").read_text()
    assert main(["resume", "run"]) == 0
    assert Path("run/metrics.jsonl").read_bytes() == (finished / "metrics.jsonl").read_bytes()
    assert final_weights(Path("run")) == final_weights(finished)


def interrupted_in(play: Callable[..., Any]) -> Callable[..., Any]:
    """`play` with Ctrl-C at its start."""

    def played(*arguments: Any) -> Any:
        signal.raise_signal(signal.SIGINT)
        return play(*arguments)

    return played


def test_an_interrupted_final_evaluation_is_repeated_by_resume(
    finished: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as during:
        signal_at(during, STEPS)
        assert main(train(Path("run"))) == 130
    assert not Path("run/evaluation.json").exists()
    assert main(["resume", "run"]) == 0
    same = (finished / "evaluation.json").read_bytes()
    assert Path("run/evaluation.json").read_bytes() == same


def test_the_second_ctrl_c_exits_at_once(
    finished: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with monkeypatch.context() as during:
        signal_at(during, 40, times=2)
        assert main(train(Path("run"))) == 130
    assert capsys.readouterr().err == "tokenworlds: interrupted\n"
    assert newest_checkpoint(Path("run")).name == "step-000000032"
    assert main(["resume", "run"]) == 0
    assert final_weights(Path("run")) == final_weights(finished)


def test_signal_handlers_are_restored(monkeypatch: pytest.MonkeyPatch) -> None:
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    stop_run(Path("run"), 8)
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before


def test_ctrl_c_in_a_separate_process() -> None:
    words = [sys.executable, "-m", "tokenworlds", *train(Path("run"), steps=10**6)]
    with subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        next(line for line in process.stdout if "loss" in line)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate()
    assert process.returncode == 130
    assert "continue with: tokenworlds resume run" in out
    assert "Traceback" not in err
