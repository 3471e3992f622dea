"""Runs that take a second or two, for figures that need one."""

from pathlib import Path

import pytest

from tokenworlds.cli import main
from tokenworlds.training import session

COMMON = (
    "num_envs=2",
    "behaviour.horizon=2",
    "evaluation.every=0",
    "evaluation.final_episodes=1",
    "housekeeping.log_every=8",
)
LATENT = (
    *COMMON,
    "resolution=16",
    "world.reward.hidden=[16]",
    "world.termination.hidden=[16]",
    "behaviour.actor=[16]",
    "behaviour.critic=[16]",
    "world.sequence.width=16",
    "world.sequence.layers=1",
    "world.sequence.heads=2",
    "learning.world.batch=2",
    "learning.world.length=4",
    "learning.behaviour.batch=4",
    "learning.behaviour.length=2",
    "schedule.warm_up=32",
    'schedule.updates={"world":0.25,"behaviour":0.25}',
)
CATEGORICAL = (
    *LATENT,
    "world.tokenizer.filters=[8,8]",
    "world.tokenizer.strides=[2,2]",
    "world.tokenizer.groups=4",
    "world.tokenizer.categoricals=4",
    "world.tokenizer.classes=4",
    "world.sequence.feedforward=16",
)
SETTINGS = {
    "step-vq-m": (
        *LATENT,
        "world.tokenizer.filters=[8,8,8]",
        "world.tokenizer.strides=[2,2,2]",
        "world.tokenizer.groups=4",
    ),
    "storm": CATEGORICAL,
    "git-storm": CATEGORICAL,
    "delta-iris": (
        *COMMON,
        "schedule.steps=16",
        "schedule.first_steps=32",
        "schedule.final_epochs=0",
        'schedule.updates={"tokenizer":1,"world":1,"behaviour":1}',
        'schedule.first_updates={"tokenizer":1}',
        "learning.tokenizer.batch=2",
        "learning.world.batch=2",
        "learning.behaviour.batch=2",
    ),
    "ppo": (
        "num_envs=2",
        "evaluation.every=0",
        "evaluation.final_episodes=1",
        "learning.behaviour.batch=2",
        "learning.behaviour.length=9",
        "schedule.steps=18",
        "behaviour.minibatch=8",
        "behaviour.horizon=4",
    ),
}


def train_run(folder: Path, recipe: str, seed: int = 0) -> Path:
    """A tiny run on catch without a report."""
    run = folder / f"{recipe}-s{seed}"
    words = ["train", recipe, "--run", str(run), "--steps", "64", "--threads", "1"]
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(session, "add_report", lambda *run: run[-1])
        assert main([*words, "--seed", str(seed), "--set", *SETTINGS[recipe]]) == 0
    return run
