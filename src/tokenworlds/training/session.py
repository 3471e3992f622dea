"""Start or resume a run, train it to the end, then evaluate it and write its report."""

import contextlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from tokenworlds.agent import Agent
from tokenworlds.core.capabilities import HasRemark
from tokenworlds.core.errors import UserError
from tokenworlds.core.files import DamagedFile
from tokenworlds.core.group import Group, current_group
from tokenworlds.core.progress import Progress
from tokenworlds.core.protocols import Screen
from tokenworlds.envs.vector import EnvironmentFailed
from tokenworlds.evaluation.episodes import EvaluationStopped
from tokenworlds.evaluation.results import FILE, Result, read_result, write_result
from tokenworlds.replay.store import ReplayStore
from tokenworlds.runs import failure
from tokenworlds.runs.checkpoint import Checkpoint, explaining_misfits
from tokenworlds.runs.extension import schedule_of
from tokenworlds.runs.folder import RunFolder
from tokenworlds.runs.machine import describe_machine
from tokenworlds.runs.metrics import check_metrics
from tokenworlds.runs.spec import RunSpec
from tokenworlds.training.callbacks import Callback, CallbackFailed
from tokenworlds.training.dry_run import dry_run, naming_mismatches, untrained_positions
from tokenworlds.training.estimate import estimate, sentence
from tokenworlds.training.evaluation import (
    TrainedAgent,
    evaluate_run,
    load_agent,
    open_replay,
    report_run,
)
from tokenworlds.training.loop import Loop, ended_early, inexactness
from tokenworlds.training.origin import Fork, Origin, Weights
from tokenworlds.training.summary import component_parameters
from tokenworlds.training.trainer import progress_of

Stop = Callable[[], bool]
Note = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class SessionEnd:
    """How a session ended: without a result if it was stopped."""

    steps: int
    result: Result | None = None
    ended: str = ""
    """Why the run stopped early, if it did."""
    curve: Path | None = None
    page: Path | None = None


def start(
    spec: RunSpec,
    folder: RunFolder,
    screen: Screen,
    should_stop: Stop,
    command: str = "",
    on_event: Sequence[Callback] = (),
    origin: Origin | None = None,
) -> SessionEnd:
    """Train from scratch, or from an `origin`. A recipe that fails its dry run leaves no folder.

    `command` is the command that makes this run; run.json keeps it. `on_event` are told what
    happens.
    """
    group = current_group()
    spec = replace(spec, ranks=group.size)
    check_compilation(spec)
    group.lead(folder.check_unused)
    with naming_mismatches():
        loop = Loop(spec, folder, screen, on_event)
    with closing(loop):
        with naming_mismatches():
            dry_run(loop.trainer.agent, spec.recipe, loop.trainer.envs.frame_shape)
        agent = loop.trainer.agent
        for text in (
            *remarks(agent),
            *untrained_positions(agent, spec.recipe),
            *expectation(loop),
        ):
            screen.note(text)
        facts = {"command": command, "parameters": component_parameters(loop.trainer.agent)}
        begin(loop, facts, origin)
        return train(loop, should_stop)


def begin(loop: Loop, facts: Mapping[str, Any], origin: Origin | None) -> None:
    """Create the folder and its first checkpoint; what does not fit is refused before."""
    folder, agent = loop.folder, loop.trainer.agent
    if origin is not None:
        facts = {**facts, **origin.record}
    if isinstance(origin, Weights):
        origin.give_to(agent)
    begun = origin.checkpoint_for(loop.trainer) if isinstance(origin, Fork) else None
    loop.group.lead(lambda: folder.begin(loop.spec, facts))
    if isinstance(origin, Fork) and begun is not None:
        loop.trainer.replay.clear()
        loop.group.lead(partial(origin.copy_files, folder))
        loop.begin_from(begun)
    else:
        loop.begin()


def expectation(loop: Loop) -> list[str]:
    """A sentence about time and disk if the run is long; its screen shows the time left at once."""
    found = estimate(loop.trainer.agent, loop.spec, loop.goal)
    if found is None:
        return []
    loop.throughput.expected = found.rates
    return [sentence(found, loop.goal.steps, loop.episodes_left())]


def remarks(agent: Agent) -> list[str]:
    parts = [module for module in agent.modules() if isinstance(module, HasRemark)]
    return [part.remark for part in parts if part.remark]


def resume(
    spec: RunSpec,
    folder: RunFolder,
    screen: Screen,
    should_stop: Stop,
    with_replay: bool = True,
    on_event: Sequence[Callback] = (),
) -> SessionEnd:
    """Continue from the newest checkpoint."""
    check_ranks(spec, folder, current_group())
    with ExitStack() as stack:
        current_group().lead(folder.lock)
        stack.callback(folder.unlock)
        for text in version_warnings(folder.machine, describe_machine()):
            screen.note(text)
        loop = stack.enter_context(closing(Loop(spec, folder, screen, on_event)))
        loop.resume(with_replay)
        return train(loop, should_stop)


def check_ranks(spec: RunSpec, folder: RunFolder, group: Group) -> None:
    """Raise `UserError` for another number of ranks, whose sums would round differently."""
    if spec.ranks == group.size:
        return
    launch = "tokenworlds"
    if spec.ranks > 1:
        launch = f"torchrun --nproc-per-node {spec.ranks} -m tokenworlds"
    raise UserError(
        f"{folder.path} was started on {spec.ranks} ranks, not {group.size}: continue it with "
        f"'{launch} resume {folder.path}'"
    )


def check_compilation(spec: RunSpec) -> None:
    if spec.compiled and spec.ranks > 1:
        raise UserError(f"--compile works in one process, not on {spec.ranks} ranks: leave it out")


def version_warnings(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """A warning for each package whose version differs from that at the start of the run."""
    had, has = before.get("packages", {}), now["packages"]
    had = had if isinstance(had, dict) else {}
    return [
        f"started with {name} {had[name]}, resumed with {has.get(name, 'none')}: "
        "the result may differ from that of an uninterrupted run"
        for name in had
        if has.get(name) != had[name]
    ]


def train(loop: Loop, should_stop: Stop) -> SessionEnd:
    """Train to the end, evaluate and report; callbacks hear of the beginning and of the end.

    The folder keeps the error that ends a session, until the next one begins.
    """
    if loop.group.leads:
        failure.clear(loop.folder.path)
    try:
        end = train_to_the_end(loop, should_stop)
    except BaseException as error:
        if loop.group.leads and isinstance(error, Exception):
            failure.record(loop.folder.path, error)
        loop.happened("end", reason=f"{type(error).__name__}: {error}")
        # The error that ended the session must not be hidden by that of a callback.
        with contextlib.suppress(Exception):
            loop.deliver_alone()
        raise
    final = {} if end.result is None else final_values(end.result)
    reason = end.ended or "finished" if final else "stopped"
    loop.happened("end", reason=reason, values=final)
    loop.deliver()
    return end


def final_values(result: Result) -> dict[str, float | int]:
    return {"final/return": result.score.mean, "final/episodes": result.score.episodes}


def train_to_the_end(loop: Loop, should_stop: Stop) -> SessionEnd:
    """If an environment or a callback fails, the run is saved, so that it can be resumed."""
    try:
        loop.deliver()
        finished = loop.run(should_stop)
    except (EnvironmentFailed, CallbackFailed):
        loop.save()
        raise
    progress = loop.trainer.progress
    if not finished:
        return SessionEnd(progress.steps)
    return loop.group.lead(lambda: conclude(loop, should_stop))


def conclude(loop: Loop, should_stop: Stop) -> SessionEnd:
    """Evaluate and report a trained run."""
    progress = loop.trainer.progress
    trained = TrainedAgent(
        loop.trainer.agent, progress, loop.folder.saved, loop.collected, loop.ended
    )
    folder, spec, screen = loop.folder, loop.spec, loop.screen
    found = stored_result(folder, screen.note)
    result = final_result(folder, spec, trained, should_stop, found)
    end = SessionEnd(progress.steps, result, loop.ended)
    return add_report(folder, spec, trained.agent, loop.trainer.replay, screen.note, end)


def finish(spec: RunSpec, folder: RunFolder, should_stop: Stop, note: Note) -> SessionEnd | None:
    """Evaluate and report a trained run, unless that is done; None if training is not over."""
    schedule = schedule_of(spec)
    if folder.latest_step < schedule.step(schedule.goal) and spec.stop is None:
        return None
    newest = folder.newest()
    ended = ended_early(spec, newest.checkpoint)
    with explaining_misfits(newest.checkpoint):
        progress = progress_of(newest.checkpoint)
    if not ended and not progress.reaches(schedule.goal):
        return None
    if not newest.skipped:
        folder.complete_save(spec.recipe.housekeeping.keep, newest.checkpoint)
    with explaining_misfits(newest.checkpoint):
        state = newest.checkpoint.state
        changes = check_metrics(folder.path, state["metrics"])
        notes = [*newest.skipped, *changes, *inexactness(state["inexact"])]
    found = stored_result(folder, note)
    for text in notes:
        note(text)
    done = finished_session(folder, progress, newest.checkpoint, found)
    if done is not None:
        return done
    trained = replace(load_agent(spec, newest.checkpoint), ended=ended)
    result = final_result(folder, spec, trained, should_stop, found)
    end = SessionEnd(progress.steps, result, ended)
    try:
        replay = open_replay(folder, spec, trained.agent, newest.checkpoint)
    except DamagedFile as error:
        note(f"{error}; the report has no dream")
        replay = None
    return add_report(folder, spec, trained.agent, replay, note, end)


def final_result(
    folder: RunFolder,
    spec: RunSpec,
    trained: TrainedAgent,
    should_stop: Stop,
    found: Result | None,
) -> Result | None:
    """The final evaluation, which may be the one that was found; None if stopped."""
    episodes = spec.recipe.evaluation.final_episodes
    if found is not None and is_final(found, spec, trained, episodes):
        return found
    try:
        result = evaluate_run(trained, spec, episodes=episodes, should_stop=should_stop)
    except EvaluationStopped:
        return None
    write_result(folder.path / FILE, result)
    return result


def stored_result(folder: RunFolder, note: Note) -> Result | None:
    """The result in evaluation.json; None, with a note, if the file was changed."""
    try:
        return read_result(folder.path / FILE)
    except DamagedFile as error:
        note(f"{error}; it is not used")
        return None


def is_final(result: Result, spec: RunSpec, trained: TrainedAgent, episodes: int) -> bool:
    """Whether a result is that of the trained agent, with the run's protocol and episodes."""
    same_protocol = result.protocol == spec.env.protocol
    same_agent = result.checkpoint == trained.manifest and is_at(result, trained.progress)
    return same_protocol and len(result.returns) >= episodes and same_agent


def is_at(result: Result, progress: Progress) -> bool:
    return (result.agent_steps, result.updates) == (progress.steps, progress.update_count)


def finished_session(
    folder: RunFolder, end: Progress, newest: Checkpoint, result: Result | None
) -> SessionEnd | None:
    """The end of a run that was evaluated at its end and has its report; else None."""
    curve, page = folder.path / "curve.png", folder.path / "report.html"
    if result is None or result.checkpoint != newest.manifest or not is_at(result, end):
        return None
    if not (curve.exists() and page.exists()):
        return None
    return SessionEnd(end.steps, result, result.ended, curve, page)


def add_report(
    folder: RunFolder,
    spec: RunSpec,
    agent: Agent,
    replay: ReplayStore | None,
    note: Note,
    end: SessionEnd,
) -> SessionEnd:
    """Write the report of a run that has its result."""
    if end.result is None:
        return end
    written = report_run(folder, spec, agent, replay, end.result, note)
    return replace(end, curve=written.curve, page=written.page)
