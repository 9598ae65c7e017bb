"""Receives messages by webhook: an ASGI application that clients post signed JSON to.

    other path 404 · other methods 405 · too large 413 · too slow 408 · bad signature 401 · and only then parsed:
    compressed 415 · not a message 422 · not accepted now 503 · durable: 202

The body is not parsed before the signature is verified, and every 401 reads the same; the reason is in the log. The
signature scheme is "timestamp" of io/signing.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

import msgspec

from mainstay.channels.webhook.messages import decode_incoming
from mainstay.core.channels import MessageHandler
from mainstay.core.errors import InputRefused, MainstayError
from mainstay.core.triggers import Webhook
from mainstay.guards.line_escaping import one_line
from mainstay.io.webhook_signatures import TIMESTAMP_HEADER, SignatureInvalid, get_single_header, verify_signature

log = logging.getLogger("mainstay.channels")

AsgiMessage = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[AsgiMessage]]
Send = Callable[[AsgiMessage], Awaitable[None]]

NONCES_MAX = 10_000


class WebhookChannelLimits(msgspec.Struct, frozen=True, kw_only=True):
    body_bytes_max: int = 1024 * 1024
    body_timeout_s: float = 10.0  # for receiving a whole body
    accept_timeout_s: float = 25.0  # for a message to become durable
    concurrent_requests_max: int = 64  # concurrent requests
    retry_after_s: int = 10  # Retry-After of a 503
    refusal_log_interval_s: float = 1.0  # minimum time between log lines about refused requests


class _WebhookHttpError(Exception):
    def __init__(self, status: int, error_type: str, sentence: str, *headers: tuple[bytes, bytes]) -> None:
        super().__init__(sentence)
        self.status = status
        self.body = {"error": {"type": error_type, "message": sentence}}
        self.headers = headers


class _WebhookClientDisconnected(Exception):
    """The client disconnected."""


class WebhookChannelApp:
    """ASGI application. Accepts signed messages while `on_message` is set, and responds with 503 otherwise."""

    def __init__(self, hook: Webhook, limits: WebhookChannelLimits, now: Callable[[], float] = time.time) -> None:
        self.on_message: MessageHandler | None = None
        self._hook = hook
        self._limits = limits
        self._now = now
        self._concurrent_requests = 0
        self._recent_nonces: OrderedDict[str, None] = OrderedDict()  # recent nonces; message ids deduplicate durably
        self._refusal_logged_at = float("-inf")
        self._unlogged_refusals = 0

    async def __call__(self, scope: AsgiMessage, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        self._concurrent_requests += 1
        try:
            await _send_response(send, 202, await self._handle_request(scope, receive))
        except _WebhookHttpError as error:
            await _send_response(send, error.status, error.body, *error.headers, (b"connection", b"close"))
        except _WebhookClientDisconnected:
            return
        finally:
            self._concurrent_requests -= 1

    async def _handle_request(self, scope: AsgiMessage, receive: Receive) -> dict[str, Any]:
        self._check_request(scope)
        body = await self._read_body(scope, receive)
        nonce = self._verify_signature(scope, body)
        if nonce in self._recent_nonces:
            return {"accepted": True, "duplicate": True}
        encoding = [value for name, value in scope["headers"] if name.lower() == b"content-encoding"]
        if encoding not in ([], [b"identity"]):
            raise _WebhookHttpError(415, "unsupported", "the body must not be compressed")
        signed_at = int(get_single_header(scope["headers"], TIMESTAMP_HEADER) or 0) * 1000
        try:
            message = decode_incoming(self._hook.name, body, signed_at=signed_at, nonce=nonce)
            async with asyncio.timeout(self._limits.accept_timeout_s):
                assert self.on_message is not None, "checked at the start of the request"
                await self.on_message(message)
        except InputRefused as error:
            raise _WebhookHttpError(422, "refused", str(error)) from None
        except (MainstayError, TimeoutError) as error:
            log.warning(
                "channel %s: a message was not accepted: %s", self._hook.name, one_line(str(error)) or "timed out"
            )
            self._raise_unavailable("the message could not be stored; try again later")
        self._recent_nonces[nonce] = None
        while len(self._recent_nonces) > NONCES_MAX:
            self._recent_nonces.popitem(last=False)
        return {"accepted": True, "id": message.id}

    def _check_request(self, scope: AsgiMessage) -> None:
        """Check path, method and capacity, before the body is read."""
        path = str(scope["path"]).removeprefix(str(scope.get("root_path", "")).rstrip("/"))
        if path not in ("", "/", f"/channels/{self._hook.name}"):
            raise _WebhookHttpError(404, "not_found", "there is nothing here")
        if scope["method"] != "POST":
            raise _WebhookHttpError(405, "method_not_allowed", "the method must be POST", (b"allow", b"POST"))
        if self.on_message is None or self._concurrent_requests > self._limits.concurrent_requests_max:
            self._raise_unavailable("no messages can be accepted now; try again later")

    async def _read_body(self, scope: AsgiMessage, receive: Receive) -> bytes:
        bytes_max = self._limits.body_bytes_max
        content_length = next((value for name, value in scope["headers"] if name.lower() == b"content-length"), b"")
        if content_length.isdigit() and (len(content_length) > 18 or int(content_length) > bytes_max):
            raise _WebhookHttpError(413, "too_large", f"a message has at most {bytes_max} bytes")
        body = bytearray()
        try:
            async with asyncio.timeout(self._limits.body_timeout_s):
                while True:
                    event = await receive()
                    if event["type"] == "http.disconnect":
                        raise _WebhookClientDisconnected
                    body += event.get("body", b"")
                    if len(body) > bytes_max:
                        raise _WebhookHttpError(413, "too_large", f"a message has at most {bytes_max} bytes")
                    if not event.get("more_body", False):
                        return bytes(body)
        except TimeoutError:
            raise _WebhookHttpError(
                408, "too_slow", f"the body was not received within {self._limits.body_timeout_s:g} s"
            ) from None

    def _verify_signature(self, scope: AsgiMessage, body: bytes) -> str:
        try:
            return verify_signature(self._hook, scope["headers"], body, int(self._now() * 1000)).nonce
        except SignatureInvalid as reason:
            self._log_refusal(scope, str(reason))
            raise _WebhookHttpError(401, "unauthorized", "the signature is not valid") from None

    def _raise_unavailable(self, sentence: str) -> None:
        retry_after = (b"retry-after", str(self._limits.retry_after_s).encode())
        raise _WebhookHttpError(503, "unavailable", sentence, retry_after) from None

    def _log_refusal(self, scope: AsgiMessage, reason: str) -> None:
        """Log a refused message, at a limited rate so that clients cannot flood the log."""
        if (now := time.monotonic()) - self._refusal_logged_at < self._limits.refusal_log_interval_s:
            self._unlogged_refusals += 1
            return
        more = (
            f" ({self._unlogged_refusals} more were refused since the last log line)" if self._unlogged_refusals else ""
        )
        self._refusal_logged_at, self._unlogged_refusals = now, 0
        client = one_line(str((scope.get("client") or ("an unknown client", 0))[0]))
        log.warning("channel %s: refused a message from %s: %s%s", self._hook.name, client, reason, more)


async def _send_response(send: Send, status: int, body: dict[str, Any], *extra_headers: tuple[bytes, bytes]) -> None:
    content = msgspec.json.encode(body)
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(content)).encode()),
        (b"cache-control", b"no-store"),
        (b"x-content-type-options", b"nosniff"),
        *extra_headers,
    ]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": content})
