"""`/metrics`, for Prometheus: how the whole server does, without anybody's name in it.

It is for whoever looks after the whole of it: the owner on this machine, or a key of an admin of the main workspace
with the scope `read`.
"""

from __future__ import annotations

from starlette.requests import Request

from mainstay.server.bounds import Receive, Scope, Send
from mainstay.server.entry import check_address, check_rate, doors_of, who
from mainstay.server.problems import PRIVATE, Problem

CONTENT_TYPE = b"text/plain; version=0.0.4; charset=utf-8"


async def metrics(scope: Scope, receive: Receive, send: Send) -> None:
    if scope["method"] not in ("GET", "HEAD"):
        raise Problem(405, "wrong_method", "here one can GET", headers={"Allow": "GET, HEAD"})
    request = Request(scope, receive, send)
    doors = doors_of(request)
    check_address(request, doors)
    principal = who(request, doors)
    check_rate(doors, principal)
    if not principal.may("read") or principal.role != "admin" or principal.workspace != doors.settings.workspace:
        raise Problem(403, "forbidden", "this needs a key of an admin of the main workspace, with the scope 'read'")
    if doors.settings.metrics is None:
        raise Problem(404, "not_found", "there are no metrics here; `telemetry.metrics` turns them on")
    body = doors.settings.metrics().encode()
    headers = [*PRIVATE, (b"content-type", CONTENT_TYPE), (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else body})
