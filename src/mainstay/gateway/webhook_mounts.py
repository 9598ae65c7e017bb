"""ASGI dispatch by path: webhooks to their workspace, callbacks of chat platforms to their channel."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from mainstay.core.asgi import ASGIApp, Receive, Scope, Send

AppLookup = Callable[[str], Awaitable[ASGIApp | None]]


class PathDispatcher:
    """An ASGI application that passes a request to the application named by the next path segment; 404 if there is
    none. With `keep_path`, that application sees the path from this one's mount point on."""

    def __init__(self, find_app: AppLookup, *, keep_path: bool = False) -> None:
        self._find_app = find_app
        self._keep_path = keep_path

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        root = scope.get("root_path", "")
        path = scope["path"].removeprefix(root)
        name, _, _ = path.strip("/").partition("/")
        app = await self._find_app(name) if scope["type"] == "http" and name else None
        if app is None:
            await _respond_not_found(scope, send)
        elif self._keep_path:
            await app({**scope, "root_path": root.rpartition("/")[0]}, receive, send)
        else:
            await app({**scope, "root_path": f"{root}/{name}"}, receive, send)


async def _respond_not_found(scope: Scope, send: Send) -> None:
    if scope["type"] == "websocket":
        await send({"type": "websocket.close", "code": 1008})
        return
    await _respond_json(send, 404, b'{"error":{"type":"not_found","message":"there is nothing here"}}')


async def respond_unavailable(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer 503 for a channel that is configured but not connected, so that the platform tries again."""
    body = b'{"error":{"type":"unavailable","message":"this is not connected; try again in a moment"}}'
    await _respond_json(send, 503, body, (b"retry-after", b"2"))


async def _respond_json(send: Send, status: int, body: bytes, *headers_extra: tuple[bytes, bytes]) -> None:
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body)), *headers_extra]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
