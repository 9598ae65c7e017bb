"""The `/metrics` endpoint, for Prometheus. Metrics cover the whole server and contain no names of people.

It is for the owner on this machine, or a key of an admin of the main workspace with the scope `read`.
"""

from __future__ import annotations

from starlette.requests import Request

from mainstay.core.asgi import Receive, Scope, Send
from mainstay.server.authentication import (
    check_host_and_origin,
    check_query_for_keys,
    check_rate_limit,
    get_state,
    resolve_principal,
)
from mainstay.server.problems import PRIVATE_HEADERS, Problem

METRICS_CONTENT_TYPE = b"text/plain; version=0.0.4; charset=utf-8"


async def serve_metrics(scope: Scope, receive: Receive, send: Send) -> None:
    if scope["method"] not in ("GET", "HEAD"):
        raise Problem(405, "wrong_method", "allowed here: GET", headers={"Allow": "GET, HEAD"})
    request = Request(scope, receive, send)
    state = get_state(request)
    check_query_for_keys(request)
    check_host_and_origin(request, state)
    principal = resolve_principal(request, state)
    check_rate_limit(state, principal)
    if not principal.has_scope("read") or principal.role != "admin" or principal.workspace != state.settings.workspace:
        raise Problem(403, "forbidden", "this needs a key of an admin of the main workspace, with the scope 'read'")
    if state.settings.render_metrics is None:
        raise Problem(404, "not_found", "metrics are off; `telemetry.metrics` turns them on")
    body = state.settings.render_metrics().encode()
    headers = [*PRIVATE_HEADERS, (b"content-type", METRICS_CONTENT_TYPE), (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else body})
