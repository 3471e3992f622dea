"""The server: the pages, the runs and their curves, and the sockets of players."""

from collections.abc import Callable
from functools import partial
from importlib.resources import files as package_files
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.routing import Mount, Route, WebSocketRoute
from starlette.staticfiles import StaticFiles

from tokenworlds.core.errors import UserError
from tokenworlds.viewer.catalogue import Catalogue, UnknownRun
from tokenworlds.viewer.curves import Place, read_curves
from tokenworlds.viewer.guard import Guard
from tokenworlds.viewer.own_code import NOTHING, OwnCode
from tokenworlds.viewer.player import Players

STATIC = Path(str(package_files("tokenworlds.viewer") / "static"))


def build_app(catalogue: Catalogue, token: str = "", own_code: OwnCode = NOTHING) -> Starlette:
    """An ASGI application that shows the runs of a catalogue."""
    routes = [
        Route("/", partial(page, STATIC / "index.html")),
        Route("/play", partial(page, STATIC / "play.html")),
        Route("/tokens", partial(page, STATIC / "tokens.html")),
        Route("/compare", partial(page, STATIC / "compare.html")),
        Route("/api/runs", answering(lambda _: runs(catalogue))),
        Route("/api/agents", answering(lambda _: agents(catalogue))),
        Route("/api/curves", answering(lambda request: curves(catalogue, request))),
        WebSocketRoute("/api/play", Players(catalogue, own_code).welcome),
        Mount("/static", StaticFiles(directory=STATIC)),
    ]
    return Starlette(routes=routes, middleware=[Middleware(Guard, token=token)])


async def page(path: Path, request: Request) -> Response:
    return FileResponse(path)


def answering(read: Callable[[Request], Any]) -> Callable[[Request], Any]:
    """An endpoint that reads files in a thread and answers errors with their sentence."""

    async def endpoint(request: Request) -> Response:
        try:
            return JSONResponse(await run_in_threadpool(read, request))
        except UnknownRun as error:
            return JSONResponse({"problem": str(error)}, status_code=404)
        except UserError as error:
            return JSONResponse({"problem": str(error)}, status_code=409)
        except OSError as error:
            problem = f"cannot read the run: {error.strerror}"
            return JSONResponse({"problem": problem}, status_code=409)

    return endpoint


def runs(catalogue: Catalogue) -> dict[str, Any]:
    return {"folder": str(catalogue.root), "runs": catalogue.rows()}


def agents(catalogue: Catalogue) -> dict[str, Any]:
    return {"agents": catalogue.agents(), "start": catalogue.start}


def curves(catalogue: Catalogue, request: Request) -> dict[str, Any]:
    folder = catalogue.path(request.query_params.get("run", ""))
    return read_curves(folder, Place.parse(request.query_params.get("after", "")))
