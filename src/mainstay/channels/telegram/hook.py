"""Listening by being told: an ASGI application that Telegram posts its updates to."""

from __future__ import annotations

import hmac
import logging
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

import msgspec

from mainstay.channels.telegram.updates import Reader
from mainstay.core.channels import Hear
from mainstay.core.errors import MainstayError

BODY_BYTES_MAX = 1024 * 1024
HEADER = b"x-telegram-bot-api-secret-token"

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

_log = logging.getLogger(__name__)


class Hook:
    """Answers 200 once a message was taken in. Anything else is told again by Telegram, so what can never be taken in
    is answered with 200 too."""

    def __init__(self, secret: str) -> None:
        self._secret = secret.encode()
        self._reader: Reader | None = None
        self._hear: Hear | None = None

    def listen(self, reader: Reader | None, hear: Hear | None) -> None:
        self._reader, self._hear = reader, hear

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        status = await self._status(scope, receive)
        headers = [(b"content-length", b"0")] + ([(b"allow", b"POST")] if status == 405 else [])
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": b""})

    async def _status(self, scope: Scope, receive: Receive) -> int:
        given = [value for name, value in scope["headers"] if name.lower() == HEADER]
        if len(given) != 1 or not hmac.compare_digest(given[0], self._secret):  # before anything else is looked at
            return 401
        if scope["method"] != "POST":
            return 405
        if self._reader is None or self._hear is None:
            return 503
        body = await _body(receive)
        if body is None:
            return 413
        try:
            raw = msgspec.json.decode(body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return 400
        update = self._reader.read(raw)
        if update is None or update.message is None:
            return 200
        try:
            await self._hear(update.message)
        except MainstayError as error:
            _log.warning("%s: a message could not be taken in yet: %s", update.message.address.channel, error)
            return 503
        return 200


async def _body(receive: Receive) -> bytes | None:
    """None if there is too much of it."""
    body = bytearray()
    while True:
        event = await receive()
        if event["type"] != "http.request":  # they have gone
            return None
        body += event.get("body", b"")
        if len(body) > BODY_BYTES_MAX:
            return None
        if not event.get("more_body"):
            return bytes(body)
