"""Agents to dream with: a tiny run, and untrained agents of every kind of world."""

from functools import cache
from pathlib import Path
from typing import Any

import pytest

import tokenworlds as tw
from tokenworlds.agent import Agent, OpenedAgent
from tokenworlds.core.types import ActionSpace, FrameShape
from tokenworlds.envs.catalogue import EnvSpec
from tokenworlds.recipes.catalogue import load
from tokenworlds.training import session

WORLDS = ("step-vq-m", "step-vq-t", "storm", "dreamer-v3", "iris", "delta-iris", "swm")
TINY: dict[str, Any] = {
    "resolution": 16,
    "num_envs": 2,
    "world.tokenizer.filters": [8, 8, 8],
    "world.tokenizer.strides": [2, 2, 2],
    "world.tokenizer.groups": 4,
    "world.sequence.width": 16,
    "world.sequence.layers": 1,
    "world.sequence.heads": 2,
    "behaviour.actor": [16],
    "behaviour.critic": [16],
    "behaviour.horizon": 4,
    "learning.world.batch": 2,
    "learning.world.length": 4,
    "learning.behaviour.batch": 4,
    "learning.behaviour.length": 2,
    "schedule.warm_up": 16,
    "evaluation.final_episodes": 1,
    "evaluation.every": 0,
}


@cache
def untrained(recipe: str, env: str = "catch") -> OpenedAgent:
    """An agent with fresh weights, the same for all tests: dreams do not change it."""
    settings = load(recipe, "nano", env).recipe
    shape = FrameShape(settings.resolution, settings.resolution, 1 if settings.grey else 3)
    space = ActionSpace(1, discrete=False) if env == "steer" else ActionSpace(3)
    spec = EnvSpec(env, "", settings.resolution, settings.grey)
    return OpenedAgent(Agent.build(settings, shape, space), spec)


def train_tiny(folder: Path) -> None:
    """Train a run with 16 steps of replay in each of two environments."""
    chosen: dict[str, Any] = {"overrides": TINY, "steps": 32, "threads": 1, "progress": False}
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(session, "add_report", lambda *run: run[-1])
        tw.train(env="catch", size="nano", run=folder, **chosen)
