"""The server's ASGI application: one front that looks at everything, and the routes behind it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from itertools import groupby
from typing import Any

from starlette.exceptions import HTTPException
from starlette.routing import BaseRoute, Mount, Route, Router, WebSocketRoute

from mainstay.core.errors import MainstayError
from mainstay.gateway.gateway import Gateway
from mainstay.server.bounds import Counted, Gone, Receive, Scope, Send, check_body_head, check_path, header, raw_path
from mainstay.server.calls import Methods
from mainstay.server.doors import Doors
from mainstay.server.doors import Web as Web
from mainstay.server.entry import DOORS, LEAVING, VISIT, is_configured
from mainstay.server.health import Open, healthz, readyz
from mainstay.server.openapi import OPERATIONS, describe
from mainstay.server.problems import Problem, said
from mainstay.server.scrape import metrics
from mainstay.server.sockets import BROKEN, websocket
from mainstay.server.troubles import asked_for, trouble_for, unforeseen

_OUTER = ("starlette.exception_handlers", "router", "endpoint", "route", "path_params", "app")  # of whoever mounts us
_NOTED = (400, 401, 403, 413, 414, 415)  # what somebody may be trying
_METHODS = b"GET, POST, DELETE"
_HEADERS = b"authorization, content-type, idempotency-key, last-event-id, x-api-key, x-session, x-workspace"


class HttpApp:
    """An ASGI application, by itself or mounted in another."""

    def __init__(self, doors: Doors, routes: Sequence[BaseRoute]) -> None:
        self.doors = doors
        self._router = Router(list(routes), redirect_slashes=False, default=_nothing_here)

    def configure(self, settings: Web) -> None:
        """From the next request on."""
        self.doors.settings = settings

    def drain(self) -> None:
        """Nothing new begins; turns may be heard to their end."""
        self.doors.drain()

    def close(self) -> None:
        """Whoever is still there is told goodbye."""
        self.doors.close()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._router(scope, receive, send)
            return
        counted = Counted(receive, self.doors)
        answer = Answering(scope, send, self.doors)
        inner: Scope = {}
        with ExitStack() as leaving:
            leaving.callback(counted.let_go)
            try:
                inner = self._inner(scope, leaving)
                if scope["type"] == "http" and answer.is_preflight():
                    await answer.preflight()
                    return
                await self._router(inner, counted, answer)
            except Gone:
                return
            except Problem as problem:
                await self._refuse(problem, scope, answer)
            except HTTPException as error:
                await self._refuse(_mapped(error), scope, answer)
            except MainstayError as error:
                await self._refuse(trouble_for(error, asked_for(scope), inner.get(VISIT)), scope, answer)
            except asyncio.CancelledError:
                raise
            except Exception:  # a bug of ours: the log says what, and nobody else does
                await self._refuse(unforeseen(asked_for(scope)), scope, answer)

    def _inner(self, scope: Scope, leaving: ExitStack) -> Scope:
        """As our routes see it: below /api the path is as it was sent, for names that hold a slash."""
        path = raw_path(scope)
        check_path(path, scope.get("query_string", b""))
        inner = {name: value for name, value in scope.items() if name not in _OUTER}
        inner |= {"app": self, DOORS: self.doors, LEAVING: leaving}
        if path.startswith(b"/api/"):
            inner["path"] = scope.get("root_path", "") + path.decode("ascii", "replace")
        if scope["type"] == "http":
            check_body_head(scope, self.doors.settings.body_bytes_max)
        return inner

    async def _refuse(self, problem: Problem, scope: Scope, answer: Answering) -> None:
        if problem.status in _NOTED:
            self.doors.refusals.note(f"{problem.status} {problem.kind}", scope.get("client"), scope["path"])
        await answer.refuse(problem)


class Answering:
    """`send`, which knows whether an answer has begun, and says to a page from elsewhere that it may read it."""

    def __init__(self, scope: Scope, send: Send, doors: Doors) -> None:
        self._scope = scope
        self._send = send
        self._begun = False
        self._origin = header(scope, b"origin") if doors.settings.origins else b""
        if self._origin and not is_configured(self._origin.decode("latin-1"), doors):
            self._origin = b""

    async def __call__(self, message: Any) -> None:
        if not self._begun:
            self._begun = True
            if self._origin and message["type"] == "http.response.start":
                message = {**message, "headers": [*message.get("headers", ()), *self._allowed()]}
        await self._send(message)

    def _allowed(self) -> list[tuple[bytes, bytes]]:
        return [
            (b"access-control-allow-origin", self._origin),
            (b"access-control-expose-headers", b"retry-after, x-trace-id"),
            (b"vary", b"origin"),
        ]

    def is_preflight(self) -> bool:
        """A browser asks whether a page may ask."""
        asked = header(self._scope, b"access-control-request-method")
        return bool(self._origin and asked and self._scope["method"] == "OPTIONS")

    async def preflight(self) -> None:
        headers = [
            (b"access-control-allow-methods", _METHODS),
            (b"access-control-allow-headers", _HEADERS),
            (b"access-control-max-age", b"600"),
        ]
        await self({"type": "http.response.start", "status": 204, "headers": headers})
        await self({"type": "http.response.body", "body": b""})

    async def refuse(self, problem: Problem) -> None:
        kind = self._scope["type"]
        if kind == "websocket" and self._begun:
            try:
                await self._send({"type": "websocket.close", "code": BROKEN})
            except OSError:
                pass  # they have hung up
            return
        if self._begun:
            return  # an answer that breaks off says by that that it did
        status, headers, body = said(problem)
        prefix = "websocket.http.response" if kind == "websocket" else "http.response"
        if kind == "websocket" and "websocket.http.response" not in self._scope.get("extensions", {}):
            await self._send({"type": "websocket.close", "code": 1008})
            return
        await self({"type": f"{prefix}.start", "status": status, "headers": headers})
        await self({"type": f"{prefix}.body", "body": body})


async def _nothing_here(scope: Scope, receive: Receive, send: Send) -> None:
    raise Problem(404, "not_found", "there is nothing here")


def _mapped(error: HTTPException) -> Problem:
    """What the router says of itself."""
    kinds = {404: "not_found", 405: "wrong_method"}
    kind = kinds.get(error.status_code, "invalid_request")
    return Problem(error.status_code, kind, str(error.detail), headers=error.headers)


def make_app(
    gateway: Gateway, settings: Web, *, mounts: Mapping[str, Any] | None = None, routes: Sequence[BaseRoute] = ()
) -> HttpApp:
    """`mounts` look after themselves: whoever is there has signed what they say. `routes` use `enter`, as ours do."""
    described: dict[str, Any] = {}

    async def openapi(scope: Scope, doors: Doors) -> Any:
        version = doors.settings.version
        if version not in described:
            described.clear()
            described[version] = describe(version)
        return described[version]

    by_path = sorted(OPERATIONS, key=lambda one: one.path)
    ours: list[BaseRoute] = [
        Route("/healthz", Open(healthz)),
        Route("/readyz", Open(readyz)),
        Route("/openapi.json", Open(openapi)),
        Route("/metrics", _Scraped()),
        *(Route(path, Methods(list(found))) for path, found in groupby(by_path, key=lambda one: one.path)),
        WebSocketRoute("/api/ws", _Socketed()),
        *routes,
        *(Mount(path, app) for path, app in (mounts or {}).items()),
    ]
    return HttpApp(Doors(gateway, settings), ours)


class _Scraped:
    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await metrics(scope, receive, send)


class _Socketed:
    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await websocket(scope, receive, send)
