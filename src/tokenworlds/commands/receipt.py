"""`tokenworlds receipt`."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from tyro.conf import Positional, arg

from tokenworlds.commands.options import NO_DEFAULT, Switch
from tokenworlds.core.errors import UserError

if TYPE_CHECKING:
    from tokenworlds.evaluation.comparison.description import Description


@dataclass(frozen=True, kw_only=True)
class Receipt:
    """Write receipts of runs: one small text file for each agent and game.

    A receipt has the scores of every seed, the command, commit, versions, hardware and hours."""

    runs: Annotated[tuple[str, ...], Positional, NO_DEFAULT, arg(metavar="RUN ...")] = ()
    """Run folders and folders of runs."""
    out: Annotated[str, arg(metavar="DIR")] = "results"
    """Folder of receipts."""
    checkpoint: Literal["last", "best"] = "last"
    """Checkpoint whose evaluation counts; the best was selected by evaluations during training."""
    unfinished: Switch = False
    """Accept runs that are not finished; the receipt says how far they got."""

    def execute(self) -> int:
        if not self.runs:
            raise UserError("name the runs to make receipts of: run folders or folders of runs")
        from tokenworlds.evaluation.receipts.making import make_receipts, write_receipt

        receipts = make_receipts(self.runs, self.unfinished, self.checkpoint, recipe_settings)
        for receipt in receipts:
            path, written = write_receipt(Path(self.out), receipt)
            count = "1 seed" if len(written.seeds) == 1 else f"{len(written.seeds)} seeds"
            print(f"{path}  {written.score} ({count})")
        return 0


def recipe_settings(about: "Description") -> Mapping[str, Any] | None:
    """The settings of a run's recipe; None if it is the user's, whose code is not run."""
    from tokenworlds.core.description import to_json
    from tokenworlds.recipes.catalogue import is_own, load

    if is_own(about.recipe):
        return None
    try:
        recipe = load(about.recipe, about.size, about.env).recipe
    except UserError:
        return None
    settings: dict[str, Any] = to_json(replace(recipe, steps=about.steps))
    return settings
