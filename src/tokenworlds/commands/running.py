"""A session in front of a user: the screen, Ctrl-C, and what is said at the end."""

from collections.abc import Callable
from functools import partial

from tokenworlds.commands.failures import Failure, naming_the_disk
from tokenworlds.envs.catalogue import best_return
from tokenworlds.evaluation.results import Result
from tokenworlds.runs.folder import RunFolder
from tokenworlds.runs.spec import RunSpec
from tokenworlds.terminal.screen import Heading, StoppableScreen, open_screen
from tokenworlds.training import session
from tokenworlds.training.interruption import Interruption
from tokenworlds.training.learner import NonFiniteLoss
from tokenworlds.training.session import SessionEnd

Work = Callable[[StoppableScreen, Interruption], SessionEnd]


def start(spec: RunSpec, folder: RunFolder) -> int:
    """Train from nothing."""
    return attend(spec, folder, partial(session.start, spec, folder))


def take_up(spec: RunSpec, folder: RunFolder) -> int:
    """Train on from the last checkpoint."""
    return attend(spec, folder, partial(session.take_up, spec, folder))


def finish(spec: RunSpec, folder: RunFolder) -> int | None:
    """Judge a run whose steps are done, if that is still to be done; None if steps are left."""
    interruption = Interruption()
    with naming_the_disk(folder.path), interruption.listening(lambda: None):
        end = session.conclude_finished(spec, folder, interruption)
    if end is not None:
        print(f"All {end.steps:,} steps of this run are done.")
    return None if end is None else conclude(end, folder, interruption)


def attend(spec: RunSpec, folder: RunFolder, work: Work) -> int:
    """Work with a screen and an ear for signals; returns the exit code."""
    interruption = Interruption()
    heading = Heading.of(spec, folder.path, best_return(spec.env.name))
    try:
        with (
            naming_the_disk(folder.path),
            open_screen(heading) as screen,
            interruption.listening(screen.stopping),
        ):
            end = work(screen, interruption)
    except NonFiniteLoss as error:
        raise Failure(f"{error}; the last good state is kept in {folder.path}") from error
    return conclude(end, folder, interruption)


def conclude(end: SessionEnd, folder: RunFolder, interruption: Interruption) -> int:
    """Say how a session ended: with a score and pictures, or how to go on; the exit code."""
    if end.result is None:
        print(f"Stopped at step {end.steps:,}; go on with: tokenworlds resume {folder.path}")
        return interruption.exit_code
    print(f"score   {verdict(end.result)}")
    print(f"folder  {folder.path}")
    print(f"curve   {end.curve}")
    print(f"report  {end.page}")
    return 0


def verdict(result: Result) -> str:
    """The mean return and, on lines below, what is possible, what chance brings, and more."""
    count = result.score.episodes
    episodes = f"{count} episode" if count == 1 else f"{count} episodes"
    played = f"over {episodes} of {result.env}, protocol {result.protocol}"
    beside = []
    best = best_return(result.env)
    if best is not None:
        beside.append(f"{result.score.mean / best:.0%} of the best possible {best:g}")
    if result.random_score is not None:
        beside.append(f"a random policy: {result.random_score}")
    lines = [f"{result.score} {played}", "; ".join(beside), *crafter_lines(result)]
    return "\n        ".join(lines)


def crafter_lines(result: Result) -> list[str]:
    """The Crafter score and how often each achievement was unlocked, where they are counted."""
    score, chance = result.crafter, result.random_crafter
    if score is None:
        return []
    if chance is None:
        return [f"Crafter score {score}", *map(success_line, score.success.items())]
    by_chance = chance.success
    return [
        f"Crafter score {score}; a random policy: {chance}",
        *(f"{success_line(item)}   {by_chance[item[0]]:5.1f} %" for item in score.success.items()),
    ]


def success_line(item: tuple[str, float]) -> str:
    """An achievement and the share of episodes in which it was unlocked."""
    return f"  {item[0]:20}{item[1]:5.1f} %"
