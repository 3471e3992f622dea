"""Run a training session with a screen and signal handlers, and print how it ended."""

import contextlib
import json
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

from tokenworlds.commands.errors import Failure, explaining_disk_errors, resume_hint
from tokenworlds.commands.screen import open_screen, print_note
from tokenworlds.core.errors import UserError
from tokenworlds.core.group import RankLost, current_group
from tokenworlds.core.protocols import Screen
from tokenworlds.envs.catalogue import best_return
from tokenworlds.envs.vector import EnvironmentFailed
from tokenworlds.evaluation.results import Result, to_document
from tokenworlds.runs.folder import RunFolder
from tokenworlds.runs.spec import RunSpec
from tokenworlds.training import session
from tokenworlds.training.callbacks import CallbackFailed
from tokenworlds.training.learner import NonFiniteLoss
from tokenworlds.training.session import SessionEnd

SIGNALS = (signal.SIGINT, signal.SIGTERM)
Session = Callable[[RunSpec, RunFolder, Screen, "Interruption"], SessionEnd]


FORWARDED = 2.0
"""Seconds within which torchrun passes on a signal that its processes may have had already."""


class Interruption:
    """Whether a signal asked the run to stop. A second signal raises `KeyboardInterrupt`."""

    def __init__(self) -> None:
        self.signal: int | None = None
        self._since = 0.0
        self._notify: Callable[[], None] = lambda: None

    def __call__(self) -> bool:
        return self.signal is not None

    @property
    def exit_code(self) -> int:
        """130 after Ctrl-C, 143 after SIGTERM, as shells expect."""
        return 0 if self.signal is None else 128 + self.signal

    @contextlib.contextmanager
    def listening(self, notify: Callable[[], None]) -> Iterator[None]:
        """Handle signals within the block; the handler of the first one calls `notify`."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        self._notify = notify
        before = {number: signal.signal(number, self._handle) for number in SIGNALS}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.signal is not None:
            if current_group().size > 1 and time.monotonic() - self._since < FORWARDED:
                return
            raise KeyboardInterrupt
        self.signal, self._since = number, time.monotonic()
        self._notify()


def run_session(work: Session, spec: RunSpec, folder: RunFolder, as_json: bool = False) -> int:
    """Run `session.start` or `session.resume`; returns the exit code.

    With `as_json`, stdout holds one document at the end, and all else goes to stderr.
    """
    interruption = Interruption()
    try:
        with (
            contextlib.redirect_stdout(sys.stderr) if as_json else contextlib.nullcontext(),
            explaining_disk_errors(folder.path),
            open_screen(spec, folder.path) as screen,
            interruption.listening(screen.stopping),
        ):
            end = work(spec, folder, screen, interruption)
    except (EnvironmentFailed, CallbackFailed) as error:
        raise UserError(f"{error}{resume_hint(folder.path)}") from error
    except NonFiniteLoss as error:
        raise Failure(f"{error}; the last checkpoint is in {folder.path}") from error
    except RankLost as error:
        raise Failure(f"{error}{resume_hint(folder.path, current_group().size)}") from error
    if not current_group().leads:
        return interruption.exit_code
    if as_json:
        print(json.dumps(end_document(end, folder), indent=2))
        return 0 if end.result is not None else interruption.exit_code
    return print_end(end, folder, interruption)


def end_document(end: SessionEnd, folder: RunFolder) -> dict[str, Any]:
    """How a session ended; `evaluation` is None if it was stopped."""
    return {
        "folder": str(folder.path),
        "agent_steps": end.steps,
        "ended": end.ended or None,
        "evaluation": None if end.result is None else to_document(end.result),
        "curve": None if end.curve is None else str(end.curve),
        "report": None if end.page is None else str(end.page),
    }


def finish(spec: RunSpec, folder: RunFolder) -> int | None:
    """Evaluate and report a trained run; returns the exit code, None if training is not over."""
    interruption = Interruption()
    with explaining_disk_errors(folder.path), interruption.listening(lambda: None):
        end = session.finish(spec, folder, interruption, print_note)
    if end is not None and not end.ended:
        print(f"All {end.steps:,} steps of this run are done.")
    return None if end is None else print_end(end, folder, interruption)


def print_end(end: SessionEnd, folder: RunFolder, interruption: Interruption) -> int:
    """Print the score and the files, or how to resume; returns the exit code."""
    if end.result is None:
        print(f"Stopped at step {end.steps:,}; continue with: tokenworlds resume {folder.path}")
        return interruption.exit_code
    if end.ended:
        print(f"stopped early at step {end.steps:,}: {end.ended}")
    print(f"score   {score_text(end.result)}")
    print(f"folder  {folder.path}")
    print(f"curve   {end.curve}")
    print(f"report  {end.page}")
    return 0


def score_text(result: Result) -> str:
    """The mean return; below it the best possible and random returns, and Crafter's score."""
    count = result.score.episodes
    episodes = f"{count} episode" if count == 1 else f"{count} episodes"
    played = f"over {episodes} of {result.env}, protocol {result.protocol}"
    beside = []
    best = best_return(result.env)
    if best is not None:
        beside.append(f"{result.score.mean / best:.0%} of the best possible {best:g}")
    if result.random_score is not None:
        beside.append(f"random policy: {result.random_score}")
    lines = [f"{result.score} {played}", "; ".join(beside), *crafter_lines(result)]
    return "\n        ".join(lines)


def crafter_lines(result: Result) -> list[str]:
    """Crafter's score and the success rate of each achievement, where there are any.

    The training episodes are Crafter's own convention, those of the evaluation ours.
    """
    if result.crafter is None:
        return []
    training = result.training
    columns = {
        "evaluation": result.crafter,
        "random": result.random_crafter,
        "training": training.crafter if training else None,
    }
    found = {name: score for name, score in columns.items() if score is not None}
    lines = [f"{'Crafter score':22}" + "".join(f"{s!s:>12}" for s in found.values())]
    for name in result.crafter.success:
        rates = (score.success.get(name, 0.0) for score in found.values())
        lines.append(f"  {name:20}" + "".join(f"{rate:10.1f} %" for rate in rates))
    head = [" " * 22 + "".join(f"{name:>12}" for name in found), *lines]
    if training is None:
        return head
    return [
        *head,
        f"evaluation: {result.score.episodes} episodes of this agent; training: all "
        f"{training.episodes:,} episodes of {result.agent_steps:,} steps, mean return "
        f"{training.mean_return:.2f} (Crafter's own convention)",
    ]
