"""Is it alive, and is it ready? For whoever starts, watches and stops servers; nobody needs a key for that."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from starlette.requests import HTTPConnection

from mainstay.server.bounds import Receive, Scope, Send
from mainstay.server.calls import Answer, reply
from mainstay.server.doors import Doors
from mainstay.server.entry import DOORS, is_owner
from mainstay.server.problems import BUSY_S, Problem

SERVER = "server"  # how it is with the whole of it, which anybody may know


class Status(msgspec.Struct, frozen=True):
    status: str


async def healthz(scope: Scope, doors: Doors) -> Any:
    """The process answers, that is all."""
    return Status("alive")


async def readyz(scope: Scope, doors: Doors) -> Any:
    """Send people here, or not yet, or not any more."""
    reasons = dict(doors.settings.ready())
    if doors.draining:
        reasons[SERVER] = "it is being stopped"
    if reasons:
        said = _told(reasons, owner=is_owner(HTTPConnection(scope), doors))
        raise Problem(503, "not_ready", f"not ready: {said}", BUSY_S)
    return Status("ready")


def _told(reasons: Mapping[str, str], *, owner: bool) -> str:
    """Which workspaces there are, and what is wrong with one, is nobody's business but the owner's."""
    own = (name for name in reasons if owner or name == SERVER)
    said = [f"{name}: {reasons[name]}" for name in sorted(own)]
    return "; ".join(said) or "the log says why"


class Open:
    """A page that anybody may read."""

    def __init__(self, tell: Any) -> None:
        self._tell = tell

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] not in ("GET", "HEAD"):
            raise Problem(405, "wrong_method", "here one can GET", headers={"Allow": "GET, HEAD"})
        await reply(Answer(await self._tell(scope, scope[DOORS])), send)
