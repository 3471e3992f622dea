"""`tokenworlds dream`."""

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from tyro.conf import arg

from tokenworlds.commands.options import Count, Json, OptionalSeed, Run, unstated
from tokenworlds.commands.places import choose_place
from tokenworlds.core.errors import UserError

if TYPE_CHECKING:
    from tokenworlds.evaluation.dreams import DreamRows
    from tokenworlds.runs.folder import RunFolder
    from tokenworlds.runs.spec import RunSpec

FORMATS = (".gif", ".png", ".webp")


@dataclass(frozen=True, kw_only=True)
class Dream:
    """Show what a trained world makes of recorded play: real frames, codes, and its dream."""

    run: Run
    """Folder of the run."""
    out: Annotated[str, arg(metavar="FILE"), unstated("dream.webp in the run's folder")] = ""
    """What to write: a .webp or .gif moves, a .png is one sheet."""
    seed: Annotated[OptionalSeed, unstated("the run's")] = None
    """What recorded steps and dreamt codes are drawn from."""
    horizon: Annotated[Count, unstated("12, or as many as there are")] = None
    """Steps to dream, at most."""
    count: Annotated[Count, unstated("2")] = None
    """Pieces of recorded play."""
    json: Json = False
    """Print one JSON document."""

    def execute(self) -> int:
        """Dream, draw and tell."""
        from tokenworlds.core.process import prepare_process

        prepare_process()
        from tokenworlds.commands import choices

        folder, spec = choices.open_run(self.run)
        out = choose_place(Path(self.out) if self.out else folder.path / "dream.webp", FORMATS)
        rows = self.imagine(folder, spec)
        draw(out, rows)
        if self.json:
            frames = rows.real.shape[1]
            print(json.dumps({"out": str(out), "rows": rows.kinds, "frames": frames}, indent=2))
        else:
            print(f"rows    {'; '.join(rows.kinds)}\nfile    {out}")
        return 0

    def imagine(self, folder: "RunFolder", spec: "RunSpec") -> "DreamRows":
        """What the newest checkpoint makes of its replay; the run itself is only read."""
        from tokenworlds.replay.store import DamagedReplay
        from tokenworlds.training.evaluation import load_agent
        from tokenworlds.training.reporting import ROWS, dream, look_back

        trained = load_agent(folder, spec)
        for text in trained.told:
            print(f"note: {text}", file=sys.stderr)
        try:
            replay = look_back(folder, trained)
        except DamagedReplay as error:
            raise UserError(f"{folder.path} holds no play to dream of: {error}") from error
        seed = spec.seed if self.seed is None else self.seed
        count = self.count or ROWS
        rows = dream(trained.agent, replay, seed, count=count, horizon=self.horizon)
        if rows is None:
            steps = replay.length
            raise UserError(f"{folder.path} holds too little play to dream of: {steps} steps")
        return rows


def draw(out: Path, rows: "DreamRows") -> None:
    """Write the picture that a file's name asks for."""
    from tokenworlds.evaluation.dream_picture import draw_dream, write_animation
    from tokenworlds.evaluation.pictures import image_bytes
    from tokenworlds.evaluation.results import replace_file

    if out.suffix.lower() == ".png":
        replace_file(out, image_bytes(draw_dream(rows)))
    else:
        write_animation(out, rows)
