"""`tokenworlds dream`."""

import json
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from tyro.conf import arg

from tokenworlds.commands.errors import check_output
from tokenworlds.commands.options import AgentOptions, Count, Json, OptionalSeed, default_text
from tokenworlds.core.errors import UserError

if TYPE_CHECKING:
    from tokenworlds.evaluation.dreams import DreamRows
    from tokenworlds.runs.folder import RunFolder
    from tokenworlds.runs.spec import RunSpec

FORMATS = (".gif", ".mp4", ".png", ".webp")
QUIET = 5.0


class Countdown:
    """Says on stderr every few seconds how many steps are left."""

    def __init__(self) -> None:
        self._said = time.monotonic()

    def show(self, steps: int) -> None:
        if time.monotonic() - self._said >= QUIET:
            self._said = time.monotonic()
            print(f"dreaming, {steps:,} steps left", file=sys.stderr, flush=True)


@dataclass(frozen=True, kw_only=True)
class Dream(AgentOptions):
    """Draw recorded frames beside their reconstruction, tokens and the world model's dream."""

    out: Annotated[str, arg(metavar="FILE"), default_text("dream.webp in the run's folder")] = ""
    """File to write: .webp, .gif and .mp4 (extra video) are animations, .png is one picture."""
    seed: Annotated[OptionalSeed, default_text("the run's")] = None
    """Seed of the recorded steps to show and of the dream."""
    horizon: Annotated[Count, default_text("12, or fewer if replay is short")] = None
    """Steps to dream."""
    count: Annotated[Count, default_text("2")] = None
    """Recorded segments to show."""
    json: Json = False
    """Print one JSON document."""

    def execute(self) -> int:
        from tokenworlds.agent import CONFIG
        from tokenworlds.commands import choices
        from tokenworlds.evaluation.animation import check_encoder
        from tokenworlds.evaluation.dream_picture import write_dream
        from tokenworlds.pretrained import resolve

        is_saved = (resolve(self.run) / CONFIG).is_file()
        run = None if is_saved else choices.open_run(self, with_env=False)
        default = Path("dream.webp") if run is None else run[0].path / "dream.webp"
        out = check_output(Path(self.out) if self.out else default, FORMATS)
        check_encoder(out)
        rows = self.dream_of_saved() if run is None else self.dream_of_run(*run)
        write_dream(out, rows)
        if self.json:
            frames = rows.real.shape[1]
            print(json.dumps({"out": str(out), "rows": rows.kinds, "frames": frames}, indent=2))
        else:
            print(f"rows    {'; '.join(rows.kinds)}\nfile    {out}")
        return 0

    def dream_of_run(self, folder: "RunFolder", spec: "RunSpec") -> "DreamRows":
        """Dreams of the newest checkpoint; only reads the run."""
        from tokenworlds.core.files import DamagedFile
        from tokenworlds.training.evaluation import (
            ROWS,
            dream_from_replay,
            load_agent,
            open_replay,
        )

        newest = folder.newest()
        for text in newest.skipped:
            print(f"note: {text}", file=sys.stderr)
        agent = load_agent(spec, newest.checkpoint).agent
        try:
            replay = open_replay(folder, spec, agent, newest.checkpoint)
        except DamagedFile as error:
            raise UserError(f"{folder.path} has no replay to dream from: {error}") from error
        seed = spec.seed if self.seed is None else self.seed
        count = self.count or ROWS
        rows = dream_from_replay(
            agent, replay, seed, count=count, horizon=self.horizon, told=Countdown().show
        )
        if rows is None:
            steps = replay.length
            raise UserError(f"{folder.path} has only {steps} steps in replay, too few for a dream")
        return rows

    def dream_of_saved(self) -> "DreamRows":
        """Dreams from the recorded steps that were saved with an agent."""
        from tokenworlds.commands.choices import open_agent_of
        from tokenworlds.sharing.starts import read_starts
        from tokenworlds.training.evaluation import ROWS, dream_of_segment

        opened = open_agent_of(self, with_env=False)
        folder = opened.folder
        starts = None if folder is None else read_starts(folder, opened.agent)
        if starts is None:
            raise UserError(f"{self.run} has no recorded steps to dream from: save it from its run")
        count = self.count or ROWS
        if count > len(starts.first):
            raise UserError(f"{self.run} has {len(starts.first)} recorded segments, not {count}")
        seed, told = self.seed or 0, Countdown().show
        return dream_of_segment(opened.agent, starts, seed, count, self.horizon, told)
