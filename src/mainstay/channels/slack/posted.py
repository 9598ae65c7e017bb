"""The Events API: what Slack posts to us, as a plain ASGI application.

    other methods 405 · too large 413 · too slow 408 · not signed, or not now 401 · and only then parsed:
    no JSON and no form 400 · not taken in time 503, and Slack posts it again · taken, which is durable: 200

The signature is over the bytes as they came. Until it is known to be right nothing of them has been looked at.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
import time
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any
from urllib.parse import parse_qsl

import msgspec

from mainstay.channels.slack.bounds import Bounds
from mainstay.trust.guards.lines import one_line

log = logging.getLogger("mainstay.channels.slack")

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Take = Callable[[str, Any], Awaitable[None]]

FIELDS_MAX = 100  # of a form
COMPLAINT_S = 10.0  # between two lines of the log about what was refused


class _Refused(Exception):
    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status


class _Gone(Exception):
    """Whoever asked has hung up."""


def signature(secret: str, timestamp: str, body: bytes) -> str:
    """As Slack signs a request."""
    return "v0=" + hmac.digest(secret.encode(), b"v0:" + timestamp.encode() + b":" + body, "sha256").hex()


class Posted:
    """`take` is asked for at each request: there is none before the channel is started and after it is closed."""

    def __init__(self, name: str, secret: str, take: Callable[[], Take | None], bounds: Bounds) -> None:
        self._name = name
        self._secret = secret
        self._take = take
        self._bounds = bounds
        self._held = 0  # bytes
        self._complained = float("-inf")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            if scope["type"] == "websocket":
                await send({"type": "websocket.close", "code": 1000})
                return
            raise NotImplementedError(f"Slack posts over HTTP, not over {scope['type']}")
        body = bytearray()
        try:
            answer = await self._answer(scope, receive, body)
        except _Refused as refused:
            await _reply(send, refused.status, {"error": str(refused)})
        except _Gone:
            return
        else:
            await _reply(send, 200, answer)
        finally:
            self._held -= len(body)

    async def _answer(self, scope: Scope, receive: Receive, body: bytearray) -> dict[str, Any]:
        if scope["method"] != "POST":
            raise _Refused(405, "events are posted")
        await self._read(scope, receive, body)
        raw = bytes(body)
        if trouble := self._untrue(scope, raw):
            self._complain(scope, trouble)
            raise _Refused(401, "the request is not signed as it should be")
        take = self._take()
        if take is None:
            raise _Refused(503, "the channel is not connected")
        kind, payload = _parsed(scope, raw)
        if kind == "url_verification":
            return {"challenge": str(payload.get("challenge") or "")[:1000]}
        try:
            async with asyncio.timeout(self._bounds.take_s):
                await take(kind, payload)
        except TimeoutError:
            raise _Refused(503, "it could not be kept in time; post it again") from None
        return {}

    async def _read(self, scope: Scope, receive: Receive, body: bytearray) -> None:
        """All of it, or a refusal before more is read than it may have."""
        announced = _header(scope, b"content-length") or ""
        if announced.isdigit() and (len(announced) > 18 or int(announced) > self._bounds.body_bytes_max):
            raise _Refused(413, "the request is too large")
        try:
            async with asyncio.timeout(self._bounds.body_s):
                more = True
                while more:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise _Gone
                    chunk = message.get("body", b"")
                    more = message.get("more_body", False)
                    if len(body) + len(chunk) > self._bounds.body_bytes_max:
                        raise _Refused(413, "the request is too large")
                    body += chunk
                    self._held += len(chunk)
                    if self._held > self._bounds.held_bytes_max:
                        raise _Refused(503, "too much is being posted at once; post it again")
        except TimeoutError:
            raise _Refused(408, "the request did not come in time") from None

    def _untrue(self, scope: Scope, body: bytes) -> str:
        """Why nobody who knows the secret sent this now; for the log, never for the sender."""
        timestamp = _header(scope, b"x-slack-request-timestamp") or ""
        given = _header(scope, b"x-slack-signature") or ""
        timed = timestamp.isascii() and timestamp.isdigit() and len(timestamp) <= 12
        made = signature(self._secret, timestamp if timed else "0", body)
        if not hmac.compare_digest(made.encode(), given.encode(errors="replace")) or not timed:
            return "no signature fits"
        if abs(time.time() - int(timestamp)) > self._bounds.window_s:
            return "it was signed at another time"
        return ""

    def _complain(self, scope: Scope, trouble: str) -> None:
        """But not as often as strangers would like."""
        now = time.monotonic()
        if now - self._complained >= COMPLAINT_S:
            self._complained = now
            client = scope.get("client") or ("somebody", 0)
            log.warning("%s: refused a request of %s: %s", self._name, one_line(str(client[0])), trouble)


def _header(scope: Scope, name: bytes) -> str | None:
    """None if it is not there, or there twice: then nobody knows which is meant."""
    found = [value for key, value in scope["headers"] if key.lower() == name]
    return found[0].decode("latin-1") if len(found) == 1 else None


def _parsed(scope: Scope, body: bytes) -> tuple[str, dict[str, Any]]:
    """What kind of thing it is, as socket mode calls it, and all that it says."""
    media = (_header(scope, b"content-type") or "").partition(";")[0].strip().lower()
    try:
        if media == "application/x-www-form-urlencoded":
            form = dict(parse_qsl(body.decode(), keep_blank_values=True, max_num_fields=FIELDS_MAX))
            return ("slash_commands" if "command" in form else "interactive"), form
        told = msgspec.json.decode(body)
    except (ValueError, msgspec.DecodeError, RecursionError):
        raise _Refused(400, "it is neither JSON nor a form") from None
    if not isinstance(told, dict):
        raise _Refused(400, "it is no event")
    return ("url_verification" if told.get("type") == "url_verification" else "events_api"), told


async def _reply(send: Send, status: int, answer: dict[str, Any]) -> None:
    """Nothing at all where there is nothing to say: to a command, any text would be shown."""
    body = msgspec.json.encode(answer) if answer else b""
    headers = [(b"cache-control", b"no-store"), (b"content-length", str(len(body)).encode())]
    if body:
        headers.append((b"content-type", b"application/json"))
    if status in (405, 408, 413):
        headers.append((b"connection", b"close"))  # what is still on its way is not waited for
    if status == 405:
        headers.append((b"allow", b"POST"))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
