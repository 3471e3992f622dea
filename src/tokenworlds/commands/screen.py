"""Screens of a run: a live display on a terminal, plain lines elsewhere."""

import contextlib
import math
import os
import sys
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console, ConsoleDimensions, ConsoleOptions, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from tokenworlds.core.group import current_group
from tokenworlds.envs.catalogue import best_return
from tokenworlds.runs.spec import RunSpec
from tokenworlds.training.throughput import EPISODES

STOPPING = "stopping after this phase; press Ctrl-C again to exit at once"
BARS = "▁▂▃▄▅▆▇█"
UNITS = ((1e9, "G"), (1e6, "M"), (1e3, "k"))
NOTES = 2
"""The live display has room for the latest notes; the others follow at its end."""
NARROW = 72
ROOMY = 20
REST = 14
"""Lines of the live display apart from the loss terms."""
NAME, NUMBER, GAP = 15, 10, 1
RETURNS = {"training": "collect/return", "evaluation": "evaluation/return"}
SPEEDS = {
    "agent_steps": "acting {} steps/s",
    "imagined_steps": "imagining {} steps/s",
    EPISODES: "evaluating {} episodes/s",
}


@contextlib.contextmanager
def open_screen(spec: RunSpec, folder: Path) -> Iterator["PlainScreen | LiveScreen | NoScreen"]:
    """The screen that suits standard output; ranks other than 0 show nothing."""
    if not current_group().leads:
        yield NoScreen()
        return
    console = Console()
    # Not console.is_terminal, which FORCE_COLOR makes true for files too.
    terminal = sys.stdout.isatty() and not console.is_dumb_terminal
    if not terminal or not encodes_bars(console.encoding):
        yield PlainScreen(spec, folder)
        return
    with LiveScreen(spec, folder, console) as screen:
        yield screen


def encodes_bars(encoding: str) -> bool:
    try:
        BARS.encode(encoding)
    except (UnicodeEncodeError, LookupError):
        return False
    return True


class NoScreen:
    """Shows nothing."""

    def event(self, event: Mapping[str, Any]) -> None: ...

    def progress(
        self, steps: int, rates: Mapping[str, float], seconds_left: float | None, share: float
    ) -> None: ...

    def note(self, text: str) -> None: ...

    def stopping(self) -> None: ...


@dataclass(slots=True)
class PlainScreen:
    """One line of plain text for each event, after a line with the heading; notes on stderr."""

    spec: RunSpec
    folder: Path
    speed: str = ""
    begun: bool = False

    def event(self, event: Mapping[str, Any]) -> None:
        spec = self.spec
        if not self.begun:
            run = f"{spec.recipe_name} ({spec.size}) on {spec.env.name}, seed {spec.seed}"
            print(f"{run}: {self.folder}")
        self.begun = True
        parts = [f"step {event['agent_steps']:,}/{spec.recipe.steps:,}", *event_parts(event)]
        print("  ".join(parts) + self.speed, flush=True)

    def progress(
        self, steps: int, rates: Mapping[str, float], seconds_left: float | None, share: float
    ) -> None:
        """Keep the rates for the next event."""
        speeds = [
            f"{name.removesuffix('_updates').replace('_', ' ')} {format_rate(rate)}/s"
            for name, rate in rates.items()
            if name != EPISODES
        ]
        left = [] if seconds_left is None else [f"{format_duration(seconds_left)} left"]
        self.speed = "".join(f"  {part}" for part in (", ".join(speeds), *left) if part)

    def note(self, text: str) -> None:
        print_note(text)

    def stopping(self) -> None:
        # A signal may arrive while the buffers of stdout are in use.
        with contextlib.suppress(OSError):
            os.write(2, f"{STOPPING}\n".encode())


def print_note(text: str) -> None:
    """Notes go to stderr, so that stdout holds only results."""
    print(f"note: {text}", file=sys.stderr, flush=True)


def event_parts(event: Mapping[str, Any]) -> list[str]:
    """The returns of an event and the total loss of each learner."""
    found = []
    if "evaluation/return" in event:
        episodes = int(event["evaluation/episodes"])
        mean = format_value(event["evaluation/return"])
        found.append(f"evaluation {mean} over {episodes} episodes")
    if "collect/return" in event:
        found.append(f"return {format_value(event['collect/return'])}")
    totals = {name: number for name, number in event.items() if name.endswith("/loss/total")}
    losses = [f"{name.partition('/')[0]} {format_value(v)}" for name, v in totals.items()]
    return [*found, *([f"loss: {', '.join(losses)}"] if losses else [])]


class SteadyLive(Live):
    """A live display that survives a resized terminal and the output of others."""

    disturbed = False
    drawn_size: ConsoleDimensions | None = None

    def refresh(self) -> None:
        """Clear the screen first if its lines have moved since the last refresh."""
        size = self.console.size
        if self.disturbed or size != (self.drawn_size or size):
            self.console.clear()
        self.disturbed, self.drawn_size = False, size
        super().refresh()


class LiveScreen:
    """Keeps all events and notes, and redraws every second."""

    def __init__(self, spec: RunSpec, folder: Path, console: Console) -> None:
        self._spec, self._folder = spec, folder
        self._best = best_return(spec.env.name)
        self._began = time.monotonic()
        self._values: dict[str, list[float]] = defaultdict(list)
        self._notes: list[str] = []
        self._steps = 0
        self._share = 0.0
        self._rates: Mapping[str, float] = {}
        self._left: tuple[float, float] | None = None
        self._stopping = False
        self._live = SteadyLive(self, console=console, refresh_per_second=1)

    def __enter__(self) -> "LiveScreen":
        self._live.start(refresh=True)
        return self

    def __exit__(self, *exception: object) -> None:
        self._live.stop()
        for text in self._notes[:-NOTES]:
            print_note(text)

    def event(self, event: Mapping[str, Any]) -> None:
        for name, number in event.items():
            self._values[name].append(float(number))

    def progress(
        self, steps: int, rates: Mapping[str, float], seconds_left: float | None, share: float
    ) -> None:
        self._steps, self._rates, self._share = steps, rates, share
        self._left = None if seconds_left is None else (time.monotonic(), seconds_left)

    def note(self, text: str) -> None:
        self._notes.append(text)

    def stopping(self) -> None:
        # The terminal has written ^C into the display.
        self._stopping = self._live.disturbed = True

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Any]:
        # Drawing runs in another thread than training, so the lists are copied first.
        values = {name: list(numbers) for name, numbers in list(self._values.items())}
        width, height = options.max_width, console.height
        gap = [Text()] if height >= ROOMY else []
        yield self._title()
        yield self._progress(width)
        yield from gap
        yield self._returns(values, width)
        yield from gap
        yield self._losses(values, width, height)
        yield from gap
        yield Text(self._speeds(), style="dim", no_wrap=True, overflow="ellipsis")
        for text in self._notes[-NOTES:]:
            yield Text(f"note: {text}", style="yellow")
        yield self._footer()

    def _title(self) -> RenderableType:
        spec = self._spec
        recipe, env = (spec.recipe_name, "bold cyan"), (spec.env.name, "bold")
        run = Text.assemble(recipe, f" {spec.size} on ", env, f", seed {spec.seed}")
        clock = format_duration(time.monotonic() - self._began)
        return two_ends(run, Text(clock, style="dim"))

    def _progress(self, width: int) -> RenderableType:
        total = self._spec.recipe.steps
        text = f"{self._steps:,}/{total:,} steps  {self._share:4.0%}  {self._remaining()}"
        room = max(width - len(text) - 2, 4)
        bar = ProgressBar(total=1.0, completed=self._share, width=room)
        return side_by_side(bar, Text(text, no_wrap=True))

    def _remaining(self) -> str:
        if self._share >= 1.0:
            return "evaluating"
        if self._left is None:
            return "warming up"
        since, seconds = self._left
        return f"{format_duration(seconds - (time.monotonic() - since))} left"

    def _returns(self, values: Mapping[str, list[float]], width: int) -> RenderableType:
        curves = {name: values.get(key, []) for name, key in RETURNS.items()}
        beside = "" if self._best is None else f"best {format_value(self._best)}"
        return curve_table("return", beside, curves, width)

    def _losses(self, values: Mapping[str, list[float]], width: int, height: int) -> RenderableType:
        """The loss terms of each learner, or only the totals where the terminal is low."""
        learners = losses_by_learner(values)
        if not learners:
            return Text("losses appear after the first updates", style="dim")
        beside = width >= NARROW
        lengths = [len(terms) for terms in learners.values()]
        if REST + (max(lengths) if beside else sum(lengths) + len(lengths)) > height:
            learners = {name: {"total": terms["total"]} for name, terms in learners.items()}
        share = width // len(learners) - 2 if beside else width
        tables = [
            curve_table(name, self._update_rate(name), terms, share)
            for name, terms in learners.items()
        ]
        return side_by_side(*tables) if beside else Group(*tables)

    def _update_rate(self, learner: str) -> str:
        rate = self._rates.get(f"{learner}_updates")
        return "" if rate is None else f"{format_rate(rate)}/s"

    def _speeds(self) -> str:
        rates = self._rates
        found = [text.format(format_rate(rates[k])) for k, text in SPEEDS.items() if k in rates]
        return ", ".join(found)

    def _footer(self) -> RenderableType:
        if self._stopping:
            return Text(STOPPING, style="bold yellow")
        folder = Text(str(self._folder), style="dim")
        return two_ends(folder, Text("Ctrl-C saves and stops", style="dim"))


def losses_by_learner(values: Mapping[str, list[float]]) -> dict[str, dict[str, list[float]]]:
    """The curve of each loss term, the total first."""
    found: dict[str, dict[str, list[float]]] = {}
    for key, numbers in values.items():
        learner, _, term = key.partition("/loss/")
        if term:
            found.setdefault(learner, {"total": []})[term.replace("_", " ")] = numbers
    return found


def curve_table(
    title: str, beside: str, curves: Mapping[str, Sequence[float]], width: int
) -> Table:
    """The name, latest value and sparkline of each curve, under a title."""
    table = Table.grid(padding=(0, GAP, 0, 0))
    table.add_column(width=NAME, no_wrap=True)
    table.add_column(width=NUMBER, no_wrap=True, justify="right")
    table.add_column(no_wrap=True, style="cyan")
    table.add_row(Text(title, style="bold"), Text(beside, style="dim"), "")
    room = max(width - NAME - NUMBER - 3 * GAP, 0)
    for name, values in curves.items():
        latest = format_value(values[-1]) if values else "-"
        table.add_row(Text(name, style="dim"), latest, sparkline(values, room))
    return table


def side_by_side(*parts: RenderableType) -> Table:
    row = Table.grid(padding=(0, 2, 0, 0))
    row.add_row(*parts)
    return row


def two_ends(left: Text, right: Text) -> Table:
    """A line with one text at each end."""
    table = Table.grid(expand=True)
    table.add_column(no_wrap=True, overflow="ellipsis", ratio=1)
    table.add_column(no_wrap=True, justify="right")
    table.add_row(left, right)
    return table


def format_value(number: float) -> str:
    """About four significant digits, with an exponent only for very large or small numbers."""
    size = abs(number)
    if size >= 1e6 or 0 < size < 1e-4:
        return f"{number:.2e}"
    digits = 0 if size >= 1e4 else 1 if size >= 1000 else 2 if size >= 10 else 3
    return f"{number:.{digits}f}" if size >= 0.1 or not size else f"{number:.4f}"


def format_rate(per_second: float) -> str:
    """Three significant digits with a unit prefix: 6.37k."""
    for size, unit in UNITS:
        if per_second >= size:
            return f"{per_second / size:.3g}{unit}"
    return f"{per_second:.3g}"


def format_duration(seconds: float) -> str:
    """4:12, 1:04:12 or 2 d 7 h."""
    minutes, rest = divmod(round(max(seconds, 0.0)), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    if days:
        return f"{days} d {hours} h"
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def sparkline(values: Sequence[float], width: int) -> str:
    """A curve in at most `width` characters; each is the mean of an equal share of the values."""
    finite = [number for number in values if math.isfinite(number)]
    if not finite or width < 1:
        return ""
    means = [part.mean() for part in np.array_split(finite, min(width, len(finite)))]
    low, high = min(means), max(means)
    scale = (len(BARS) - 1) / (high - low) if high > low else 0.0
    return "".join(BARS[round((mean - low) * scale)] for mean in means)
