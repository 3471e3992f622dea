"""The websocket of a player: requests go to the process of the dream, its answers come back."""

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

from anyio import CancelScope
from starlette.websockets import WebSocket, WebSocketDisconnect

from tokenworlds.core.errors import UserError
from tokenworlds.viewer.catalogue import Catalogue
from tokenworlds.viewer.own_code import OwnCode

MOST_PLAYERS = 4
"""Every dream is a process with a model in memory."""
LONGEST_REQUEST = 2**14
LONGEST_ANSWER = 2**24


class Players:
    """Opens a dream for each websocket, as long as there is room."""

    def __init__(self, catalogue: Catalogue, own_code: OwnCode) -> None:
        self.catalogue, self.own_code, self._playing = catalogue, own_code, 0

    async def welcome(self, socket: WebSocket) -> None:
        await socket.accept()
        if self._playing >= MOST_PLAYERS:
            problem = f"{MOST_PLAYERS} agents are open already: close one of their pages"
            await give_up(socket, problem)
            return
        self._playing += 1
        try:
            folder = await asyncio.to_thread(
                self.catalogue.path, socket.query_params.get("run", "")
            )
            await play(socket, folder, self.own_code)
        except UserError as error:
            await give_up(socket, str(error))
        except WebSocketDisconnect:
            pass
        finally:
            self._playing -= 1


async def play(socket: WebSocket, folder: Path, own_code: OwnCode) -> None:
    """Carry requests and answers until the page is closed or the process ends."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tokenworlds.viewer.dreamer", str(folder), own_code.to_argument()),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        limit=LONGEST_ANSWER,
    )
    tasks = [
        asyncio.create_task(carry_requests(socket, process)),
        asyncio.create_task(carry_answers(socket, process)),
    ]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        await end(process, tasks)


async def end(process: asyncio.subprocess.Process, tasks: list[asyncio.Task[None]]) -> None:
    """Kill the process and close its pipes, even while the server stops."""
    if process.returncode is None:
        process.kill()
    with CancelScope(shield=True):
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await process.communicate()


async def carry_requests(socket: WebSocket, process: asyncio.subprocess.Process) -> None:
    assert process.stdin is not None
    while True:
        request = read_request(await receive(socket))
        if request is None:
            await socket.send_json({"kind": "problem", "problem": "the request is not JSON"})
            continue
        process.stdin.write(json.dumps(request).encode() + b"\n")
        await process.stdin.drain()


async def receive(socket: WebSocket) -> str:
    """The next message; empty for one of bytes, which no page sends."""
    message = await socket.receive()
    if message["type"] == "websocket.disconnect":
        raise WebSocketDisconnect(message.get("code", 1000))
    return message.get("text") or ""


def read_request(text: str) -> dict[str, Any] | None:
    try:
        request = json.loads(text) if len(text) <= LONGEST_REQUEST else None
    except (ValueError, RecursionError):
        return None
    return request if isinstance(request, dict) else None


async def carry_answers(socket: WebSocket, process: asyncio.subprocess.Process) -> None:
    assert process.stdout is not None
    while line := await process.stdout.readline():
        await socket.send_text(line.decode())
    await give_up(socket, "the dream has ended: load the page to start another")


async def give_up(socket: WebSocket, problem: str) -> None:
    await socket.send_json({"kind": "failed", "problem": problem})
    await socket.close()
