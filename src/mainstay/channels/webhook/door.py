"""What is posted to us, as a plain ASGI application.

    not ours 404 · other methods 405 · too large 413 · too slow 408 · not signed 401 · and only then read:
    packed 415 · not a message 422 · not taken now 503 · taken, which is durable: 202

Until the signature is known to be right, nothing of the body has been looked at, and every refusal of it reads the
same; the reason is in the owner's log. How it is signed is in edges/signing ("timestamp").
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

import msgspec

from mainstay.channels.webhook.messages import read_given
from mainstay.core.channels import Hear
from mainstay.core.errors import InputRefused, MainstayError
from mainstay.core.triggers import Hook
from mainstay.io.signing import TIMESTAMP, Unsigned, only, verify
from mainstay.trust.guards.lines import one_line

log = logging.getLogger("mainstay.channels")

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

NONCES_MAX = 10_000


class Bounds(msgspec.Struct, frozen=True, kw_only=True):
    bytes_max: int = 1024 * 1024
    body_s: float = 10.0  # for all of a body to come
    hear_s: float = 25.0  # for it to be durable
    beside_max: int = 64  # that are being read or taken in at a time
    retry_s: int = 10  # when to try again, for whoever was told to
    complaint_s: float = 1.0  # between two lines of the log about what was refused


class _Refused(Exception):
    def __init__(self, status: int, kind: str, sentence: str, *headers: tuple[bytes, bytes]) -> None:
        super().__init__(sentence)
        self.status = status
        self.body = {"error": {"type": kind, "message": sentence}}
        self.headers = headers


class _Gone(Exception):
    """Whoever posted has hung up."""


class Door:
    """Takes in what is signed, and only that, once it is listened to."""

    def __init__(self, hook: Hook, bounds: Bounds, now: Callable[[], float] = time.time) -> None:
        self.hear: Hear | None = None
        self._hook = hook
        self._bounds = bounds
        self._now = now
        self._beside = 0
        self._heard: OrderedDict[str, None] = OrderedDict()  # what was taken in lately; ids say it for good
        self._complained = float("-inf")
        self._unsaid = 0

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        self._beside += 1
        try:
            await _answer(send, 202, await self._take(scope, receive))
        except _Refused as refused:
            await _answer(send, refused.status, refused.body, *refused.headers, (b"connection", b"close"))
        except _Gone:
            return
        finally:
            self._beside -= 1

    async def _take(self, scope: Message, receive: Receive) -> dict[str, Any]:
        self._look(scope)
        body = await self._body(scope, receive)
        nonce = self._verified(scope, body)
        if nonce in self._heard:
            return {"accepted": True, "duplicate": True}
        encoding = [value for name, value in scope["headers"] if name.lower() == b"content-encoding"]
        if encoding not in ([], [b"identity"]):
            raise _Refused(415, "unsupported", "the body must not be compressed")
        signed_at = int(only(scope["headers"], TIMESTAMP) or 0) * 1000
        try:
            message = read_given(self._hook.name, body, signed_at=signed_at, nonce=nonce)
            async with asyncio.timeout(self._bounds.hear_s):
                assert self.hear is not None, "it was looked at"
                await self.hear(message)
        except InputRefused as error:
            raise _Refused(422, "refused", str(error)) from None
        except (MainstayError, TimeoutError) as error:
            log.warning(
                "channel %s: a message was not taken in: %s", self._hook.name, one_line(str(error)) or "too slow"
            )
            self._later("it could not be kept; try again later")
        self._heard[nonce] = None
        while len(self._heard) > NONCES_MAX:
            self._heard.popitem(last=False)
        return {"accepted": True, "id": message.id}

    def _look(self, scope: Message) -> None:
        """Before anything of the body has come."""
        below = str(scope["path"]).removeprefix(str(scope.get("root_path", "")).rstrip("/"))
        if below not in ("", "/", f"/channels/{self._hook.name}"):
            raise _Refused(404, "not_found", "there is nothing here")
        if scope["method"] != "POST":
            raise _Refused(405, "method_not_allowed", "messages are posted", (b"allow", b"POST"))
        if self.hear is None or self._beside > self._bounds.beside_max:
            self._later("nothing can be taken in now; try again later")

    async def _body(self, scope: Message, receive: Receive) -> bytes:
        most = self._bounds.bytes_max
        length = next((value for name, value in scope["headers"] if name.lower() == b"content-length"), b"")
        if length.isdigit() and (len(length) > 18 or int(length) > most):
            raise _Refused(413, "too_large", f"a message has at most {most} bytes")
        body = bytearray()
        try:
            async with asyncio.timeout(self._bounds.body_s):
                while True:
                    event = await receive()
                    if event["type"] == "http.disconnect":
                        raise _Gone
                    body += event.get("body", b"")
                    if len(body) > most:
                        raise _Refused(413, "too_large", f"a message has at most {most} bytes")
                    if not event.get("more_body", False):
                        return bytes(body)
        except TimeoutError:
            raise _Refused(408, "too_slow", f"the body did not come within {self._bounds.body_s:g} s") from None

    def _verified(self, scope: Message, body: bytes) -> str:
        try:
            return verify(self._hook, scope["headers"], body, int(self._now() * 1000)).nonce
        except Unsigned as reason:
            self._complain(scope, str(reason))
            raise _Refused(401, "unauthorized", "the message is not signed as it should be") from None

    def _later(self, sentence: str) -> None:
        again = (b"retry-after", str(self._bounds.retry_s).encode())
        raise _Refused(503, "unavailable", sentence, again) from None

    def _complain(self, scope: Message, reason: str) -> None:
        """In the log, but not as often as strangers would like."""
        if (now := time.monotonic()) - self._complained < self._bounds.complaint_s:
            self._unsaid += 1
            return
        more = f" ({self._unsaid} more were refused before)" if self._unsaid else ""
        self._complained, self._unsaid = now, 0
        client = one_line(str((scope.get("client") or ("somebody", 0))[0]))
        log.warning("channel %s: refused a message of %s: %s%s", self._hook.name, client, reason, more)


async def _answer(send: Send, status: int, body: dict[str, Any], *more: tuple[bytes, bytes]) -> None:
    said = msgspec.json.encode(body)
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(said)).encode()),
        (b"cache-control", b"no-store"),
        (b"x-content-type-options", b"nosniff"),
        *more,
    ]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": said})
