"""Runs that take a second."""

import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tokenworlds.cli import main
from tokenworlds.commands.screen import PlainScreen

STEPS = 64
TINY = (
    "resolution=16",
    "num_envs=2",
    "world.tokenizer.filters=[8,8,8]",
    "world.tokenizer.strides=[2,2,2]",
    "world.tokenizer.groups=4",
    "world.sequence.width=16",
    "world.sequence.layers=1",
    "world.sequence.heads=2",
    "world.reward.hidden=[16]",
    "world.termination.hidden=[16]",
    "behaviour.actor=[16]",
    "behaviour.critic=[16]",
    "behaviour.horizon=2",
    "learning.world.batch=2",
    "learning.world.length=4",
    "learning.behaviour.batch=4",
    "learning.behaviour.length=2",
    "schedule.warm_up=16",
    'schedule.updates={"world":0.25,"behaviour":0.25}',
    "evaluation.every=24",
    "evaluation.episodes=2",
    "evaluation.final_episodes=3",
    "housekeeping.log_every=8",
    "housekeeping.save_every=16",
)


def train(run: Path, *more: str, steps: int = STEPS) -> list[str]:
    """The arguments to train a tiny agent; later assignments win."""
    words = ["train", "--run", str(run), "--steps", str(steps), "--threads", "1"]
    return [*words, "--set", *TINY, *more]


def signal_at(
    monkeypatch: pytest.MonkeyPatch, steps: int, number: int = signal.SIGINT, times: int = 1
) -> None:
    """Raise a signal at the first event with `steps` agent steps."""
    event: Callable[..., None] = PlainScreen.event

    def event_and_signal(screen: PlainScreen, values: dict[str, Any]) -> None:
        event(screen, values)
        if values["agent_steps"] >= steps:
            for _ in range(times):
                signal.raise_signal(number)

    monkeypatch.setattr(PlainScreen, "event", event_and_signal)


def stop_run(run: Path, steps: int, *more: str) -> None:
    """A run that was interrupted after `steps` steps."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        signal_at(monkeypatch, steps)
        assert main(train(run, *more)) == 130


def newest_checkpoint(run: Path) -> Path:
    return sorted((run / "checkpoints").glob("step-*"))[-1]


def final_weights(run: Path) -> bytes:
    newest = newest_checkpoint(run)
    assert newest.name == f"step-{STEPS:09d}"
    return (newest / "weights.safetensors").read_bytes()


def sentence(captured: str) -> str:
    """The error message: one line, no traceback."""
    assert captured.startswith("tokenworlds: ")
    assert captured.count("\n") == 1, captured
    return captured.removeprefix("tokenworlds: ").strip()
