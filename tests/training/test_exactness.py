"""A run depends only on its specification: killed or repeated, it ends with the same bits."""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
import torch
from safetensors.torch import load

TINY = (
    "num_envs=2",
    "schedule.warm_up=64",
    # The offsets of frames are drawn, too.
    "learning.world.shift=2",
    # The last weights are stored beside their averages.
    "learning.world.average=0.9",
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
EPOCH = 16
TINY_EPOCHS = (
    "num_envs=2",
    f"schedule.steps={EPOCH}",
    "schedule.first_steps=32",
    "schedule.final_epochs=1",
    'schedule.updates={"tokenizer":3,"world":2,"behaviour":1}',
    'schedule.start_after={"world":1,"behaviour":2}',
    'schedule.first_updates={"tokenizer":12}',
    "sampler.count_after=32",
    # Dropout has a generator, whose state must be restored too.
    "world.sequence.dropout=0.1",
    "learning.tokenizer.batch=4",
    "learning.world.batch=2",
    "learning.world.length=8",
    "learning.behaviour.batch=2",
    "behaviour.horizon=2",
    "evaluation.every=48",
    "evaluation.episodes=2",
    "evaluation.final_episodes=2",
    "housekeeping.log_every=8",
    "housekeeping.save_every=8",
)
TINY_JOINT = (
    "num_envs=2",
    "schedule.warm_up=64",
    "learning.agent.batch=2",
    "learning.agent.length=8",
    "behaviour.horizon=3",
    "evaluation.every=48",
    "evaluation.episodes=2",
    "evaluation.final_episodes=2",
    "housekeeping.log_every=8",
    "housekeeping.save_every=24",
    'schedule.updates={"agent":0.25}',
)
ITERATION = 40
TINY_ITERATIONS = (
    "num_envs=2",
    f"schedule.steps={ITERATION}",
    "schedule.first_steps=80",
    "schedule.warm_up_updates=4",
    "schedule.epochs=[2,1]",
    "schedule.intervals=[2]",
    "schedule.batches=[1]",
    "learning.tokenizer.batch=4",
    "learning.world.batch=2",
    "learning.behaviour.batch=2",
    "behaviour.horizon=4",
    "behaviour.minibatch=8",
    "evaluation.every=80",
    "evaluation.episodes=2",
    "evaluation.final_episodes=2",
    "housekeeping.log_every=8",
    "housekeeping.save_every=16",
)
# A game of Crafter takes a second to start.
TINY_CRAFTER = (
    *TINY_EPOCHS,
    "num_envs=1",
    "evaluation.every=0",
    "evaluation.final_episodes=1",
)
ABLATIONS = (
    *("swm-1frame", "swm-1d", "swm-continuous", "swm-continuous-1d"),
    *("swm-reconstructions", "swm-autoregressive", "swm-small-field"),
)


def command(*words: str) -> list[str]:
    return [sys.executable, "-m", "tokenworlds", *words]


def training(run: Path, env: str, steps: int, recipe: str, seed: int = 0) -> list[str]:
    choices = ["--env", env, "--steps", str(steps), "--seed", str(seed), "--threads", "1"]
    sets = [word for choice in tiny(env, recipe) for word in ("--set", choice)]
    return command("train", recipe, "--run", str(run), *choices, *sets)


def tiny(env: str, recipe: str) -> tuple[str, ...]:
    if recipe.startswith("swm"):
        return TINY_ITERATIONS
    if recipe.startswith("dreamer"):
        return TINY_JOINT
    if not in_epochs(recipe):
        return TINY
    return TINY_CRAFTER if env == "crafter" else TINY_EPOCHS


def in_epochs(recipe: str) -> bool:
    return recipe.endswith("iris") and not recipe.startswith("step-vq")


def last_step(steps: int, recipe: str) -> int:
    """The step of a finished run.

    The last epoch collects nothing and the first iteration collects more; both count like the
    others.
    """
    if recipe.startswith("swm"):
        return steps - ITERATION
    return steps + EPOCH if in_epochs(recipe) else steps


def finish(words: list[str]) -> str:
    """Run a command to its end; returns its output."""
    done = subprocess.run(words, capture_output=True, text=True, timeout=1200, env=plain())
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout + done.stderr


def plain() -> Mapping[str, str]:
    return {**os.environ, "TERM": "dumb", "PYTHONUNBUFFERED": "1"}


def kill_after(words: list[str], lines: int) -> None:
    """Start a command and send SIGKILL after this many lines of output."""
    with subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=plain()
    ) as process:
        assert process.stdout is not None
        seen = [line for line, _ in zip(process.stdout, range(lines), strict=False)]
        assert len(seen) == lines, seen
        process.send_signal(signal.SIGKILL)


def final_weights(run: Path, step: int) -> bytes:
    newest = sorted((run / "checkpoints").glob("step-*"))[-1]
    assert newest.name == f"step-{step:09d}"
    return (newest / "weights.safetensors").read_bytes()


@pytest.mark.parametrize(
    ("env", "steps", "recipe", "kills"),
    # The everyday selection of tests/faults kills every family, and an agent on Atari.
    [
        ("catch", 200, "step-vq-m", (5, 8, 3)),
        pytest.param("catch", 160, "cb-t", (9,), marks=pytest.mark.slow),
        pytest.param("atari:Pong", 128, "step-vq-m", (4, 5), marks=pytest.mark.slow),
        pytest.param("catch", 160, "git-storm", (6,), marks=pytest.mark.slow),
        pytest.param("dmc:cartpole-balance", 96, "git-storm", (4, 3), marks=pytest.mark.slow),
        pytest.param("catch", 80, "iris", (4, 6), marks=pytest.mark.slow),
        pytest.param("crafter", 64, "delta-iris", (4, 3), marks=pytest.mark.slow),
        pytest.param("catch", 200, "swm", (6, 5), marks=pytest.mark.slow),
        pytest.param("catch", 128, "dreamer-v3", (5, 4), marks=pytest.mark.slow),
        *(pytest.param("catch", 200, each, (6, 5), marks=pytest.mark.slow) for each in ABLATIONS),
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
    end = last_step(steps, recipe)
    assert final_weights(killed, end) == final_weights(straight, end)
    assert returns(killed) == returns(straight)


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("g++") is None, reason="torch compiles with a C++ compiler")
def test_killed_compiled_runs_end_with_the_same_bits(tmp_path: Path) -> None:
    straight, killed = (training(tmp_path / name, "catch", 120, "step-vq-m") for name in "sk")
    output = finish([*straight, "--compile"])
    kill_after([*killed, "--compile"], 5)
    output += finish(command("resume", str(tmp_path / "k")))
    assert "runs as written" not in output
    assert final_weights(tmp_path / "k", 120) == final_weights(tmp_path / "s", 120)
    assert returns(tmp_path / "k") == returns(tmp_path / "s")


def returns(run: Path) -> str:
    return (run / "evaluation.json").read_text()


def test_the_seed_determines_the_run(tmp_path: Path) -> None:
    for name, seed in (("a", 0), ("b", 0), ("c", 1)):
        finish(training(tmp_path / name, "catch", 96, "step-vq-m", seed))
    first, again, other = (final_weights(tmp_path / name, 96) for name in "abc")
    assert first == again
    assert first != other


@pytest.mark.parametrize(
    ("recipe", "early", "late", "parts"),
    [
        ("step-vq-m", 64, 200, ("tokenizer.encoder", "sequence", "prior")),
        ("iris", 32, 80, ("tokenizer.encoder", "dynamics.sequence", "dynamics.next_token")),
    ],
)
def test_training_changes_every_part(
    tmp_path: Path, recipe: str, early: int, late: int, parts: tuple[str, ...]
) -> None:
    """Otherwise equal bits could be those of initial weights."""
    found = []
    for steps in (early, late):
        finish(training(tmp_path / str(steps), "catch", steps, recipe))
        found.append(load(final_weights(tmp_path / str(steps), last_step(steps, recipe))))
    actor = "behaviour.network.actor" if in_epochs(recipe) else "behaviour.actor"
    for part in (*(f"world.{part}" for part in parts), actor):
        names = [name for name in found[0] if name.startswith(part)]
        assert names
        assert any(not torch.equal(found[0][name], found[1][name]) for name in names), part
