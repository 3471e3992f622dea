"""A run whose replay is lost goes on with `resume --without-replay`."""

import json
import shutil
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from runs_under_test import BY_NAME, RUN, Case

from tokenworlds.cli import main
from tokenworlds.commands.screen import PlainScreen
from tokenworlds.training import session
from tokenworlds.training.loop import prefill
from tokenworlds.training.schedules.epochs import Epochs
from tokenworlds.training.schedules.interleaved import Interleaved

# A token cache and counts of episodes, a grid world, latents in replay, and no world model;
# tests/cli/test_safety.py has a latent world.
CASES = [BY_NAME[f"{recipe}@catch"] for recipe in ("iris", "swm", "dreamer-v3", "ppo")]
ANNOUNCED = "collected anew: it does not repeat an uninterrupted run"
Output = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def _short(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs in a folder of their own, without reports."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(session, "add_report", lambda *run: run[-1])


def stopped_in(words: list[str], steps: int) -> None:
    """Run a command that Ctrl-C ends at the first event with this many steps."""
    event: Callable[..., None] = PlainScreen.event
    sent = False

    def event_and_signal(screen: PlainScreen, values: dict[str, Any]) -> None:
        nonlocal sent
        event(screen, values)
        if values["agent_steps"] >= steps and not sent:
            sent = True
            signal.raise_signal(signal.SIGINT)

    with pytest.MonkeyPatch.context() as during:
        during.setattr(PlainScreen, "event", event_and_signal)
        assert main(words) == 130


def newest_state() -> dict[str, Any]:
    newest = max(Path(RUN, "checkpoints").glob("step-*"))
    state: dict[str, Any] = json.loads((newest / "state.json").read_text())
    return state


def notes(capsys: Output) -> list[str]:
    captured = capsys.readouterr()
    return [line for line in captured.err.splitlines() if line.startswith("note: ")]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_run_without_its_replay_trains_to_its_end(case: Case, capsys: Output) -> None:
    stopped_in(case.command, 32)
    before = newest_state()
    shutil.rmtree(Path(RUN, "replay"))
    assert main(["resume", RUN]) == 2
    assert "--without-replay' collects anew" in capsys.readouterr().err
    assert main(["resume", RUN, "--without-replay"]) == 0
    lost = f"note: the run lost its replay at step {before['steps']} and {ANNOUNCED}"
    assert notes(capsys) == [lost]
    after = newest_state()
    assert after["steps"] == case.steps
    assert sum(after["updates"].values()) > sum(before["updates"].values())
    assert after["inexact"] == before["steps"]
    assert main(["resume", RUN]) == 0
    assert notes(capsys) == [lost]


def test_what_was_collected_anew_is_saved_at_once(capsys: Output) -> None:
    case = BY_NAME["ppo@catch"]
    stopped_in(case.command, 32)
    shutil.rmtree(Path(RUN, "replay"))
    stopped_in(["resume", RUN, "--without-replay"], 0)
    capsys.readouterr()
    assert main(["resume", RUN, "--without-replay"]) == 2
    assert "has its replay: continue with 'tokenworlds resume run'" in capsys.readouterr().err
    assert main(["resume", RUN]) == 0
    assert [ANNOUNCED in note for note in notes(capsys)] == [True]


def test_a_run_collects_as_much_anew_as_before_its_first_update() -> None:
    updates = {"world": 0.25}
    interleaved = Interleaved.Config(warm_up=16, updates=updates).build(num_envs=2, total=100)
    assert prefill(interleaved) == 10
    epochs = Epochs.Config(steps=16, first_steps=64, updates={"world": 1}, start_after={"world": 1})
    assert prefill(epochs.build(num_envs=2, total=200)) == 40
    assert prefill(replace(epochs, start_after={}).build(num_envs=2, total=200)) == 32
