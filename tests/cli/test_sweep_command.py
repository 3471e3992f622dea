"""`tokenworlds sweep` with real runs: stopped, taken up again, extended."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from tiny_runs import TINY

from tokenworlds.cli import main
from tokenworlds.sweeps.plan import read_plan

ONE_THREAD = {**os.environ, "OMP_NUM_THREADS": "1"}


RUNS = [Path(f"sw/step-vq-m-catch-s{seed}") for seed in (0, 1)]


def sweep(*words: str, steps: int) -> list[str]:
    fixed = ["--steps", str(steps), "--runs", "sw", "--jobs", "2"]
    return ["sweep", *fixed, *words, "--set", *TINY]


def interrupt_when_both_log(words: Sequence[str]) -> int:
    """Start a sweep in a process of its own, and send Ctrl-C once both runs have logged."""
    logs = [Path(f"sw/logs/{run.name}.log") for run in RUNS]
    command = [sys.executable, "-m", "tokenworlds", *words]
    with subprocess.Popen(command, env=ONE_THREAD, stdout=subprocess.DEVNULL) as process:
        while process.poll() is None:
            if all(log.exists() and b"step 16" in log.read_bytes() for log in logs):
                process.send_signal(signal.SIGINT)
                break
            time.sleep(0.05)
        return process.wait(timeout=300)


def weights(run: Path) -> bytes:
    newest = sorted((run / "checkpoints").glob("step-*"))[-1]
    return (newest / "weights.safetensors").read_bytes()


def test_a_run_that_fails_is_reported_and_one_that_is_finished_is_skipped(
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = sweep("--grid", "learning.world.length=4,4000", steps=24)
    assert main(words) == 1
    captured = capsys.readouterr()
    assert "1 finished, 1 failed in sw" in captured.out
    failed = "step-vq-m-catch-length=4000-s0"
    assert f"{failed} failed: learning.world.length=4000 does not fit" in captured.err
    assert main(["sweep", "status", "sw"]) == 0
    assert "50% of all steps; 1 failed, 1 finished" in capsys.readouterr().out
    assert main([*words, "--dry-run"]) == 0
    assert "nothing  sw/step-vq-m-catch-length=4-s0" in capsys.readouterr().out
    assert main([*words, "evaluation.final_episodes=2", "--dry-run"]) == 0
    assert "holds another run, made by 'tokenworlds train" in capsys.readouterr().out


def test_a_dry_run_tells_hours_and_disk_of_runs_and_of_the_whole(
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = sweep("--seeds", "0-3", "--grid", "world.tokenizer.codebook.codes=4,8", steps=100_000)
    assert main([*words, "--dry-run"]) == 0
    out = capsys.readouterr().out
    assert "8 runs in sw, 2 at a time" in out
    (each,) = re.findall(r"codes=8-s0 and 3 more like it: about (.+) and at most (.+) each", out)
    assert re.search(
        r"about (.+) of computing on this machine are left, (.+) with 2 at a time", out
    )
    one, all_runs = (
        megabytes(each[1]),
        megabytes(re.findall(r"at most (.+) of disk in all", out)[0]),
    )
    assert all_runs == pytest.approx(8 * one, rel=0.02)
    assert not Path("sw").exists()


def megabytes(text: str) -> float:
    number, unit = text.split()
    return float(number) * {"kB": 1e-3, "MB": 1.0, "GB": 1e3}[unit]


def test_environments_of_a_benchmark_and_their_options_are_runs(
    capsys: pytest.CaptureFixture[str],
) -> None:
    pytest.importorskip("ale_py")
    options = ["--env-set", "frame_skip=2", "--size", "tiny", "--seeds", "0-4", "--slurm"]
    assert main(["sweep", "--envs", "gym:CartPole-v1", "--runs", "sw", *options]) == 0
    jobs = read_plan(Path("sw"))
    assert jobs[4].name == "step-vq-m-gym-CartPole-v1-s4"
    assert "--size tiny" in jobs[4].command
    assert jobs[4].command.endswith("--env-set frame_skip=2")
    assert main(["sweep", "--envs", "atari100k", "--runs", "sw", "--slurm"]) == 0
    assert len(read_plan(Path("sw"))) == 26


@pytest.mark.slow
def test_an_interrupted_and_extended_sweep_equals_single_runs(
    capsys: pytest.CaptureFixture[str],
) -> None:
    # Long enough that neither run is done when the signal arrives.
    assert interrupt_when_both_log(sweep("--seeds", "0-1", steps=400)) == 130
    assert main(["sweep", "status", "sw"]) == 0
    assert "2 stopped" in capsys.readouterr().out
    longer = sweep("--seeds", "0-1", steps=440)
    assert main([*longer, "--dry-run"]) == 0
    words = f"resume   tokenworlds resume {RUNS[1]} --steps 440 --env catch"
    assert words in capsys.readouterr().out
    assert main(longer) == 0
    train = ["train", "--seed", "1", "--steps", "440", "--threads", "1"]
    assert main([*train, "--run", "single", "--set", *TINY]) == 0
    assert weights(RUNS[1]) == weights(Path("single"))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--recipes", "step-vq-n"], "did you mean 'step-vq-t'?"),
        (["--engine", "locale"], "did you mean 'local'?"),
        (["--address", "auto"], "--address needs --engine ray"),
        (["--gpus-per-run", "1"], "--gpus-per-run needs --engine ray or --slurm"),
        (["--engine", "ray", "--gpus-per-run", "-1"], "takes a number of 0 or more, not -1"),
        (["--engine", "ray", "--slurm"], "leave out --engine ray"),
        (["--grid", "world.depth=1,2"], "unknown field of world 'depth'"),
        (["stats", "sw"], "write 'sweep status DIR'"),
        (["status", "sw"], "holds no sweep"),
    ],
)
def test_a_mistake_is_one_sentence_before_anything_starts(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["sweep", *words]) == 2
    err = capsys.readouterr().err
    assert message in err
    assert err.count("\n") == 1
    assert not Path("runs").exists()
