"""`tokenworlds dream`."""

import json
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from tyro.conf import arg

from tokenworlds.commands.errors import check_output
from tokenworlds.commands.options import Count, Json, OptionalSeed, RunOptions, default_text
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
class Dream(RunOptions):
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
        from tokenworlds.commands import choices
        from tokenworlds.evaluation.animation import check_encoder
        from tokenworlds.evaluation.dream_picture import write_dream

        folder, spec = choices.open_run(self, with_env=False)
        out = check_output(Path(self.out) if self.out else folder.path / "dream.webp", FORMATS)
        check_encoder(out)
        rows = self.dream(folder, spec)
        write_dream(out, rows)
        if self.json:
            frames = rows.real.shape[1]
            print(json.dumps({"out": str(out), "rows": rows.kinds, "frames": frames}, indent=2))
        else:
            print(f"rows    {'; '.join(rows.kinds)}\nfile    {out}")
        return 0

    def dream(self, folder: "RunFolder", spec: "RunSpec") -> "DreamRows":
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
