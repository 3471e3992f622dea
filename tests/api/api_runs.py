"""A short run on catch, and untrained agents of every kind of world."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import tokenworlds as tw
from tokenworlds.agent import Agent as AgentModule
from tokenworlds.agent import OpenedAgent
from tokenworlds.core.config import variant
from tokenworlds.core.types import ActionSpace, FrameShape
from tokenworlds.envs.catalogue import EnvSpec
from tokenworlds.recipes.catalogue import load
from tokenworlds.training import session

TINY: dict[str, Any] = {
    "resolution": 16,
    "num_envs": 2,
    "world.tokenizer.filters": [8, 8, 8],
    "world.tokenizer.strides": [2, 2, 2],
    "world.tokenizer.groups": 4,
    "world.sequence.width": 16,
    "world.sequence.layers": 1,
    "world.sequence.heads": 2,
    "world.memory": 4,
    "world.reward.hidden": [16],
    "world.termination.hidden": [16],
    "behaviour.actor": [16],
    "behaviour.critic": [16],
    "behaviour.horizon": 4,
    "learning.world.batch": 2,
    "learning.world.length": 4,
    "learning.behaviour.batch": 4,
    "learning.behaviour.length": 2,
    "schedule.warm_up": 16,
    "evaluation.final_episodes": 3,
    "evaluation.every": 0,
    "housekeeping.log_every": 16,
}
STEPS = 48
WORLDS = ("step-vq-m", "storm", "iris", "delta-iris", "swm", "dreamer-v3")
"""A recipe of each kind of world."""
ACTIONS = {
    "catch": ActionSpace(3),
    "steer": ActionSpace(1, discrete=False),
    "gym:CartPole-v1": ActionSpace(2),
}


ENDLESS = {"world.termination": None}
"""A world that predicts no terminations, if it can do without."""


def untrained(
    recipe: str, env: str = "catch", changes: Mapping[str, Any] | None = None
) -> tw.Agent:
    """A recipe's agent at its smallest size with fresh weights."""
    chosen = variant(load(recipe, "nano", env).recipe, changes or {})
    protocol = "gymnasium,render=true" if env.startswith("gym:") else ""
    spec = EnvSpec(env, protocol, chosen.resolution, chosen.grey)
    actions = ACTIONS[env]
    shape = FrameShape(chosen.resolution, chosen.resolution, 1 if chosen.grey else 3)
    return tw.Agent(OpenedAgent(AgentModule.build(chosen, shape, actions), spec))


def run_without_report(folder: Path, **options: Any) -> tw.Run:
    """A tiny run; the report would take longer than the rest."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(session, "add_report", lambda *run: run[-1])
        chosen = {"overrides": TINY, "steps": STEPS, "threads": 1, "progress": False, **options}
        return tw.train(run=folder, **chosen)
