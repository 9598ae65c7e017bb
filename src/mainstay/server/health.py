"""Is it alive, and is it ready? For whoever starts, watches and stops servers; nobody needs a key for that."""

from __future__ import annotations

from typing import Any

import msgspec

from mainstay.server.bounds import Receive, Scope, Send
from mainstay.server.calls import Answer, reply
from mainstay.server.doors import Doors
from mainstay.server.entry import DOORS
from mainstay.server.problems import BUSY_S, Problem


class Status(msgspec.Struct, frozen=True):
    status: str


async def healthz(scope: Scope, doors: Doors) -> Any:
    """The process answers, that is all."""
    return Status("alive")


async def readyz(scope: Scope, doors: Doors) -> Any:
    """Send people here, or not yet, or not any more."""
    reasons = dict(doors.settings.ready())
    if doors.draining:
        reasons["server"] = "it is being stopped"
    if reasons:
        said = "; ".join(f"{name}: {why}" for name, why in sorted(reasons.items()))
        raise Problem(503, "not_ready", f"not ready: {said}", BUSY_S)
    return Status("ready")


class Open:
    """A page that anybody may read."""

    def __init__(self, tell: Any) -> None:
        self._tell = tell

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] not in ("GET", "HEAD"):
            raise Problem(405, "wrong_method", "here one can GET", headers={"Allow": "GET, HEAD"})
        await reply(Answer(await self._tell(scope, scope[DOORS])), send)
