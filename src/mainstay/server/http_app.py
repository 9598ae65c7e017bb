"""The server's ASGI application: checks on every request, CORS, error responses, and the routes."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import ExitStack

from starlette.exceptions import HTTPException
from starlette.requests import HTTPConnection
from starlette.routing import BaseRoute, Mount, Route, Router, WebSocketRoute

from mainstay.core.asgi import ASGIApp, AsgiMessage, Receive, Scope, Send
from mainstay.core.errors import MainstayError
from mainstay.gateway.operation_gateway import OperationGateway
from mainstay.operations.operation_entry import OperationEntry
from mainstay.operations.table import entries_for
from mainstay.server.authentication import (
    CALLER_KEY,
    EXIT_STACK_KEY,
    STATE_KEY,
    check_host_and_origin,
    get_state,
    is_configured_origin,
)
from mainstay.server.error_reporting import describe_request, report_bug, report_error
from mainstay.server.health import PublicJsonEndpoint, check_liveness, check_readiness
from mainstay.server.http_operations import OperationRoutes
from mainstay.server.http_request import (
    ClientDisconnected,
    LimitedReceive,
    check_body_headers,
    check_path,
    get_header,
    get_raw_path,
)
from mainstay.server.http_state import HttpServerState
from mainstay.server.http_state import HttpSettings as HttpSettings
from mainstay.server.metrics_endpoint import serve_metrics
from mainstay.server.openapi import build_openapi
from mainstay.server.problems import Problem, encode_problem
from mainstay.server.websocket import CLOSE_INTERNAL_ERROR, serve_websocket

# set by the application that mounts this one
_OUTER_SCOPE_KEYS = ("starlette.exception_handlers", "router", "endpoint", "route", "path_params", "app")
_LOGGED_STATUSES = (400, 401, 403, 413, 414, 415)  # may be an attack: logged
_CORS_METHODS = b"GET, POST, PUT, PATCH, DELETE"
_CORS_HEADERS = b"authorization, content-type, idempotency-key, last-event-id, x-api-key, x-session, x-workspace"


class HttpApp:
    """The ASGI application, served by itself or mounted in another one."""

    def __init__(self, state: HttpServerState, routes: Sequence[BaseRoute]) -> None:
        self.state = state
        self._router = Router(list(routes), redirect_slashes=False, default=_raise_not_found)

    def configure(self, settings: HttpSettings) -> None:
        """Use these settings from the next request on."""
        self.state.settings = settings

    def drain(self) -> None:
        """Accept no new turns; running turns are streamed to their end."""
        self.state.drain()

    def close(self) -> None:
        """End all open streams."""
        self.state.close()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._router(scope, receive, send)
            return
        limited = LimitedReceive(receive, self.state)
        sender = ResponseSender(scope, send, self.state)
        inner: Scope = {}
        with ExitStack() as exit_stack:
            exit_stack.callback(limited.release)
            try:
                inner = self._build_inner_scope(scope, exit_stack)
                if scope["type"] == "http" and sender.is_preflight():
                    await sender.send_preflight()
                    return
                await self._router(inner, limited, sender)
            except ClientDisconnected:
                return
            except Problem as problem:
                await self._send_problem(problem, scope, sender)
            except HTTPException as error:
                await self._send_problem(_problem_from_http_exception(error), scope, sender)
            except MainstayError as error:
                await self._send_problem(
                    report_error(error, describe_request(scope), inner.get(CALLER_KEY)), scope, sender
                )
            except asyncio.CancelledError:
                raise
            except Exception:  # a bug: described in the log only
                await self._send_problem(report_bug(describe_request(scope)), scope, sender)

    def _build_inner_scope(self, scope: Scope, exit_stack: ExitStack) -> Scope:
        """Return the scope for the routes. Below /api the path stays percent-encoded: names may contain a slash."""
        path = get_raw_path(scope)
        check_path(path, scope.get("query_string", b""))
        inner = {name: value for name, value in scope.items() if name not in _OUTER_SCOPE_KEYS}
        inner |= {"app": self, STATE_KEY: self.state, EXIT_STACK_KEY: exit_stack}
        if path.startswith(b"/api/"):
            inner["path"] = scope.get("root_path", "") + path.decode("ascii", "replace")
        if scope["type"] == "http":
            check_body_headers(scope, self.state.settings.body_bytes_max)
        return inner

    async def _send_problem(self, problem: Problem, scope: Scope, sender: ResponseSender) -> None:
        if problem.status in _LOGGED_STATUSES:
            self.state.rejection_log.record(f"{problem.status} {problem.kind}", scope.get("client"), scope["path"])
        await sender.send_problem(problem)


class ResponseSender:
    """ASGI `send` that knows whether the response has started, and adds CORS headers for configured origins."""

    def __init__(self, scope: Scope, send: Send, state: HttpServerState) -> None:
        self._scope = scope
        self._send = send
        self._started = False
        self._origin = get_header(scope, b"origin") if state.settings.origins else b""
        if self._origin and not is_configured_origin(self._origin.decode("latin-1"), state):
            self._origin = b""

    async def __call__(self, message: AsgiMessage) -> None:
        if not self._started:
            self._started = True
            if self._origin and message["type"] == "http.response.start":
                message = {**message, "headers": [*message.get("headers", ()), *self._cors_headers()]}
        await self._send(message)

    def _cors_headers(self) -> list[tuple[bytes, bytes]]:
        return [
            (b"access-control-allow-origin", self._origin),
            (b"access-control-expose-headers", b"retry-after, x-trace-id"),
            (b"vary", b"origin"),
        ]

    def is_preflight(self) -> bool:
        """True for a CORS preflight request."""
        method = get_header(self._scope, b"access-control-request-method")
        return bool(self._origin and method and self._scope["method"] == "OPTIONS")

    async def send_preflight(self) -> None:
        headers = [
            (b"access-control-allow-methods", _CORS_METHODS),
            (b"access-control-allow-headers", _CORS_HEADERS),
            (b"access-control-max-age", b"600"),
        ]
        await self({"type": "http.response.start", "status": 204, "headers": headers})
        await self({"type": "http.response.body", "body": b""})

    async def send_problem(self, problem: Problem) -> None:
        """Send an error response, unless another response has started."""
        kind = self._scope["type"]
        if kind == "websocket" and self._started:
            try:
                await self._send({"type": "websocket.close", "code": CLOSE_INTERNAL_ERROR})
            except OSError:
                pass  # the client is gone
            return
        if self._started:
            return  # an incomplete chunked response tells the client
        status, headers, body = encode_problem(problem)
        prefix = "websocket.http.response" if kind == "websocket" else "http.response"
        if kind == "websocket" and "websocket.http.response" not in self._scope.get("extensions", {}):
            await self._send({"type": "websocket.close", "code": 1008})
            return
        await self({"type": f"{prefix}.start", "status": status, "headers": headers})
        await self({"type": f"{prefix}.body", "body": body})


async def _raise_not_found(scope: Scope, receive: Receive, send: Send) -> None:
    raise Problem(404, "not_found", "there is no such path")


def _problem_from_http_exception(error: HTTPException) -> Problem:
    """Convert an error of the router."""
    kinds = {404: "not_found", 405: "wrong_method"}
    kind = kinds.get(error.status_code, "invalid_request")
    return Problem(error.status_code, kind, str(error.detail), headers=error.headers)


def create_app(
    gateway: OperationGateway,
    settings: HttpSettings,
    *,
    mounts: Mapping[str, ASGIApp] | None = None,
    routes: Sequence[BaseRoute] = (),
) -> HttpApp:
    """Create the application. `mounts` authenticate requests themselves (signed webhooks); `routes` call
    `authenticate_request`."""
    documents: dict[str, dict[str, object]] = {}  # by version

    async def get_openapi(scope: Scope, state: HttpServerState) -> dict[str, object]:
        version = state.settings.version
        if version not in documents:
            documents.clear()
            documents[version] = build_openapi(version)
        return documents[version]

    by_path: dict[str, list[OperationEntry]] = {}
    for entry in entries_for("http"):
        assert entry.http is not None, f"{entry.name} has no route"
        by_path.setdefault(entry.http.path, []).append(entry)
    own_routes: list[BaseRoute] = [
        Route("/healthz", PublicJsonEndpoint(check_liveness)),
        Route("/readyz", PublicJsonEndpoint(check_readiness)),
        Route("/openapi.json", PublicJsonEndpoint(get_openapi)),
        Route("/metrics", _MetricsEndpoint()),
        *(Route(path, OperationRoutes(entries)) for path, entries in by_path.items()),
        WebSocketRoute("/api/ws", _WebSocketEndpoint()),
        *routes,
        *(Mount(path, _HostCheckedApp(app)) for path, app in (mounts or {}).items()),
    ]
    return HttpApp(HttpServerState(gateway, settings), own_routes)


class _HostCheckedApp:
    """A mounted application that is called only with the name of this server, and not by pages of other origins."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = HTTPConnection(scope)
        check_host_and_origin(request, get_state(request))
        await self._app(scope, receive, send)


class _MetricsEndpoint:
    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await serve_metrics(scope, receive, send)


class _WebSocketEndpoint:
    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await serve_websocket(scope, receive, send)
