"""A run begun, or taken up where it stopped, and judged when its steps are done."""

from collections.abc import Callable, Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tokenworlds.evaluation.episodes import EvaluationStopped
from tokenworlds.evaluation.player import Player
from tokenworlds.evaluation.results import FILE, Result, read_result, write_result
from tokenworlds.replay.store import ReplayStore
from tokenworlds.training.judgement import judge, load_player, no_checkpoint
from tokenworlds.training.loop import Loop, Screen
from tokenworlds.training.machine import describe_machine
from tokenworlds.training.recipe import build_schedule
from tokenworlds.training.rehearsal import rehearse, telling_what_does_not_fit
from tokenworlds.training.run_folder import RunFolder
from tokenworlds.training.schedule import Progress
from tokenworlds.training.spec import RunSpec

Stop = Callable[[], bool]


@dataclass(frozen=True, slots=True)
class Ending:
    """How a session ended: with a result and pictures of it, unless it was stopped before."""

    steps: int
    result: Result | None = None
    curve: Path | None = None
    page: Path | None = None


def start(spec: RunSpec, folder: RunFolder, screen: Screen, should_stop: Stop) -> Ending:
    """Train from nothing. What cannot be built leaves no folder behind."""
    folder.insist_on_vacancy()
    with telling_what_does_not_fit():
        loop = Loop(spec, folder, screen)
    with closing(loop):
        with telling_what_does_not_fit():
            rehearse(loop.job.player, spec.recipe, loop.job.envs.frame_shape)
        for text in remarks(loop.job.player):
            screen.note(text)
        folder.begin(spec)
        loop.begin()
        return train(loop, should_stop)


def remarks(player: Player) -> list[str]:
    """What the parts of an agent want to be known of themselves before they learn."""
    said = [getattr(module, "remark", "") for module in player.modules()]
    return [text for text in said if text]


def take_up(spec: RunSpec, folder: RunFolder, screen: Screen, should_stop: Stop) -> Ending:
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
            raise no_checkpoint(folder)
        return train(loop, should_stop)


def train(loop: Loop, should_stop: Stop) -> Ending:
    """Do the steps that are left, then judge."""
    outcome = loop.run(should_stop)
    if not outcome.finished:
        return Ending(outcome.progress.steps)
    player, replay = loop.job.player, loop.job.replay
    result = conclude(loop.folder, loop.spec, player, outcome.progress, should_stop)
    ending = Ending(outcome.progress.steps, result)
    return ending if result is None else picture(loop.folder, loop.spec, player, replay, ending)


def conclude(
    folder: RunFolder, spec: RunSpec, player: Player, progress: Progress, should_stop: Stop
) -> Result | None:
    """Judge a run whose work is done, unless that has happened already; None if stopped."""
    found = read_result(folder.path / FILE)
    episodes = spec.recipe.evaluation.final_episodes
    if found is not None and judges(found, spec, progress, episodes):
        return found
    try:
        result = judge(player, spec, progress, episodes=episodes, should_stop=should_stop)
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


def conclude_finished(spec: RunSpec, folder: RunFolder, should_stop: Stop) -> Ending | None:
    """See to it that a run whose work is done was judged; None if there is work to do."""
    schedule = build_schedule(spec.recipe)
    if folder.latest_step < schedule.age(schedule.goal):
        return None
    done = concluded(folder, schedule.goal)
    if done is not None:
        return done
    trained = load_player(folder, spec)
    if not trained.progress.reaches(schedule.goal):
        return None
    result = conclude(folder, spec, trained.player, trained.progress, should_stop)
    ending = Ending(trained.progress.steps, result)
    if result is None:
        return ending
    # Imported here because its pictures take a while, which a run should not begin with.
    from tokenworlds.training.reporting import reopen_replay

    replay = reopen_replay(folder, trained)
    return picture(folder, spec, trained.player, replay, ending)


def concluded(folder: RunFolder, goal: Progress) -> Ending | None:
    """The ending of a run that was judged at its goal, if its pictures are there too."""
    result = read_result(folder.path / FILE)
    curve, page = folder.path / "curve.png", folder.path / "report.html"
    if result is None or not is_of(result, goal) or not (curve.exists() and page.exists()):
        return None
    return Ending(goal.steps, result, curve, page)


def picture(
    folder: RunFolder, spec: RunSpec, player: Player, replay: ReplayStore | None, ending: Ending
) -> Ending:
    """Write the report of a run that was judged."""
    from tokenworlds.training.reporting import report

    written = report(folder, spec, player, replay)
    return replace(ending, curve=written.curve, page=written.page)


def changes(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """A word on each package that is not the one the run was begun with."""
    had, has = before.get("packages", {}), now["packages"]
    return [
        f"begun with {name} {had[name]}, going on with {has.get(name, 'none')}: "
        "the run may differ from one that was never stopped"
        for name in had
        if has.get(name) != had[name]
    ]
