"""`tokenworlds export`."""

from dataclasses import dataclass
from typing import Annotated

from tyro.conf import Positional, arg

from tokenworlds.commands.options import RunOptions, Switch


@dataclass(frozen=True, kw_only=True)
class Export(RunOptions):
    """Write the agent of a run to a folder to share: weights, configuration and a model card."""

    out: Annotated[str, Positional, arg(metavar="FOLDER")]
    """Folder to write."""
    checkpoint: Annotated[str, arg(metavar="{best,last,STEP}")] = "last"
    """Checkpoint to write; the best is that of the highest evaluation during training."""
    compact: Switch = False
    """Round large matrices to bytes and leave out target networks: a quarter of the size."""
    license: Annotated[str, arg(metavar="NAME")] = "mit"
    """Licence of the weights, as the Hugging Face hub names it."""

    def execute(self) -> int:
        from tokenworlds.agent import open_agent
        from tokenworlds.runs.own_code import Trust, load_files
        from tokenworlds.sharing.saving import save_agent

        trust = Trust(load_files(self.recipe), everything=self.trust)
        opened = open_agent(self.run, trust, checkpoint=self.checkpoint)
        folder = save_agent(opened, self.out, self.license, compact=self.compact)
        print(*sorted(str(path) for path in folder.iterdir()), sep="\n")
        return 0
