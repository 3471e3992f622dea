"""Serve the viewer on an address until Ctrl-C."""

import ipaddress
import secrets
import socket
import webbrowser
from collections.abc import Callable
from pathlib import Path

import uvicorn

from tokenworlds.core.errors import UserError
from tokenworlds.viewer.app import build_app
from tokenworlds.viewer.catalogue import Catalogue
from tokenworlds.viewer.own_code import NOTHING, OwnCode

PORT = 8642
TRIES = 20


class Server(uvicorn.Server):
    """Calls `ready` once it answers."""

    def __init__(self, config: uvicorn.Config, ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._ready = ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._ready()


def serve(
    folder: Path,
    host: str,
    port: int | None,
    path: str,
    opens: bool,
    announce: Callable[[str], None],
    own_code: OwnCode = NOTHING,
    start: str = "",
) -> None:
    """Serve the runs below a folder; `announce` gets the link to a page of them.

    With `start` the folder holds saved agents, and its player begins with the one of this name.
    """
    token = "" if is_loopback(host) else secrets.token_urlsafe(16)
    listening = listen(host, port)
    link = link_to(host, listening.getsockname()[1], path, token)

    def ready() -> None:
        announce(link)
        if opens:
            webbrowser.open(link)

    config = uvicorn.Config(
        build_app(Catalogue(folder, start=start), token, own_code),
        log_level="warning",
        ws="websockets-sansio",
        ws_max_size=2**16,
        timeout_graceful_shutdown=1,
    )
    with listening:
        Server(config, ready).run(sockets=[listening])


def is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def listen(host: str, port: int | None) -> socket.socket:
    """A bound socket: on the port, or without one on the first free one from the default on."""
    ports = [port] if port is not None else [*range(PORT, PORT + TRIES), 0]
    for each in ports:
        try:
            return socket.create_server((host, each), family=family_of(host))
        except OSError as error:
            problem = error.strerror or str(error)
    raise UserError(f"cannot serve on {host} port {port}: {problem}")


def family_of(host: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in host else socket.AF_INET


def link_to(host: str, port: int, path: str, token: str) -> str:
    name = f"[{host}]" if ":" in host else host
    query = f"?token={token}" if token else ""
    return f"http://{name}:{port}/{path}{query}"
