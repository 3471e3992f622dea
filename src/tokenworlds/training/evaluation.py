"""Load the agent of a run, evaluate it, and write the report of the run."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from tokenworlds.agent import Agent, OpenedAgent, Training
from tokenworlds.core.errors import NoModel, UserError
from tokenworlds.core.progress import Progress
from tokenworlds.core.seeding import numpy_generator, torch_generator
from tokenworlds.core.trees import map_tensors
from tokenworlds.core.types import Segment
from tokenworlds.envs.catalogue import EnvSpec, best_return
from tokenworlds.evaluation.dreams import DreamRows, dream_rows, sample_segment
from tokenworlds.evaluation.episodes import Episode, evaluate, evaluation_seed
from tokenworlds.evaluation.results import Result, TrainingEpisodes, info_by_name
from tokenworlds.replay.store import ReplayStore
from tokenworlds.runs.checkpoint import Checkpoint, explaining_misfits
from tokenworlds.runs.events import read_metrics
from tokenworlds.runs.folder import RunFolder
from tokenworlds.runs.spec import RunSpec
from tokenworlds.training.trainer import progress_of

if TYPE_CHECKING:
    from tokenworlds.evaluation.report import ReportFiles

ROWS = 2
STEPS = 14
CONTEXT = 2
"""Real frames before a dream, unless the world needs more."""


@dataclass(frozen=True, slots=True)
class TrainedAgent:
    """The agent of a checkpoint with its training, and the hash of the checkpoint's manifest."""

    agent: Agent
    progress: Progress
    manifest: str
    collected: TrainingEpisodes
    ended: str = ""


def load_agent(spec: RunSpec, checkpoint: Checkpoint) -> TrainedAgent:
    """Load the agent of a run without its replay and optimisers."""
    with explaining_misfits(checkpoint):
        progress = progress_of(checkpoint)
        collected = TrainingEpisodes(**checkpoint.state.get("collected", {}))
    return TrainedAgent(Agent.restore(spec, checkpoint), progress, checkpoint.manifest, collected)


def open_replay(
    folder: RunFolder, spec: RunSpec, agent: Agent, checkpoint: Checkpoint
) -> ReplayStore:
    """The replay of a checkpoint, read-only: the run may append to it meanwhile."""
    store = ReplayStore(
        folder.path / "replay",
        frame_shape=agent.frame_shape,
        action_space=agent.action_space,
        num_envs=spec.recipe.num_envs,
    )
    with explaining_misfits(checkpoint):
        store.load(checkpoint.state["replay"])
    return store


def evaluate_run(
    trained: TrainedAgent,
    spec: RunSpec,
    *,
    episodes: int,
    env: EnvSpec | None = None,
    seed: int | None = None,
    temperature: float | None = None,
    processes: int | None = None,
    should_stop: Callable[[], bool] = lambda: False,
) -> Result:
    """Play episodes with the agent and with random actions.

    Environment, seed and temperature default to the run's, processes to its threads.
    """
    env, seed = env or spec.env, spec.seed if seed is None else seed
    if temperature is None:
        temperature = spec.recipe.evaluation.temperature
    played, random = evaluate(
        [trained.agent, None],
        env,
        episodes=episodes,
        seed=evaluation_seed(seed, trained.progress.steps, final=True),
        temperature=temperature,
        processes=processes or spec.threads,
        should_stop=should_stop,
    )
    return Result(
        recipe=spec.recipe_name,
        size=spec.size,
        env=env.name,
        protocol=env.protocol,
        seed=seed,
        temperature=temperature,
        **training_of(trained),
        seeds=tuple(episode.seed for episode in played),
        **by_episode("", played),
        **by_episode("random_", random),
    )


def evaluate_saved(
    opened: OpenedAgent,
    *,
    episodes: int | None = None,
    protocol: str = "",
    seed: int | None = None,
    temperature: float | None = None,
    processes: int = 1,
) -> Result:
    """The result of an agent without its run, as `evaluate_run` makes it."""
    agent, training = opened.agent, opened.training or Training("", "", 0, 0)
    if opened.env is None or agent.recipe is None:
        raise UserError("this agent does not know its environment: save it again from its run")
    usual, env = agent.recipe.evaluation, opened.env
    env = replace(env, protocol=protocol or env.protocol)
    seed = training.seed if seed is None else seed
    temperature = usual.temperature if temperature is None else temperature
    played, random = evaluate(
        [agent, None],
        env,
        episodes=episodes or usual.final_episodes,
        seed=evaluation_seed(seed, training.steps, final=True),
        temperature=temperature,
        processes=processes,
    )
    return Result(
        recipe=training.recipe,
        size=training.size,
        env=env.name,
        protocol=env.protocol,
        seed=seed,
        temperature=temperature,
        agent_steps=training.steps,
        updates=0,
        gradient_steps=0,
        seeds=tuple(episode.seed for episode in played),
        **by_episode("", played),
        **by_episode("random_", random),
    )


def training_of(trained: TrainedAgent) -> dict[str, Any]:
    """The fields of a result that say how long its agent had trained."""
    progress = trained.progress
    return {
        "agent_steps": progress.steps,
        "updates": progress.update_count,
        "gradient_steps": progress.gradient_steps,
        "checkpoint": trained.manifest,
        "training": trained.collected if trained.collected.unlocked else None,
        "ended": trained.ended,
    }


def by_episode(prefix: str, played: Sequence[Episode]) -> dict[str, Any]:
    """The fields of a result that hold a value for each episode."""
    return {
        f"{prefix}returns": tuple(episode.score for episode in played),
        f"{prefix}lengths": tuple(episode.length for episode in played),
        f"{prefix}info": info_by_name([episode.info for episode in played]),
    }


def report_run(
    folder: RunFolder,
    spec: RunSpec,
    agent: Agent,
    replay: ReplayStore | None,
    result: Result,
    note: Callable[[str], None],
) -> "ReportFiles":
    """Write report.html and its pictures, with a dream if there are replay and a world model."""
    # Imported here because matplotlib is slow to import.
    from tokenworlds.evaluation.report import write_report

    events, notes = read_metrics(folder.path)
    for text in notes:
        note(text)
    return write_report(
        folder.path,
        spec=spec,
        machine=folder.machine,
        events=events,
        result=result,
        best=best_return(spec.env.name),
        dream=None if replay is None else dream_if_possible(agent, replay, spec.seed),
    )


def dream_if_possible(agent: Agent, replay: ReplayStore, seed: int) -> DreamRows | None:
    try:
        return dream_from_replay(agent, replay, seed)
    except NoModel:
        return None


def dream_from_replay(
    agent: Agent,
    replay: ReplayStore,
    seed: int,
    *,
    count: int = ROWS,
    horizon: int | None = None,
    told: Callable[[int], None] = lambda steps: None,
) -> DreamRows | None:
    """Dreams beside recent recorded steps; None if there are too few steps.

    A given horizon must fit into replay. `told` hears how many steps are left.
    """
    context = max(CONTEXT, agent.world.frames)
    length = min(STEPS, replay.length) if horizon is None else context + horizon
    if length <= context:
        return None
    rng = numpy_generator(seed, "report")
    segment = sample_segment(replay, count=count, length=length, generator=rng)
    generator = torch_generator(seed, "report", device=str(agent.device))
    horizon = length - context
    return dream_rows(agent, segment, horizon=horizon, generator=generator, told=told)


def dream_of_segment(
    agent: Agent,
    segment: Segment,
    seed: int,
    count: int,
    horizon: int | None,
    told: Callable[[int], None],
) -> DreamRows:
    """Dreams beside some rows of a segment, whose choice depends on the seed."""
    context = max(CONTEXT, agent.world.frames)
    length = segment.first.shape[1] if horizon is None else context + horizon
    if length > segment.first.shape[1] or length <= context:
        most = segment.first.shape[1] - context
        raise UserError(f"the recorded steps allow a horizon of 1 to {most}, not {horizon}")
    rows = numpy_generator(seed, "report").permutation(len(segment.first))[:count]
    chosen = torch.from_numpy(np.sort(rows))
    shown = map_tensors(lambda leaf: leaf[chosen], segment).window(slice(length))
    generator = torch_generator(seed, "report", device=str(agent.device))
    return dream_rows(agent, shown, horizon=length - context, generator=generator, told=told)
