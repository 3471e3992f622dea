"""`tokenworlds play`."""

from dataclasses import dataclass
from typing import Annotated

from tyro.conf import Positional, arg

from tokenworlds.commands.options import Switch, default_text
from tokenworlds.commands.view import ServerOptions, show
from tokenworlds.core.errors import UserError


@dataclass(frozen=True, kw_only=True)
class Play(ServerOptions):
    """Play in the dream of an agent, in a browser."""

    run: Annotated[
        str,
        Positional,
        arg(metavar="[RUN]"),
        default_text("a pretrained agent; the page lists all"),
    ] = ""
    """Folder of a run or of an agent that Agent.save wrote, or the name of a pretrained agent."""
    no_browser: Switch = False
    """Only print the link."""

    def execute(self) -> int:
        from tokenworlds.pretrained import DEFAULT, ROOT, names, resolve

        folder, opens = resolve(self.run) if self.run else ROOT / DEFAULT, not self.no_browser
        if folder.parent == ROOT:
            return show(ROOT, self, path="play", opens=opens, start=folder.name)
        if not any((folder / name).is_file() for name in ("run.json", "config.json")):
            raise UserError(
                f"{self.run!r} is not the folder of a run or of a saved agent, nor a pretrained "
                f"agent: {', '.join(names())}"
            )
        return show(folder, self, path="play", opens=opens)
