"""A run begun, or taken up where it stopped, and judged when its steps are done."""

from collections.abc import Callable, Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tokenworlds.agent import Agent
from tokenworlds.core.progress import Progress
from tokenworlds.evaluation.episodes import EvaluationStopped
from tokenworlds.evaluation.results import FILE, Result, read_result, write_result
from tokenworlds.replay.store import ReplayStore
from tokenworlds.runs.folder import RunFolder
from tokenworlds.runs.machine import describe_machine
from tokenworlds.runs.recipe import build_schedule
from tokenworlds.runs.spec import RunSpec
from tokenworlds.training.dry_run import rehearse, telling_what_does_not_fit
from tokenworlds.training.evaluation import judge, load_agent
from tokenworlds.training.loop import Loop, Screen

Stop = Callable[[], bool]


@dataclass(frozen=True, slots=True)
class SessionEnd:
    """How a session ended: with a result and pictures of it, unless it was stopped before."""

    steps: int
    result: Result | None = None
    curve: Path | None = None
    page: Path | None = None


def start(spec: RunSpec, folder: RunFolder, screen: Screen, should_stop: Stop) -> SessionEnd:
    """Train from nothing. What cannot be built leaves no folder behind."""
    folder.insist_on_vacancy()
    with telling_what_does_not_fit():
        loop = Loop(spec, folder, screen)
    with closing(loop):
        with telling_what_does_not_fit():
            rehearse(loop.job.agent, spec.recipe, loop.job.envs.frame_shape)
        for text in remarks(loop.job.agent):
            screen.note(text)
        folder.begin(spec)
        loop.begin()
        return train(loop, should_stop)


def remarks(agent: Agent) -> list[str]:
    """What the parts of an agent want to be known of themselves before they learn."""
    said = [getattr(module, "remark", "") for module in agent.modules()]
    return [text for text in said if text]


def take_up(spec: RunSpec, folder: RunFolder, screen: Screen, should_stop: Stop) -> SessionEnd:
    """Go on where the run stopped; one that was killed before its first checkpoint starts anew."""
    with ExitStack() as stack:
        folder.lock()
        stack.callback(folder.unlock)
        for text in changes(folder.machine, describe_machine()):
            screen.note(text)
        loop = stack.enter_context(closing(Loop(spec, folder, screen)))
        if not folder.has_checkpoints:
            loop.begin()
        elif not loop.resume():
            raise folder.no_checkpoint()
        return train(loop, should_stop)


def train(loop: Loop, should_stop: Stop) -> SessionEnd:
    """Do the steps that are left, then judge."""
    outcome = loop.run(should_stop)
    if not outcome.finished:
        return SessionEnd(outcome.progress.steps)
    agent, replay = loop.job.agent, loop.job.replay
    result = conclude(loop.folder, loop.spec, agent, outcome.progress, should_stop)
    end = SessionEnd(outcome.progress.steps, result)
    return end if result is None else picture(loop.folder, loop.spec, agent, replay, end)


def conclude(
    folder: RunFolder, spec: RunSpec, agent: Agent, progress: Progress, should_stop: Stop
) -> Result | None:
    """Judge a run whose work is done, unless that has happened already; None if stopped."""
    found = read_result(folder.path / FILE)
    episodes = spec.recipe.evaluation.final_episodes
    if found is not None and judges(found, spec, progress, episodes):
        return found
    try:
        result = judge(agent, spec, progress, episodes=episodes, should_stop=should_stop)
    except EvaluationStopped:
        return None
    write_result(folder.path / FILE, result)
    return result


def judges(result: Result, spec: RunSpec, progress: Progress, episodes: int) -> bool:
    """Whether a result is of this moment, by the run's own protocol and enough episodes."""
    ours = result.protocol == spec.env.protocol and len(result.returns) >= episodes
    return ours and is_of(result, progress)


def is_of(result: Result, progress: Progress) -> bool:
    """Whether a result is of this moment of a run."""
    return (result.agent_steps, result.updates) == (progress.steps, progress.update_count)


def conclude_finished(spec: RunSpec, folder: RunFolder, should_stop: Stop) -> SessionEnd | None:
    """See to it that a run whose work is done was judged; None if there is work to do."""
    schedule = build_schedule(spec.recipe)
    if folder.latest_step < schedule.step(schedule.goal):
        return None
    done = concluded(folder, schedule.goal)
    if done is not None:
        return done
    trained = load_agent(folder, spec)
    if not trained.progress.reaches(schedule.goal):
        return None
    result = conclude(folder, spec, trained.agent, trained.progress, should_stop)
    end = SessionEnd(trained.progress.steps, result)
    if result is None:
        return end
    # Imported here because its pictures take a while, which a run should not begin with.
    from tokenworlds.training.reporting import reopen_replay

    replay = reopen_replay(folder, trained)
    return picture(folder, spec, trained.agent, replay, end)


def concluded(folder: RunFolder, goal: Progress) -> SessionEnd | None:
    """The ending of a run that was judged at its goal, if its pictures are there too."""
    result = read_result(folder.path / FILE)
    curve, page = folder.path / "curve.png", folder.path / "report.html"
    if result is None or not is_of(result, goal) or not (curve.exists() and page.exists()):
        return None
    return SessionEnd(goal.steps, result, curve, page)


def picture(
    folder: RunFolder, spec: RunSpec, agent: Agent, replay: ReplayStore | None, end: SessionEnd
) -> SessionEnd:
    """Write the report of a run that was judged."""
    from tokenworlds.training.reporting import report

    written = report(folder, spec, agent, replay)
    return replace(end, curve=written.curve, page=written.page)


def changes(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """A word on each package that is not the one the run was begun with."""
    had, has = before.get("packages", {}), now["packages"]
    return [
        f"begun with {name} {had[name]}, going on with {has.get(name, 'none')}: "
        "the run may differ from one that was never stopped"
        for name in had
        if has.get(name) != had[name]
    ]
