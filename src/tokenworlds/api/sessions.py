"""Run a training session from Python."""

import contextlib
import signal
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tokenworlds.commands.errors import explaining_disk_errors, resume_hint
from tokenworlds.commands.running import Interruption, Session
from tokenworlds.commands.screen import open_screen, print_note
from tokenworlds.core.errors import UserError
from tokenworlds.core.group import current_group
from tokenworlds.core.protocols import Screen
from tokenworlds.envs.vector import EnvironmentFailed
from tokenworlds.runs.folder import RunFolder
from tokenworlds.runs.spec import RunSpec
from tokenworlds.training.callbacks import Callback, CallbackFailed

Callbacks = Callback | Sequence[Callback]


class NoScreen:
    """Shows nothing but notes, on stderr."""

    def event(self, event: Mapping[str, Any]) -> None: ...

    def progress(
        self, steps: int, rates: Mapping[str, float], seconds_left: float | None, share: float
    ) -> None: ...

    def note(self, text: str) -> None:
        print_note(text)


def run_session(work: Session, spec: RunSpec, folder: RunFolder, progress: bool) -> None:
    """Run `session.start` or `session.resume`; a signal saves the run before it is raised."""
    interruption = Interruption()
    try:
        with (
            explaining_disk_errors(folder.path),
            showing(spec, folder.path, progress, interruption) as screen,
        ):
            work(spec, folder, screen, interruption)
    except (EnvironmentFailed, CallbackFailed) as error:
        raise UserError(f"{error}{resume_hint(folder.path)}") from error
    if interruption.signal == signal.SIGINT:
        raise KeyboardInterrupt(f"saved: tw.Run.open({str(folder.path)!r}).resume() continues")
    if interruption.signal is not None:
        raise SystemExit(interruption.exit_code)


@contextlib.contextmanager
def showing(
    spec: RunSpec, folder: Path, progress: bool, interruption: Interruption
) -> Iterator[Screen]:
    """The live display in a terminal, lines in a notebook or file; signals are handled."""
    if not progress and current_group().leads:
        with interruption.listening(lambda: None):
            yield NoScreen()
        return
    with open_screen(spec, folder) as screen, interruption.listening(screen.stopping):
        yield screen


def listed(on_event: Callbacks | None) -> tuple[Callback, ...]:
    """One callback, several or none."""
    if on_event is None:
        return ()
    return (on_event,) if callable(on_event) else tuple(on_event)
