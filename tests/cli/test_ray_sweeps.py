"""`tokenworlds sweep --engine ray` with a real Ray on this machine."""

import os
import signal
from pathlib import Path

import pytest
from ray_sweeps import (
    files_of,
    sweep_words,
    sweeping,
    trainer_of,
    wait_for,
    worker_of,
)
from tiny_runs import STEPS, newest_checkpoint

from tokenworlds.cli import main

pytest.importorskip("ray", reason="needs the extra ray")


def test_a_run_whose_worker_is_killed_goes_on_and_ends_as_if_alone(finished: Path) -> None:
    run = Path("sw/step-vq-m-catch-s0")
    with sweeping(sweep_words(steps=STEPS)) as sweep:
        wait_for(lambda: (run / "run.json").exists(), "first checkpoint", sweep)
        trainer = trainer_of(run)
        assert trainer is not None
        os.kill(worker_of(trainer), signal.SIGKILL)
        out, _ = sweep.communicate()
    assert sweep.returncode == 0, out
    assert "waiting   step-vq-m-catch-s0: its worker was lost (ActorDiedError)" in out
    log = Path("sw/logs/step-vq-m-catch-s0.log").read_text()
    assert "Stopped at step" in log, log
    assert files_of(newest_checkpoint(run)) == files_of(newest_checkpoint(finished))


def test_an_unreachable_cluster_is_one_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["sweep", "--engine", "ray", "--address", "127.0.0.1:1", "--runs", "sw"]
    assert main(words) == 2
    err = capsys.readouterr().err
    assert "Ray at 127.0.0.1:1 cannot be reached: " in err
    assert err.count("\n") == 1
