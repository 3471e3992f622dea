"""`tokenworlds figure`."""

import importlib.util
import json
import shlex
import sys
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from tyro.conf import Positional, UseAppendAction, arg

from tokenworlds.commands.errors import check_output
from tokenworlds.commands.options import (
    NO_DEFAULT,
    BenchmarkEnv,
    Count,
    Json,
    OptionalSeed,
    RunOptions,
    Switch,
    default_text,
)
from tokenworlds.core.errors import UserError, unknown
from tokenworlds.figures.catalogue import ENTRIES, FIGURES, FigureEntry

if TYPE_CHECKING:
    from tokenworlds.figures.picture import Request, RunSource

COMMON = ("name", "out", "theme", "json")
Paths = Annotated[tuple[str, ...], UseAppendAction, NO_DEFAULT]


@dataclass(frozen=True, kw_only=True)
class Figure:
    """Make a figure of a paper from recipes, runs or measurements; without a name, list them."""

    name: Annotated[str, Positional, arg(metavar="[NAME]"), NO_DEFAULT] = ""
    """A figure from the list."""
    out: Annotated[str, arg(metavar="FILE.png"), default_text("NAME.png")] = ""
    """File to write."""
    run: Annotated[Paths, arg(metavar="RUN")] = ()
    """Folder of a run to draw; may be repeated."""
    recipe: Annotated[Paths, arg(metavar="FILE.py")] = ()
    """Your own file with classes of the runs; may be repeated."""
    trust: Switch = False
    """Execute the files and import the modules that the runs name."""
    seed: Annotated[OptionalSeed, default_text("the run's")] = None
    """Seed of the recorded steps to show and of dreams."""
    steps: Annotated[Count, default_text("what fits the width")] = None
    """Steps to show."""
    bench: Annotated[str, arg(metavar="FILE.json"), default_text("measure now")] = ""
    """Output of 'tokenworlds bench --json' to draw."""
    size: Annotated[
        str, arg(metavar="{nano,tiny,small,paper,...}"), default_text("paper, the paper's own")
    ] = ""
    """Size of the networks to count or measure."""
    env: BenchmarkEnv = ""
    """Environment to measure in, from 'tokenworlds envs'."""
    seconds: Annotated[float | None, arg(metavar="S"), default_text("5")] = None
    """Time limit of the repeats of each measurement."""
    threads: Annotated[Count, default_text("one per core")] = None
    """CPU threads of a measurement."""
    theme: Annotated[str, arg(metavar="{light,dark}")] = "light"
    """Colours."""
    json: Json = False
    """Print the numbers behind the figure, or the list, as one JSON document."""

    def execute(self) -> int:
        if not self.name:
            return self.list_figures()
        if self.name not in FIGURES:
            raise unknown("figure", self.name, FIGURES)
        return self.draw(FIGURES[self.name])

    def list_figures(self) -> int:
        if self.json:
            print(json.dumps([describe(entry) for entry in ENTRIES], indent=2))
            return 0
        for entry in ENTRIES:
            needs = " Needs --run." if entry.examples else ""
            print(f"{entry.name:14}{entry.about}{needs}")
        print("\nDraw one: tokenworlds figure NAME.  Runs and options: tokenworlds figure --help.")
        return 0

    def draw(self, entry: FigureEntry) -> int:
        self.refuse_foreign_options(entry)
        out = check_output(Path(self.out or f"{entry.name}.png"), (".png",))
        if entry.examples and not self.run:
            raise UserError(entry.how_to())
        from tokenworlds.figures.picture import THEMES, write_picture

        if self.theme not in THEMES:
            raise unknown("theme", self.theme, THEMES)
        picture = entry.make(self.request())
        write_picture(out, picture, THEMES[self.theme], self.command())
        if self.json:
            document = {"figure": entry.name, "out": str(out), "caption": picture.caption}
            print(json.dumps({**document, "data": picture.data}, indent=2))
        else:
            print(f"{picture.title}\n{picture.caption}\nfile    {out}")
        return 0

    def refuse_foreign_options(self, entry: FigureEntry) -> None:
        for name in self.changed():
            if name not in (*COMMON, *entry.options):
                takes = ", ".join(f"--{option}" for option in sorted(entry.options))
                raise UserError(f"{entry.name} takes no --{name}; its options are {takes}")

    def changed(self) -> list[str]:
        """The options that differ from their defaults."""
        return [each.name for each in fields(self) if getattr(self, each.name) != each.default]

    def request(self) -> "Request":
        from tokenworlds.figures.picture import Request

        return Request(
            runs=tuple(self.open(name) for name in self.run),
            size=self.size,
            env=self.env or ("" if self.bench else default_env()),
            seed=self.seed,
            steps=self.steps,
            seconds=self.seconds,
            threads=self.threads,
            bench=self.bench,
            note=lambda text: print(f"note: {text}", file=sys.stderr),
        )

    def open(self, name: str) -> "RunSource":
        from tokenworlds.commands import choices
        from tokenworlds.figures.picture import RunSource

        options = RunOptions(run=name, recipe=self.recipe, trust=self.trust)
        return RunSource(name, *choices.open_run(options, with_env=False))

    def command(self) -> str:
        """The command line that makes the same figure, wherever it is written."""
        words = ["tokenworlds", "figure", self.name]
        for name in self.changed():
            value = getattr(self, name)
            if name in ("name", "out", "json"):
                continue
            if value is True:
                words.append(f"--{name}")
            for each in value if isinstance(value, tuple) else (value,):
                words += [] if each is True else [f"--{name}", str(each)]
        return shlex.join(words)


def describe(entry: FigureEntry) -> dict[str, object]:
    return {
        "name": entry.name,
        "source": entry.source,
        "about": entry.about,
        "needs_run": bool(entry.examples),
        "options": sorted(entry.options),
    }


def default_env() -> str:
    """A game of the benchmark of most papers, if it is installed."""
    return "atari:Pong" if importlib.util.find_spec("ale_py") else "catch"
