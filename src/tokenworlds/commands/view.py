"""`tokenworlds view`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from tyro.conf import Positional, UseAppendAction, arg

from tokenworlds.commands.options import NO_DEFAULT, Switch, default_text, whole_number
from tokenworlds.core.errors import UserError, missing_extra

Port = Annotated[int | None, whole_number(0), default_text("8642, or the next free one")]


@dataclass(frozen=True, kw_only=True)
class ServerOptions:
    """Where the viewer listens, and which code of yours agents may execute."""

    host: Annotated[str, arg(metavar="ADDRESS")] = "127.0.0.1"
    """Address to serve on; on another than this machine's own, the link holds a token."""
    port: Port = None
    """Port to serve on."""
    recipe: Annotated[tuple[str, ...], UseAppendAction, NO_DEFAULT, arg(metavar="FILE.py")] = ()
    """Your own file with classes of an agent; may be repeated."""
    env: Annotated[str, NO_DEFAULT, arg(metavar="ENV")] = ""
    """Your own environment, which runs of it may then play: my_env.py:make."""
    trust: Switch = False
    """Execute the files and import the modules that an agent names once its page is opened."""


@dataclass(frozen=True, kw_only=True)
class View(ServerOptions):
    """Show the runs in a folder in a browser while they train. Changes nothing."""

    folder: Annotated[str, Positional, arg(metavar="[DIR]")] = "runs"
    """Folder to search."""
    open: Annotated[Switch, NO_DEFAULT] = False
    """Open the page in a browser."""

    def execute(self) -> int:
        folder = Path(self.folder)
        if not folder.is_dir():
            raise UserError(f"{str(folder)!r} is not a folder: name one that holds runs")
        return show(folder, self, path="", opens=self.open)


def show(folder: Path, options: ServerOptions, path: str, opens: bool, start: str = "") -> int:
    """Serve a page of the viewer until Ctrl-C; see `serve` for `start`."""
    try:
        from tokenworlds.viewer.own_code import OwnCode
        from tokenworlds.viewer.serving import serve
    except ModuleNotFoundError as error:
        if error.name not in ("starlette", "uvicorn", "websockets"):
            raise
        raise missing_extra("the viewer", "viewer") from error
    own_code = OwnCode(options.recipe, options.env, options.trust)
    serve(folder, options.host, options.port, path, opens, announce, own_code, start)
    return 0


def announce(link: str) -> None:
    print(f"viewer  {link}\n        Ctrl-C stops it", flush=True)
