"""Who may ask: pages of this server in this browser, and on other addresses holders of the link."""

import hmac
from collections.abc import Awaitable, Callable
from urllib.parse import parse_qs, urlsplit

from starlette.datastructures import Headers
from starlette.requests import cookie_parser
from starlette.responses import PlainTextResponse, RedirectResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

LOCAL = {"127.0.0.1", "localhost", "::1"}
COOKIE = "tokenworlds-viewer"
REFUSED = 1008
"""The websocket code of a policy violation."""
PAGES = ("/", "/play", "/tokens", "/compare")
HEADERS = {
    "content-security-policy": "default-src 'self'; img-src 'self' data: blob:; "
    "style-src 'self' 'unsafe-inline'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
}


class Guard:
    """Refuses foreign origins, other host names (DNS rebinding) and, with a token, strangers."""

    def __init__(self, app: ASGIApp, token: str = "") -> None:
        self.app, self.token = app, token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self.app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        problem = self.problem(headers, given_token(scope))
        if problem:
            await refuse(scope, receive, send, problem)
        elif self.token and given_token(scope) and scope["path"] in PAGES:
            await self.welcome(scope, receive, send)
        else:
            await self.app(scope, receive, with_headers(send))

    def problem(self, headers: Headers, token: str) -> str:
        """Why a request is refused; empty if it is not."""
        host, origin = headers.get("host", ""), headers.get("origin")
        if origin is not None and urlsplit(origin).netloc != host:
            return f"requests from {origin[:80]} are refused: open the viewer's own page"
        if not self.token:
            name = urlsplit(f"//{host}").hostname
            return "" if name in LOCAL else "open the viewer as 127.0.0.1 or localhost"
        cookies = cookie_parser(headers.get("cookie", ""))
        offered = token or cookies.get(cookie_name(host), "")
        right = hmac.compare_digest(offered.encode(), self.token.encode())
        return "" if right else "this viewer needs the whole link, with its token"

    async def welcome(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Keep the token in a cookie, so that it leaves the address bar."""
        response = RedirectResponse(scope["path"], headers=HEADERS)
        host = Headers(scope=scope).get("host", "")
        response.set_cookie(cookie_name(host), self.token, httponly=True, samesite="strict")
        await response(scope, receive, send)


def cookie_name(host: str) -> str:
    """Browsers share cookies between the ports of a host."""
    return f"{COOKIE}-{urlsplit(f'//{host}').port or 80}"


def given_token(scope: Scope) -> str:
    query: bytes = scope.get("query_string", b"")
    return parse_qs(query.decode("latin-1")).get("token", [""])[0]


async def refuse(scope: Scope, receive: Receive, send: Send, problem: str) -> None:
    if scope["type"] == "websocket":
        await send({"type": "websocket.close", "code": REFUSED, "reason": problem[:120]})
    else:
        response = PlainTextResponse(f"{problem}\n", status_code=403, headers=HEADERS)
        await response(scope, receive, send)


def with_headers(send: Send) -> Callable[[Message], Awaitable[None]]:
    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            extra = [(name.encode(), value.encode()) for name, value in HEADERS.items()]
            message = {**message, "headers": [*message.get("headers", []), *extra]}
        await send(message)

    return sending
