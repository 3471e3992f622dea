"""A session in front of a user: the screen, Ctrl-C, and what is said at the end."""

from collections.abc import Callable
from functools import partial

from tokenworlds.commands.failures import Failure, disk_error
from tokenworlds.envs.catalogue import best_return
from tokenworlds.evaluation.results import Result
from tokenworlds.training import session
from tokenworlds.training.interruption import Interruption
from tokenworlds.training.learner import NonFiniteLoss
from tokenworlds.training.run_folder import RunFolder
from tokenworlds.training.screen import Heading, StoppableScreen, open_screen
from tokenworlds.training.session import Ending
from tokenworlds.training.spec import RunSpec

Work = Callable[[StoppableScreen, Interruption], Ending]


def start(spec: RunSpec, folder: RunFolder) -> int:
    """Train from nothing."""
    return attend(spec, folder, partial(session.start, spec, folder))


def take_up(spec: RunSpec, folder: RunFolder) -> int:
    """Train on from the last checkpoint."""
    return attend(spec, folder, partial(session.take_up, spec, folder))


def attend(spec: RunSpec, folder: RunFolder, work: Work) -> int:
    """Work with a screen and an ear for signals; returns the exit code."""
    interruption = Interruption()
    heading = Heading.of(spec, folder.path, best_return(spec.env.name))
    try:
        with open_screen(heading) as screen, interruption.listening(screen.stopping):
            ending = work(screen, interruption)
    except NonFiniteLoss as error:
        raise Failure(f"{error}; the last good state is kept in {folder.path}") from error
    except OSError as error:
        raise disk_error(error, folder.path) or error from error
    if ending.result is None:
        print(f"Stopped at step {ending.steps:,}; go on with: tokenworlds resume {folder.path}")
        return interruption.exit_code
    tell(ending, ending.result, folder)
    return 0


def tell(ending: Ending, result: Result, folder: RunFolder) -> None:
    """Score, folder and pictures of a run that is done."""
    print(f"score   {verdict(result)}")
    print(f"folder  {folder.path}")
    print(f"curve   {ending.curve}")
    print(f"report  {ending.page}")


def verdict(result: Result) -> str:
    """The mean return, beside what is possible and what chance brings."""
    beside = []
    best = best_return(result.env)
    if best is not None:
        beside.append(f"{result.score.mean / best:.0%} of the best possible {best:g}")
    if result.random_score is not None:
        beside.append(f"a random policy: {result.random_score.mean:.2f}")
    played = f"over {result.score.episodes} episodes of {result.env}, protocol {result.protocol}"
    return f"{result.score} {played}" + (f" ({'; '.join(beside)})" if beside else "")
