"""Where a run shows itself: on a terminal as a live screen, elsewhere as plain lines."""

import contextlib
import os
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from rich.console import Console

from tokenworlds.runs.spec import RunSpec
from tokenworlds.terminal import formatting
from tokenworlds.training.loop import Screen
from tokenworlds.training.throughput import EPISODES

STOPPING = "stopping after this phase; Ctrl-C again leaves at once"


@runtime_checkable
class StoppableScreen(Screen, Protocol):
    """A screen that can say that a wish to stop was heard."""

    def stopping(self) -> None:
        """Called from a signal's handler."""
        ...


@dataclass(frozen=True, slots=True)
class Heading:
    """What stands at the top: which run this is."""

    recipe: str
    size: str
    env: str
    seed: int
    steps: int
    folder: Path
    best: float | None

    @classmethod
    def of(cls, spec: RunSpec, folder: Path, best: float | None) -> "Heading":
        """The heading of a run; `best` is the best possible return, where it is known."""
        env, steps = spec.env.name, spec.recipe.steps
        return cls(spec.recipe_name, spec.size, env, spec.seed, steps, folder, best)


@contextlib.contextmanager
def open_screen(heading: Heading) -> Iterator[StoppableScreen]:
    """The screen that suits standard output."""
    console = Console()
    # Asked itself: to the console, a wish for colours makes everything a terminal.
    terminal = sys.stdout.isatty() and not console.is_dumb_terminal
    if not terminal or not draws_lines(console.encoding):
        yield PlainScreen(heading)
        return
    from tokenworlds.terminal.live_screen import LiveScreen

    with LiveScreen(heading, console) as screen:
        yield screen


def draws_lines(encoding: str) -> bool:
    """Whether an output can show more than letters."""
    try:
        formatting.BARS.encode(encoding)
    except (UnicodeEncodeError, LookupError):
        return False
    return True


@dataclass(slots=True)
class PlainScreen:
    """A line for each event, in plain letters; the first is preceded by the heading."""

    heading: Heading
    speed: str = ""
    begun: bool = False

    def event(self, event: Mapping[str, Any]) -> None:
        """Steps, returns, the total loss of each learner, speed."""
        parts = [f"step {event['agent_steps']:,}/{self.heading.steps:,}", *told(event)]
        self._say("  ".join(parts) + self.speed)

    def progress(
        self, steps: int, rates: Mapping[str, float], seconds_left: float | None, share: float
    ) -> None:
        """Remembered for the next event."""
        speeds = [
            f"{name.removesuffix('_updates').replace('_', ' ')} {formatting.rate(rate)}/s"
            for name, rate in rates.items()
            if name != EPISODES
        ]
        left = [] if seconds_left is None else [f"{formatting.duration(seconds_left)} left"]
        self.speed = "".join(f"  {part}" for part in (", ".join(speeds), *left) if part)

    def note(self, text: str) -> None:
        """A line of its own."""
        self._say(f"note: {text}")

    def stopping(self) -> None:
        """Written past the buffers, which may be in use when a signal comes."""
        with contextlib.suppress(OSError):
            os.write(2, f"{STOPPING}\n".encode())

    def _say(self, text: str) -> None:
        top = self.heading
        if not self.begun:
            print(f"{top.recipe} ({top.size}) on {top.env}, seed {top.seed}: {top.folder}")
        self.begun = True
        print(text, flush=True)


def told(event: Mapping[str, Any]) -> list[str]:
    """What a line says of an event."""
    found = []
    if "evaluation/return" in event:
        episodes = int(event["evaluation/episodes"])
        mean = formatting.value(event["evaluation/return"])
        found.append(f"evaluation {mean} over {episodes} episodes")
    if "collect/return" in event:
        found.append(f"return {formatting.value(event['collect/return'])}")
    totals = {name: number for name, number in event.items() if name.endswith("/loss/total")}
    losses = [f"{name.partition('/')[0]} {formatting.value(v)}" for name, v in totals.items()]
    return [*found, *([f"loss: {', '.join(losses)}"] if losses else [])]
