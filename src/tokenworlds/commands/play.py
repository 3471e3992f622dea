"""`tokenworlds play`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from tyro.conf import Positional, arg

from tokenworlds.commands.options import Switch, default_text
from tokenworlds.commands.view import ServerOptions, show
from tokenworlds.core.errors import UserError

RUNS = Path("runs")


@dataclass(frozen=True, kw_only=True)
class Play(ServerOptions):
    """Play in the dream of an agent, in a browser."""

    run: Annotated[
        str, Positional, arg(metavar="[RUN]"), default_text("the run in runs/ that changed last")
    ] = ""
    """Folder of a run, or of an agent that Agent.save wrote."""
    no_browser: Switch = False
    """Only print the link."""

    def execute(self) -> int:
        return show(self.folder(), self, path="play", opens=not self.no_browser)

    def folder(self) -> Path:
        from tokenworlds.evaluation.comparison.listing import find_runs, list_run

        if self.run:
            folder = Path(self.run)
            if not any((folder / name).is_file() for name in ("run.json", "config.json")):
                raise UserError(f"{self.run!r} is not the folder of a run or of a saved agent")
            return folder
        found = [list_run(path) for path in find_runs(RUNS)] if RUNS.is_dir() else []
        intact = [run for run in found if run.state != "damaged"]
        if not intact:
            raise UserError("there is no run in runs/ to play: train one, or name a folder")
        return max(intact, key=lambda run: run.changed).path
