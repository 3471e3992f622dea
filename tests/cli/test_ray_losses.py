"""Sweeps on a Ray cluster that loses a node or its head."""

import os
import signal
from pathlib import Path

import pytest
from ray_clusters import VARIABLES, Cluster, cluster
from ray_sweeps import (
    files_of,
    parent_of,
    sweep_words,
    sweeping,
    trainer_of,
    wait_for,
    worker_of,
)
from tiny_runs import TINY, newest_checkpoint

from tokenworlds.cli import main

pytest.importorskip("ray", reason="needs the extra ray")
RUNS = [Path(f"sw/step-vq-m-catch-s{seed}") for seed in (0, 1)]
STEPS = 1_200
pytestmark = pytest.mark.slow


def words_of(made: Cluster) -> list[str]:
    return sweep_words("--address", made.address, "--seeds", "0-1", steps=STEPS)


def both_train() -> bool:
    return all((run / "run.json").exists() for run in RUNS)


def check_against_single_runs() -> None:
    for seed, run in enumerate(RUNS):
        single = Path(f"single-{seed}")
        words = ["--seed", str(seed), "--steps", str(STEPS), "--threads", "1"]
        assert main(["train", "--run", str(single), *words, "--set", *TINY]) == 0
        assert files_of(newest_checkpoint(run)) == files_of(newest_checkpoint(single))


def test_runs_of_a_lost_node_go_on_elsewhere_and_end_as_if_alone() -> None:
    with cluster(nodes=2) as made, sweeping(words_of(made), **VARIABLES) as sweep:
        wait_for(both_train, "first checkpoints", sweep)
        trainer = trainer_of(RUNS[0])
        assert trainer is not None
        raylet = parent_of(worker_of(trainer))
        assert b"raylet" in Path(f"/proc/{raylet}/cmdline").read_bytes()
        os.kill(raylet, signal.SIGKILL)
        out, _ = sweep.communicate()
    assert sweep.returncode == 0, out
    assert "waiting   step-vq-m-catch-s0: " in out
    check_against_single_runs()


def test_a_sweep_outlives_a_restart_of_the_head() -> None:
    with cluster(nodes=2) as made, sweeping(words_of(made), **VARIABLES) as sweep:
        wait_for(both_train, "first checkpoints", sweep)
        made.kill_head()
        made.start(nodes=2)
        out, _ = sweep.communicate()
    assert sweep.returncode == 0, out
    assert "Ray is gone: looking for it again" in out
    check_against_single_runs()


def test_ctrl_c_saves_all_runs_and_the_same_command_goes_on() -> None:
    words = sweep_words("--seeds", "0-1", steps=STEPS)
    with sweeping(words) as sweep:
        wait_for(both_train, "first checkpoints", sweep)
        sweep.send_signal(signal.SIGINT)
        out, _ = sweep.communicate()
    assert sweep.returncode == 130, out
    assert "2 stopped in" in out
    assert [trainer_of(run) for run in RUNS] == [None, None]
    with sweeping(words) as sweep:
        out, _ = sweep.communicate()
    assert sweep.returncode == 0, out
    check_against_single_runs()
