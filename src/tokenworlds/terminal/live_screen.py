"""A run on a terminal: how far, how well, how fast, drawn anew every second."""

import time
from collections import defaultdict, deque
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.console import Console, ConsoleDimensions, ConsoleOptions, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from tokenworlds.terminal import formatting
from tokenworlds.terminal.screen import STOPPING, Heading

NOTES = 2
NARROW = 72
ROOMY = 20
REST = 14
"""Lines that the screen takes apart from the loss terms."""
NAME, NUMBER, GAP = 15, 10, 1
RETURNS = {"training": "collect/return", "evaluation": "evaluation/return"}
KINDS = {
    "agent_steps": "acting {} steps/s",
    "imagined_steps": "dreaming {} steps/s",
    "evaluation_episodes": "judging {} episodes/s",
}


class SteadyLive(Live):
    """A live display that survives a change of the terminal's size, and what others write."""

    disturbed = False
    drawn_size: ConsoleDimensions | None = None

    def refresh(self) -> None:
        """Draw; where lines were moved since the last time, the old picture can only be wiped."""
        size = self.console.size
        if self.disturbed or size != (self.drawn_size or size):
            self.console.clear()
        self.disturbed, self.drawn_size = False, size
        super().refresh()


class LiveScreen:
    """Keeps what it was told, and draws it."""

    def __init__(self, heading: Heading, console: Console) -> None:
        self.heading = heading
        self._began = time.monotonic()
        self._values: dict[str, list[float]] = defaultdict(list)
        self._notes: deque[str] = deque(maxlen=NOTES)
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

    def event(self, event: Mapping[str, Any]) -> None:
        """Keep every number, for its curve."""
        for name, number in event.items():
            self._values[name].append(float(number))

    def progress(
        self, steps: int, rates: Mapping[str, float], seconds_left: float | None, share: float
    ) -> None:
        """Keep how far the run is."""
        self._steps, self._rates, self._share = steps, rates, share
        self._left = None if seconds_left is None else (time.monotonic(), seconds_left)

    def note(self, text: str) -> None:
        """Keep the latest few."""
        self._notes.append(text)

    def stopping(self) -> None:
        """Say that the wish was heard; the terminal has written ^C into the picture."""
        self._stopping = self._live.disturbed = True

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Any]:
        # What is drawn in one thread grows in another: a list is taken as it is now.
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
        for text in list(self._notes):
            yield Text(f"note: {text}", style="yellow")
        yield self._footer()

    def _title(self) -> RenderableType:
        top = self.heading
        run = Text.assemble((top.recipe, "bold cyan"), f" {top.size} on ", (top.env, "bold"))
        clock = formatting.duration(time.monotonic() - self._began)
        return ends(run.append(f", seed {top.seed}"), Text(clock, style="dim"))

    def _progress(self, width: int) -> RenderableType:
        total = self.heading.steps
        said = f"{self._steps:,}/{total:,} steps  {self._share:4.0%}  {self._remaining()}"
        room = max(width - len(said) - 2, 4)
        bar = ProgressBar(total=1.0, completed=self._share, width=room)
        table = Table.grid(padding=(0, 2, 0, 0))
        table.add_row(bar, Text(said, no_wrap=True))
        return table

    def _remaining(self) -> str:
        if self._share >= 1.0:
            return "judging"
        if self._left is None:
            return "warming up"
        told, seconds = self._left
        return f"{formatting.duration(seconds - (time.monotonic() - told))} left"

    def _returns(self, values: Mapping[str, list[float]], width: int) -> RenderableType:
        curves = {name: values.get(key, []) for name, key in RETURNS.items()}
        best = self.heading.best
        return draw_curves(
            "return", "" if best is None else f"best {formatting.value(best)}", curves, width
        )

    def _losses(self, values: Mapping[str, list[float]], width: int, height: int) -> RenderableType:
        """The terms of each learner, side by side if there is room; else the totals alone."""
        learners = losses_by_learner(values)
        if not learners:
            return Text("losses come with the first updates", style="dim")
        beside = width >= NARROW
        lengths = [len(terms) for terms in learners.values()]
        if REST + (max(lengths) if beside else sum(lengths) + len(lengths)) > height:
            learners = {name: {"total": terms["total"]} for name, terms in learners.items()}
        share = width // len(learners) - 2 if beside else width
        tables = [
            draw_curves(name, self._update_rate(name), terms, share)
            for name, terms in learners.items()
        ]
        return in_a_row(tables) if beside else Group(*tables)

    def _update_rate(self, learner: str) -> str:
        rate = self._rates.get(f"{learner}_updates")
        return "" if rate is None else f"{formatting.rate(rate)}/s"

    def _speeds(self) -> str:
        rates = self._rates
        found = [text.format(formatting.rate(rates[k])) for k, text in KINDS.items() if k in rates]
        return ", ".join(found)

    def _footer(self) -> RenderableType:
        if self._stopping:
            return Text(STOPPING, style="bold yellow")
        folder = Text(str(self.heading.folder), style="dim")
        return ends(folder, Text("Ctrl-C saves and stops", style="dim"))


def losses_by_learner(values: Mapping[str, list[float]]) -> dict[str, dict[str, list[float]]]:
    """The curve of each loss term, the total first."""
    found: dict[str, dict[str, list[float]]] = {}
    for key, numbers in values.items():
        learner, _, term = key.partition("/loss/")
        if term:
            found.setdefault(learner, {"total": []})[term.replace("_", " ")] = numbers
    return found


def draw_curves(
    title: str, beside: str, curves: Mapping[str, Sequence[float]], width: int
) -> Table:
    """Under a title: the name, the latest value and the course of each curve."""
    table = Table.grid(padding=(0, GAP, 0, 0))
    table.add_column(width=NAME, no_wrap=True)
    table.add_column(width=NUMBER, no_wrap=True, justify="right")
    table.add_column(no_wrap=True, style="cyan")
    table.add_row(Text(title, style="bold"), Text(beside, style="dim"), "")
    room = max(width - NAME - NUMBER - 3 * GAP, 0)
    for name, values in curves.items():
        latest = formatting.value(values[-1]) if values else "-"
        table.add_row(Text(name, style="dim"), latest, formatting.sparkline(values, room))
    return table


def in_a_row(tables: Sequence[Table]) -> Table:
    """Tables side by side."""
    row = Table.grid(padding=(0, 2, 0, 0))
    row.add_row(*tables)
    return row


def ends(left: Text, right: Text) -> Table:
    """One text at each end of a line."""
    table = Table.grid(expand=True)
    table.add_column(no_wrap=True, overflow="ellipsis", ratio=1)
    table.add_column(no_wrap=True, justify="right")
    table.add_row(left, right)
    return table
