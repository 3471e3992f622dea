"""Callbacks: functions called with each event of a run. Trackers are built on them."""

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from tokenworlds.core.errors import UserError
from tokenworlds.runs.spec import RunSpec

EventKind = Literal["start", "log", "evaluation", "checkpoint", "best", "end"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Event:
    """Something that happened in a run after `agent_steps` steps.

    - start: a session begins; `resumed` says whether the run continues.
    - log, evaluation: `values` are those of a line of metrics.jsonl.
    - checkpoint, best: a checkpoint was written to `path`.
    - end: the session ends, because of `reason`: finished, stopped, or a sentence about a failure.
      After a final evaluation, `values` holds its mean return and number of episodes.
    """

    kind: EventKind
    run: Path
    spec: RunSpec
    agent_steps: int
    values: Mapping[str, float | int] = field(default_factory=dict)
    path: Path | None = None
    resumed: bool = False
    reason: str = ""


Callback = Callable[[Event], None]


class CallbackFailed(UserError):
    """A callback raised an exception. The run was saved and can be resumed."""


def deliver(events: Sequence[Event], callbacks: Sequence[Callback]) -> None:
    """Tell every callback about every event, in order."""
    for event in events:
        for callback in callbacks:
            with naming_the_callback(callback, event):
                callback(event)


@contextlib.contextmanager
def naming_the_callback(callback: Callback, event: Event) -> Iterator[None]:
    """Turn an exception of a callback into one sentence; a full disk has its own."""
    try:
        yield
    except (UserError, OSError):
        raise
    except Exception as error:
        name = getattr(callback, "__qualname__", type(callback).__qualname__)
        reason = f"{type(error).__name__}: {error}".splitlines()[0]
        raise CallbackFailed(
            f"the callback {name} failed at step {event.agent_steps:,} ({event.kind}): {reason}"
        ) from error
