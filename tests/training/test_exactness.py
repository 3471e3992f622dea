"""A run is a function of its description: killed or repeated, it ends with the same bits."""

import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
import torch
from safetensors.torch import load

TINY = (
    "streams=2",
    "schedule.warm_up=64",
    "learning.world.batch=2",
    "learning.world.length=8",
    "learning.behaviour.batch=4",
    "behaviour.horizon=3",
    "evaluation.every=48",
    "evaluation.episodes=2",
    "evaluation.final_episodes=2",
    "housekeeping.log_every=8",
    "housekeeping.save_every=24",
    'schedule.updates={"world":0.25,"behaviour":0.25}',
)


def command(*words: str) -> list[str]:
    return [sys.executable, "-m", "tokenworlds", *words]


def training(run: Path, env: str, steps: int, recipe: str, seed: int = 0) -> list[str]:
    choices = ["--env", env, "--steps", str(steps), "--seed", str(seed), "--threads", "1"]
    sets = [word for choice in TINY for word in ("--set", choice)]
    return command("train", recipe, "--run", str(run), *choices, *sets)


def finish(words: list[str]) -> None:
    done = subprocess.run(words, capture_output=True, text=True, timeout=600, env=plain())
    assert done.returncode == 0, done.stderr[-2000:]


def plain() -> Mapping[str, str]:
    return {**os.environ, "TERM": "dumb", "PYTHONUNBUFFERED": "1"}


def kill_after(words: list[str], lines: int) -> None:
    """Start a command and send SIGKILL when it has printed so many lines."""
    with subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=plain()
    ) as process:
        assert process.stdout is not None
        seen = [line for line, _ in zip(process.stdout, range(lines), strict=False)]
        assert len(seen) == lines, seen
        process.send_signal(signal.SIGKILL)


def final_weights(run: Path, steps: int) -> bytes:
    newest = sorted((run / "checkpoints").glob("step-*"))[-1]
    assert newest.name == f"step-{steps:09d}"
    return (newest / "weights.safetensors").read_bytes()


@pytest.mark.parametrize(
    ("env", "steps", "recipe", "kills"),
    [
        ("catch", 200, "step-vq-m", (5, 8, 3)),
        ("catch", 160, "cb-t", (9,)),
        ("atari:Pong", 128, "step-vq-m", (4, 5)),
        ("dmc:cartpole-balance", 96, "git-storm", (4, 3)),
    ],
)
def test_killed_runs_end_with_the_same_bits(
    tmp_path: Path, env: str, steps: int, recipe: str, kills: tuple[int, ...]
) -> None:
    straight, killed = tmp_path / "straight", tmp_path / "killed"
    finish(training(straight, env, steps, recipe))
    kill_after(training(killed, env, steps, recipe), kills[0])
    for lines in kills[1:]:
        kill_after(command("resume", str(killed)), lines)
    finish(command("resume", str(killed)))
    assert final_weights(killed, steps) == final_weights(straight, steps)
    assert returns(killed) == returns(straight)


def returns(run: Path) -> str:
    return (run / "evaluation.json").read_text()


def test_one_seed_one_run_two_seeds_two(tmp_path: Path) -> None:
    for name, seed in (("a", 0), ("b", 0), ("c", 1)):
        finish(training(tmp_path / name, "catch", 96, "step-vq-m", seed))
    first, again, other = (final_weights(tmp_path / name, 96) for name in "abc")
    assert first == again
    assert first != other


def test_training_moves_every_part(tmp_path: Path) -> None:
    """That equal bits are not those of untouched weights."""
    finish(training(tmp_path / "run", "catch", 200, "step-vq-m"))
    finish(training(tmp_path / "stub", "catch", 64, "step-vq-m"))
    late = load(final_weights(tmp_path / "run", 200))
    early = load(final_weights(tmp_path / "stub", 64))
    for part in ("world.tokenizer.encoder", "world.sequence", "world.prior", "behaviour.actor"):
        names = [name for name in late if name.startswith(part)]
        assert names
        assert any(not torch.equal(late[name], early[name]) for name in names), part
