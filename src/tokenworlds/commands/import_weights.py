"""`tokenworlds import`."""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from tyro.conf import Positional, arg

from tokenworlds.commands.options import Protocol


@dataclass(frozen=True, kw_only=True)
class Import:
    """Turn weights of another implementation into a saved agent."""

    layout: Annotated[str, Positional, arg(metavar="{iris,delta-iris,storm,drama}")]
    """The implementation that wrote the file."""
    files: Annotated[tuple[str, ...], Positional, arg(metavar="FILE ...")]
    """Files of weights: one of IRIS or Δ-IRIS; the world model's and the agent's of STORM or
    DRAMA."""
    env: Annotated[str, arg(metavar="ENV")]
    """The environment that the agent was trained on."""
    out: Annotated[str, arg(metavar="FOLDER")]
    """Folder to write: weights, configuration and model card."""
    protocol: Protocol = ""
    """Protocol of the environment, from 'tokenworlds envs'."""
    license: Annotated[str, arg(metavar="NAME")] = "other"
    """Licence of the weights, as the Hugging Face hub names it."""

    def execute(self) -> int:
        from tokenworlds.sharing.importing import import_agent
        from tokenworlds.sharing.layouts import LAYOUTS
        from tokenworlds.sharing.saving import save_agent

        opened = import_agent(self.layout, list(map(Path, self.files)), self.env, self.protocol)
        source, note = LAYOUTS[self.layout].source, LAYOUTS[self.layout].note
        if note:
            print(f"note: {note}", file=sys.stderr)
            source = f"{source}; {note}"
        folder = save_agent(opened, self.out, self.license, source)
        print(*sorted(str(path) for path in folder.iterdir()), sep="\n")
        return 0
