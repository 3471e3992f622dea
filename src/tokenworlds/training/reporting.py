"""The report of a run that stands in its folder: what was found out about it, gathered."""

from tokenworlds.agent import Agent
from tokenworlds.core.errors import Dreamless
from tokenworlds.core.seeding import numpy_generator, torch_generator
from tokenworlds.envs.catalogue import best_return
from tokenworlds.evaluation.dreams import DreamRows, choose_segment, dream_rows
from tokenworlds.evaluation.report import Report, RunFacts, write_report
from tokenworlds.evaluation.results import FILE, read_result
from tokenworlds.replay.store import DamagedReplay, ReplayStore
from tokenworlds.runs.folder import RunFolder
from tokenworlds.runs.metrics import read_metrics
from tokenworlds.runs.spec import RunSpec
from tokenworlds.training.evaluation import Trained

ROWS = 2
STEPS = 14
SEEN = 2
"""Frames that a dream is shown, or as many as its world reads as one."""


def report(folder: RunFolder, spec: RunSpec, agent: Agent, replay: ReplayStore | None) -> Report:
    """Write the page and its pictures; without replay, or a model, there is no dream to show."""
    env = spec.env
    return write_report(
        folder.path,
        facts=RunFacts(
            recipe=spec.recipe_name,
            size=spec.size,
            env=env.name,
            protocol=env.protocol,
            seed=spec.seed,
            steps=spec.recipe.steps,
            machine=folder.machine,
        ),
        events=read_metrics(folder.path),
        result=read_result(folder.path / FILE),
        best=best_return(env.name),
        dream=None if replay is None else dream_if_any(agent, replay, spec.seed),
    )


def dream_if_any(agent: Agent, replay: ReplayStore, seed: int) -> DreamRows | None:
    """What the world dreams of the latest steps; None if it does not dream at all."""
    try:
        return dream(agent, replay, seed)
    except Dreamless:
        return None


def dream(
    agent: Agent,
    replay: ReplayStore,
    seed: int,
    *,
    count: int = ROWS,
    horizon: int | None = None,
) -> DreamRows | None:
    """Some of the latest steps, and what the world dreams of them; None if there are too few.

    A horizon that is asked for must fit into replay.
    """
    seen = max(SEEN, getattr(agent.world, "frames", 1))
    length = min(STEPS, replay.length) if horizon is None else seen + horizon
    if length <= seen:
        return None
    rng = numpy_generator(seed, "report")
    segment = choose_segment(replay, count=count, length=length, generator=rng)
    generator = torch_generator(seed, "report", device=str(agent.device))
    return dream_rows(agent, segment, horizon=length - seen, generator=generator)


def reopen_replay(folder: RunFolder, trained: Trained) -> ReplayStore | None:
    """The replay that a checkpoint goes with, to be read; None if it is no longer there."""
    try:
        return look_back(folder, trained)
    except DamagedReplay:
        return None


def look_back(folder: RunFolder, trained: Trained) -> ReplayStore:
    """The replay that a checkpoint goes with; the run may go on writing to it meanwhile."""
    store = ReplayStore(
        folder.path / "replay",
        frame_shape=trained.agent.frame_shape,
        action_space=trained.agent.action_space,
        num_envs=trained.replay["layout"]["num_envs"],
    )
    store.look_back(trained.replay)
    return store
