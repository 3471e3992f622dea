"""`tokenworlds sweep --slurm`: the script is executed as SLURM would, without SLURM."""

import os
import signal
import subprocess
from pathlib import Path

import pytest
from ray_sweeps import files_of, wait_for
from tiny_runs import STEPS, TINY, newest_checkpoint

from tokenworlds.cli import main

SCRIPT = Path("sw/sweep.sbatch")
RUN = Path("sw/step-vq-m-catch-s0")


def write_script(*words: str) -> str:
    fixed = ["sweep", "--slurm", "--runs", "sw", "--steps", str(STEPS), *words]
    assert main([*fixed, "--set", *TINY]) == 0
    return SCRIPT.read_text()


def start_task(index: int) -> "subprocess.Popen[str]":
    """Execute the script for an index of the array; `scontrol` writes what it is asked."""
    tools = Path("tools")
    tools.mkdir(exist_ok=True)
    scontrol = tools / "scontrol"
    scontrol.write_text('#!/bin/sh\necho "$@" >asked\n')
    scontrol.chmod(0o755)
    variables = {"SLURM_ARRAY_TASK_ID": str(index), "SLURM_ARRAY_JOB_ID": "7"}
    path = f"{tools.absolute()}:{os.environ['PATH']}"
    environment = {**os.environ, **variables, "PATH": path}
    command = ["bash", str(SCRIPT)]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)


def test_a_task_saves_before_its_time_is_over_and_goes_on_exactly(finished: Path) -> None:
    write_script("--seeds", "1,0")
    with start_task(1) as task:
        wait_for((RUN / "run.json").exists, "first checkpoint", task)
        task.send_signal(signal.SIGUSR1)
    assert task.returncode == 143
    assert Path("asked").read_text() == "requeue 7_1\n"
    with start_task(1) as task:
        pass
    assert task.returncode == 0
    assert files_of(newest_checkpoint(RUN)) == files_of(newest_checkpoint(finished))
    assert not Path("sw/step-vq-m-catch-s1").exists()


def test_the_array_has_a_task_for_each_run_with_its_resources(
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = ["--seeds", "0-4", "--jobs", "3", "--cpus-per-run", "4", "--gpus-per-run", "1"]
    text = write_script(*words)
    for line in ("array=0-4%3", "cpus-per-task=4", "gpus-per-task=1", "requeue"):
        assert f"#SBATCH --{line}\n" in text
    assert subprocess.run(["bash", "-n", str(SCRIPT)], check=False).returncode == 0
    assert capsys.readouterr().out == f"5 runs: sbatch --time=HH:MM:SS {SCRIPT.absolute()}\n"
    assert main(["sweep", "status", "sw"]) == 0
    assert "0% of all steps; 5 waiting" in capsys.readouterr().out
    with start_task(5) as task:
        pass
    assert task.returncode == 2


def test_a_share_of_a_card_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sweep", "--slurm", "--gpus-per-run", "0.5"]) == 2
    assert "--slurm takes whole GPUs, not --gpus-per-run 0.5" in capsys.readouterr().err
