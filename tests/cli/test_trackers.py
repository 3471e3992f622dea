"""Trackers: what metrics.jsonl holds arrives once, in order, and training does not notice."""

import csv
import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from tiny_runs import newest_checkpoint, sentence, train

from tokenworlds.cli import main
from tokenworlds.commands.choices import choose_run
from tokenworlds.commands.train import Train
from tokenworlds.runs.events import read_metrics
from tokenworlds.training.callbacks import Event, EventKind
from tokenworlds.training.trackers.choice import forgotten, open_trackers
from tokenworlds.training.trackers.tracker import Tracker, read_records

RUN = Path("run")


class Recorder(Tracker):
    """A service that remembers what it got."""

    name = "recorder"
    got: list[int]

    def open(self, event: Event, key: str) -> str:
        self.got = []
        return key or "first"

    def send(self, values: Mapping[str, float | int], step: int) -> None:
        self.got.append(step)

    def close(self, event: Event) -> None:
        self.got.append(-1)


def happened(kind: EventKind, steps: int = 0, resumed: bool = False) -> Event:
    values = {"agent_steps": steps} if kind == "log" else {}
    if kind == "log":
        with Path("run/metrics.jsonl").open("a") as file:
            file.write(json.dumps(values) + "\n")
    spec = choose_run(Train())
    return Event(kind=kind, run=RUN, spec=spec, agent_steps=steps, values=values, resumed=resumed)


def test_every_event_arrives_once_although_a_killed_run_repeats_some() -> None:
    RUN.mkdir()
    first, second, third = Recorder(), Recorder(), Recorder()
    first(happened("start"))
    for steps in (1, 2, 3):
        first(happened("log", steps))
    # The run goes back to a checkpoint after its first event, and is killed again before a
    # callback hears of the fourth.
    Path("run/metrics.jsonl").write_text('{"agent_steps": 1}\n')
    second(happened("start", resumed=True))
    for steps in (2, 3):
        second(happened("log", steps))
    happened("log", 4)
    third(happened("start", resumed=True))
    third(happened("log", 5))
    third(happened("end"))
    assert (first.got, second.got, third.got) == ([1, 2, 3], [], [4, 5, -1])
    assert read_records(RUN)["recorder"] == {"key": "first", "sent": 5}


@pytest.mark.usefixtures("_no_report")
def test_a_csv_has_all_metrics_of_a_run() -> None:
    assert main([*train(RUN, steps=32), "--csv"]) == 0
    events, _ = read_metrics(RUN)
    with (RUN / "metrics.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [{name: float(x) for name, x in row.items() if x} for row in rows] == events


def test_a_service_is_named_again_by_the_user() -> None:
    RUN.mkdir()
    (RUN / "trackers.json").write_text('{"wandb": {"key": "a", "sent": 2}, "other": {}}')
    assert forgotten(RUN, []) == ["wandb tracked this run so far: continue that with --wandb"]
    assert forgotten(RUN, ["wandb"]) == []


def test_a_missing_package_is_named_before_training(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert main([*train(RUN), "--mlflow"]) == 2
    assert "pip install 'tokenworlds[mlflow]'" in sentence(capsys.readouterr().err)
    assert not RUN.exists()
    assert open_trackers([]) == []


@pytest.mark.slow
@pytest.mark.parametrize("service", ["wandb", "mlflow"])
def test_a_real_service_gets_all_metrics_and_continues_after_a_resume(
    service: str, finished: Path
) -> None:
    # Not in this process: their modules warn, and warnings are errors here.
    offline = {"WANDB_MODE": "offline", "MLFLOW_ALLOW_FILE_STORE": "true"}
    place = {"MLFLOW_TRACKING_URI": Path("ml").absolute().as_uri()}
    for words in (train(RUN, steps=40), ["resume", "run", "--steps", "64"]):
        command = [sys.executable, "-m", "tokenworlds", *words, f"--{service}"]
        subprocess.run(command, check=True, env={**os.environ, **offline, **place})
    key = read_records(RUN)[service]["key"]
    assert read_records(RUN)[service]["sent"] == len(read_metrics(RUN)[0])
    weights = "weights.safetensors"
    assert (newest_checkpoint(RUN) / weights).read_bytes() == (
        newest_checkpoint(finished) / weights
    ).read_bytes()
    if service == "wandb":
        assert len(list(Path("wandb").glob(f"offline-run-*-{key}"))) == 2
        return
    (returns,) = Path("ml").glob(f"*/{key}/metrics/evaluation/return")
    assert [int(line.split()[2]) for line in returns.read_text().splitlines()] == [24, 48]
