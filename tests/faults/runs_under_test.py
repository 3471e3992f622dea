"""The runs that are killed and damaged: every family of agents, four kinds of environments."""

import contextlib
import importlib
import importlib.util
import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from tokenworlds.cli import main
from tokenworlds.core.protocols import Env
from tokenworlds.core.types import EnvStep
from tokenworlds.envs.catalogue import EnvSpec
from tokenworlds.evaluation import processes, report
from tokenworlds.recipes.catalogue import load

RUN = "run"
"""Trials have a folder each and this run in it, so that a run and its twin have equal paths."""
OFTEN = (
    "num_envs=2",
    "behaviour.horizon=2",
    "evaluation.every=24",
    "evaluation.episodes=1",
    "evaluation.final_episodes=2",
    "housekeeping.log_every=8",
    "housekeeping.save_every=16",
)
HEADS = (
    "world.reward.hidden=[16]",
    "world.termination.hidden=[16]",
    "behaviour.actor=[16]",
    "behaviour.critic=[16]",
)
LATENT = (
    *OFTEN,
    *HEADS,
    "resolution=16",
    "world.tokenizer.filters=[8,8,8]",
    "world.tokenizer.strides=[2,2,2]",
    "world.tokenizer.groups=4",
    "world.sequence.width=16",
    "world.sequence.layers=1",
    "world.sequence.heads=2",
    "learning.world.batch=2",
    "learning.world.length=4",
    "learning.behaviour.batch=4",
    "learning.behaviour.length=2",
    "schedule.warm_up=16",
    'schedule.updates={"world":0.25,"behaviour":0.25}',
)
TOKENS = (
    *OFTEN,
    "schedule.steps=16",
    "schedule.first_steps=32",
    "schedule.final_epochs=1",
    'schedule.updates={"tokenizer":2,"world":1,"behaviour":1}',
    'schedule.start_after={"world":1,"behaviour":2}',
    'schedule.first_updates={"tokenizer":2}',
    "sampler.count_after=32",
    "world.sequence.dropout=0.1",
    "learning.tokenizer.batch=2",
    "learning.world.batch=2",
    "learning.world.length=8",
    "learning.behaviour.batch=2",
)
GRID = (
    *OFTEN,
    "schedule.steps=16",
    "schedule.first_steps=32",
    "schedule.warm_up_updates=2",
    "schedule.epochs=[1,1]",
    "schedule.intervals=[2]",
    "schedule.batches=[1]",
    "learning.tokenizer.batch=2",
    "learning.world.batch=2",
    "learning.behaviour.batch=2",
    "behaviour.horizon=4",
    "behaviour.minibatch=8",
)
JOINT = (
    *OFTEN,
    "schedule.warm_up=32",
    "learning.agent.batch=2",
    "learning.agent.length=8",
    'schedule.updates={"agent":0.125}',
)
MODEL_FREE = (
    *(setting for setting in OFTEN if "horizon" not in setting),
    "learning.behaviour.batch=2",
    "learning.behaviour.length=9",
    "schedule.steps=18",
    "behaviour.minibatch=8",
    "behaviour.horizon=4",
)


@dataclass(frozen=True, slots=True)
class Case:
    """A tiny run with games of at most `game` steps.

    `package` is what its environment needs to be installed. A slow case has fewer trials.
    """

    recipe: str
    env: str
    steps: int
    settings: tuple[str, ...]
    package: str = ""
    game: int = 12
    slow: bool = False

    @property
    def name(self) -> str:
        return f"{self.recipe}@{self.env}"

    @property
    def installed(self) -> bool:
        return not self.package or importlib.util.find_spec(self.package) is not None

    @property
    def command(self) -> list[str]:
        chosen = ["--env", self.env, "--steps", str(self.steps), "--threads", "1"]
        return ["train", self.recipe, "--run", RUN, *chosen, "--set", *self.settings]


STORM = (
    *LATENT,
    "world.tokenizer.filters=[8,8]",
    "world.tokenizer.strides=[2,2]",
    "world.tokenizer.categoricals=4",
    "world.tokenizer.classes=4",
    "world.sequence.feedforward=16",
)
DREAMER = (*JOINT, "world.deter=32", "world.hidden=16", "behaviour.hidden=[16]")
CRAFTER = (
    *DREAMER,
    "resolution=32",
    "num_envs=1",
    "evaluation.every=0",
    "evaluation.final_episodes=1",
)
CASES = (
    # The fastest run of an agent with a world model: it is killed at each of its operations.
    Case("dreamer-v3", "catch", 48, DREAMER),
    Case("step-vq-m", "catch", 48, LATENT),
    Case("storm", "catch", 48, STORM),
    Case("iris", "catch", 64, TOKENS),
    Case("delta-iris", "catch", 64, TOKENS),
    Case("swm", "catch", 64, GRID),
    Case("ppo", "catch", 54, MODEL_FREE),
    Case("step-vq-m", "atari:Pong", 48, LATENT, "ale_py"),
    # A game of Crafter takes a second to start.
    Case("dreamer-v3", "crafter", 48, CRAFTER, "crafter", game=40, slow=True),
    Case("storm", "dmc:cartpole-balance", 48, STORM, "dm_control", slow=True),
)
BY_NAME = {case.name: case for case in CASES}


class ShortGame:
    """An environment whose games end after `limit` steps at the latest."""

    def __init__(self, env: Env, limit: int) -> None:
        self.env = env
        self.limit = limit
        self.frame_shape, self.action_space = env.frame_shape, env.action_space
        self._steps = 0

    def reset(self, seed: int) -> NDArray[Any]:
        self._steps = 0
        return self.env.reset(seed)

    def step(self, action: NDArray[Any]) -> EnvStep:
        step = self.env.step(action)
        self._steps += 1
        if self._steps < self.limit or step.over:
            return step
        return replace(step, truncated=not step.terminated, over=True)

    def close(self) -> None:
        self.env.close()


def command(folder: Path, words: list[str], game: int) -> Callable[[], int]:
    """A command of the package in a folder, with short games and small pictures in its report."""

    def work() -> int:
        shorten_games(game)
        draw_nothing()
        os.chdir(folder)
        return main(words)

    return work


def shorten_games(limit: int) -> None:
    # Other processes would play games of the usual length.
    processes.cores = lambda: 1
    make: Callable[..., Env] = EnvSpec.make

    def make_short(spec: EnvSpec, **rest: Any) -> Env:
        return ShortGame(make(spec, **rest), limit)

    EnvSpec.make = make_short  # type: ignore[method-assign,assignment]


def draw_nothing() -> None:
    """Reports without figures, which take longer to draw than the run."""
    for name in ("figure_bytes", "dream_png", "loss_png", "curve_figure"):
        setattr(report, name, lambda *drawn: np.zeros(8, np.uint8).tobytes())


def continuation(folder: Path, case: Case) -> list[str]:
    """How a user goes on after a kill: the same command again if the run had not begun."""
    return ["resume", RUN] if (folder / RUN / "run.json").exists() else case.command


HEAVY = (
    "torch._dynamo",
    "einops._torch_specific",
    "tensorboard.compat.proto.summary_pb2",
    "tensorboard.compat.proto.event_pb2",
    "tensorboard.summary.writer.record_writer",
    "tokenworlds.commands.running",
    "ale_py",
    "crafter",
    "dm_control.suite",
)


def import_everything() -> None:
    """Import what every trial would import."""
    os.environ.setdefault("MUJOCO_GL", "egl")
    for name in HEAVY:
        with contextlib.suppress(ModuleNotFoundError):
            importlib.import_module(name)
    for case in CASES:
        load(case.recipe, "nano")
    # Threads do not survive a fork.
    torch.set_num_threads(1)
