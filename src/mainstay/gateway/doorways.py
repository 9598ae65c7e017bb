"""What others post to the gateway, led on: webhooks to the workspace that they speak to, platforms to their channel."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

ASGIApp = Callable[[Any, Any, Any], Awaitable[None]]
Find = Callable[[str], Awaitable[ASGIApp | None]]


class Doorway:
    """An ASGI application that leads on by the next part of the path. What is not there is nowhere."""

    def __init__(self, find: Find, *, whole: bool = False) -> None:
        self._find = find
        self._whole = whole  # whoever is led to knows the path from where this is mounted on

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        root = scope.get("root_path", "")
        path = scope["path"].removeprefix(root)
        name, _, _ = path.strip("/").partition("/")
        app = await self._find(name) if scope["type"] == "http" and name else None
        if app is None:
            await _nowhere(scope, send)
        elif self._whole:
            await app({**scope, "root_path": root.rpartition("/")[0]}, receive, send)
        else:
            await app({**scope, "root_path": f"{root}/{name}"}, receive, send)


async def _nowhere(scope: Any, send: Any) -> None:
    if scope["type"] == "websocket":
        await send({"type": "websocket.close", "code": 1008})
        return
    await _say(send, 404, b'{"error":{"type":"not_found","message":"there is nothing here"}}')


async def not_yet(scope: Any, receive: Any, send: Any) -> None:
    """For what is configured and not there: whoever posts to it is to try again, and not to give up."""
    body = b'{"error":{"type":"unavailable","message":"this is not connected; try again in a moment"}}'
    await _say(send, 503, body, (b"retry-after", b"2"))


async def _say(send: Any, status: int, body: bytes, *more: tuple[bytes, bytes]) -> None:
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body)), *more]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
