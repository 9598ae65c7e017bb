"""Receives Telegram updates by webhook: an ASGI application that Telegram posts to."""

from __future__ import annotations

import hmac
import logging
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

import msgspec

from mainstay.channels.telegram.events import TelegramUpdateDecoder
from mainstay.core.channels import MessageHandler
from mainstay.core.errors import MainstayError
from mainstay.core.surrogates import decode_repaired

BODY_BYTES_MAX = 1024 * 1024
SECRET_HEADER = b"x-telegram-bot-api-secret-token"

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

_log = logging.getLogger(__name__)


class TelegramWebhookApp:
    """Responds with 200 once the handler accepted the message. Telegram repeats an update after any other status, so
    updates that can never be accepted get 200 too."""

    def __init__(self, secret: str) -> None:
        self._secret = secret.encode()
        self._decoder: TelegramUpdateDecoder | None = None
        self._on_message: MessageHandler | None = None

    def set_handler(self, decoder: TelegramUpdateDecoder | None, on_message: MessageHandler | None) -> None:
        self._decoder, self._on_message = decoder, on_message

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        status = await self._handle_request(scope, receive)
        headers = [(b"content-length", b"0")] + ([(b"allow", b"POST")] if status == 405 else [])
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": b""})

    async def _handle_request(self, scope: Scope, receive: Receive) -> int:
        secrets = [value for name, value in scope["headers"] if name.lower() == SECRET_HEADER]
        if len(secrets) != 1 or not hmac.compare_digest(secrets[0], self._secret):  # before anything else is read
            return 401
        if scope["method"] != "POST":
            return 405
        if self._decoder is None or self._on_message is None:
            return 503
        body = await _read_body(receive)
        if body is None:
            return 413
        try:
            raw = decode_repaired(body, msgspec.json.decode)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return 400
        update = self._decoder.decode(raw)
        if update is None or update.message is None:
            return 200
        try:
            await self._on_message(update.message)
        except MainstayError as error:
            _log.warning("%s: a message could not be accepted yet: %s", update.message.address.channel, error)
            return 503
        return 200


async def _read_body(receive: Receive) -> bytes | None:
    """Return the request body; None if it is too large or the client disconnected."""
    body = bytearray()
    while True:
        event = await receive()
        if event["type"] != "http.request":  # the client disconnected
            return None
        body += event.get("body", b"")
        if len(body) > BODY_BYTES_MAX:
            return None
        if not event.get("more_body"):
            return bytes(body)
