"""Runs as figures read them: the agent of the newest checkpoint, and episodes from replay."""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from tokenworlds.agent import Agent
from tokenworlds.core.errors import UserError
from tokenworlds.core.files import DamagedFile
from tokenworlds.core.types import Segment
from tokenworlds.figures.picture import Request, RunSource
from tokenworlds.replay.sampling import gather
from tokenworlds.replay.store import ReplayStore
from tokenworlds.runs.spec import RunSpec
from tokenworlds.training.evaluation import load_agent, open_replay


@dataclass(frozen=True, slots=True)
class LoadedRun:
    name: str
    spec: RunSpec
    agent: Agent
    replay: ReplayStore
    steps: int

    def facts(self) -> dict[str, Any]:
        return {**spec_facts(self.spec), "agent_steps": self.steps}

    def sentence(self) -> str:
        """What a caption says about the run."""
        spec = self.spec
        return (
            f"{spec.recipe_name} (size {spec.size}) on {spec.env.name}, seed {spec.seed}, "
            f"after {self.steps:,} agent steps"
        )


def spec_facts(spec: RunSpec) -> dict[str, Any]:
    return {
        "recipe": spec.recipe_name,
        "size": spec.size,
        "env": spec.env.name,
        "protocol": spec.env.protocol,
        "seed": spec.seed,
    }


def the_run(request: Request) -> LoadedRun:
    """The only run of a figure that shows one."""
    if len(request.runs) > 1:
        raise UserError(f"this figure shows one run, not {len(request.runs)}: give --run once")
    return load_run(request.runs[0], request)


def load_run(source: RunSource, request: Request) -> LoadedRun:
    """The agent and replay of the newest checkpoint; only reads the run."""
    newest = source.folder.newest()
    for text in newest.skipped:
        request.note(text)
    trained = load_agent(source.spec, newest.checkpoint)
    try:
        replay = open_replay(source.folder, source.spec, trained.agent, newest.checkpoint)
    except DamagedFile as error:
        raise UserError(f"{source.name} has no replay to draw from: {error}") from error
    if not replay.length:
        raise UserError(f"{source.name} has no steps in replay yet: train it first")
    return LoadedRun(source.name, source.spec, trained.agent, replay, trained.progress.steps)


@dataclass(frozen=True, slots=True)
class Episode:
    """Steps `start` to `end` of environment `env` in replay; all belong to one episode."""

    env: int
    start: int
    end: int

    def __len__(self) -> int:
        return self.end - self.start


def choose_episode(replay: ReplayStore, steps: int, rng: np.random.Generator) -> Episode:
    """A random episode of at least `steps` steps from the later half of replay, where the agent is
    best; if none is so long, the longest of all."""
    found = list(episodes(replay))
    later = [each for each in found if each.end > replay.length // 2 and len(each) >= steps]
    if not later:
        return max(found, key=len)
    return later[int(rng.integers(len(later)))]


def episodes(replay: ReplayStore) -> Iterator[Episode]:
    """All episodes, the first one of an environment from the first step in replay on."""
    for env in range(replay.num_envs):
        opens = np.flatnonzero(replay.records["first"][env])
        bounds = [0, *(int(time) for time in opens if time), replay.length]
        for start, end in itertools.pairwise(bounds):
            yield Episode(env, start, end)


def read(replay: ReplayStore, episode: Episode, start: int, steps: int) -> Segment:
    """`steps` steps from step `start` of an episode on, in one row."""
    return gather(replay, np.array([[episode.env, episode.start + start]]), steps)
