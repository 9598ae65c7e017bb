"""Liveness and readiness endpoints (`/healthz`, `/readyz`), for load balancers and orchestrators. No key is needed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

import msgspec
from starlette.requests import HTTPConnection

from mainstay.core.asgi import Receive, Scope, Send
from mainstay.server.authentication import STATE_KEY, is_local_owner
from mainstay.server.http_operations import JsonResponse, send_json
from mainstay.server.http_state import HttpServerState
from mainstay.server.problems import RETRY_AFTER_S, Problem

SERVER_REASON = "server"  # the reason that concerns the whole server, which every client may see


class HealthStatus(msgspec.Struct, frozen=True):
    status: str


async def check_liveness(scope: Scope, state: HttpServerState) -> HealthStatus:
    """Liveness: the process answers."""
    return HealthStatus("alive")


async def check_readiness(scope: Scope, state: HttpServerState) -> HealthStatus:
    """Readiness: raises Problem (503) while something is not ready, or the server is stopping."""
    reasons = dict(await state.settings.find_unready())
    if state.draining:
        reasons[SERVER_REASON] = "shutting down"
    if reasons:
        description = _describe_reasons(reasons, is_owner=is_local_owner(HTTPConnection(scope), state))
        raise Problem(503, "not_ready", f"not ready: {description}", RETRY_AFTER_S)
    return HealthStatus("ready")


def _describe_reasons(reasons: Mapping[str, str], *, is_owner: bool) -> str:
    """Describe the reasons. Only the owner sees the names and states of workspaces."""
    visible = (name for name in reasons if is_owner or name == SERVER_REASON)
    return "; ".join(f"{name}: {reasons[name]}" for name in sorted(visible)) or "the log says why"


class PublicJsonEndpoint:
    """JSON endpoint without authentication."""

    def __init__(self, get_value: Callable[[Scope, HttpServerState], Awaitable[object]]) -> None:
        self._get_value = get_value

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] not in ("GET", "HEAD"):
            raise Problem(405, "wrong_method", "allowed here: GET", headers={"Allow": "GET, HEAD"})
        await send_json(JsonResponse(await self._get_value(scope, scope[STATE_KEY])), send)
