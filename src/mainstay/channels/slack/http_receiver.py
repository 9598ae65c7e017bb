"""Receives Slack events by HTTP (Events API, a webhook): an ASGI application that Slack posts to.

    other methods 405 · too large 413 · too slow 408 · bad signature or timestamp 401 · and only then parsed:
    neither JSON nor a form 400 · not durable in time 503, and Slack posts it again · durable: 200

The signature covers the raw body, which is not parsed before the signature is verified.
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

from mainstay.channels.slack.limits import SlackLimits
from mainstay.core.surrogates import decode_repaired
from mainstay.guards.line_escaping import one_line

log = logging.getLogger("mainstay.channels.slack")

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
EnvelopeHandler = Callable[[str, Any], Awaitable[None]]

FORM_FIELDS_MAX = 100  # per form
REFUSAL_LOG_INTERVAL_S = 10.0  # minimum time between log lines about refused requests


class _SlackHttpError(Exception):
    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status


class _SlackClientDisconnected(Exception):
    """The client disconnected."""


def compute_signature(secret: str, timestamp: str, body: bytes) -> str:
    """Return the signature of a request, computed as Slack does."""
    return "v0=" + hmac.digest(secret.encode(), b"v0:" + timestamp.encode() + b":" + body, "sha256").hex()


class SlackEventsApp:
    """ASGI application. `get_handler` is called for each request and returns None unless the channel is connected."""

    def __init__(
        self, name: str, secret: str, get_handler: Callable[[], EnvelopeHandler | None], limits: SlackLimits
    ) -> None:
        self._name = name
        self._secret = secret
        self._get_handler = get_handler
        self._limits = limits
        self._body_bytes = 0  # bytes of the bodies of all current requests
        self._refusal_logged_at = float("-inf")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            if scope["type"] == "websocket":
                await send({"type": "websocket.close", "code": 1000})
                return
            raise NotImplementedError(f"only HTTP is supported, not {scope['type']}")
        body = bytearray()
        try:
            answer = await self._handle_request(scope, receive, body)
        except _SlackHttpError as error:
            await _send_response(send, error.status, {"error": str(error)})
        except _SlackClientDisconnected:
            return
        else:
            await _send_response(send, 200, answer)
        finally:
            self._body_bytes -= len(body)

    async def _handle_request(self, scope: Scope, receive: Receive, body: bytearray) -> dict[str, Any]:
        if scope["method"] != "POST":
            raise _SlackHttpError(405, "the method must be POST")
        await self._read_body(scope, receive, body)
        raw = bytes(body)
        if reason := self._signature_problem(scope, raw):
            self._log_refusal(scope, reason)
            raise _SlackHttpError(401, "the signature is not valid")
        handler = self._get_handler()
        if handler is None:
            raise _SlackHttpError(503, "the channel is not connected")
        kind, payload = _parse_body(scope, raw)
        if kind == "url_verification":
            return {"challenge": str(payload.get("challenge") or "")[:1000]}
        try:
            async with asyncio.timeout(self._limits.http_accept_timeout_s):
                await handler(kind, payload)
        except TimeoutError:
            raise _SlackHttpError(503, "the event could not be stored in time; post it again") from None
        return {}

    async def _read_body(self, scope: Scope, receive: Receive, body: bytearray) -> None:
        """Read the whole body. Raises _SlackHttpError as soon as it exceeds a limit."""
        content_length = _single_header(scope, b"content-length") or ""
        if content_length.isdigit() and (len(content_length) > 18 or int(content_length) > self._limits.body_bytes_max):
            raise _SlackHttpError(413, "the request is too large")
        try:
            async with asyncio.timeout(self._limits.body_timeout_s):
                more = True
                while more:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise _SlackClientDisconnected
                    chunk = message.get("body", b"")
                    more = message.get("more_body", False)
                    if len(body) + len(chunk) > self._limits.body_bytes_max:
                        raise _SlackHttpError(413, "the request is too large")
                    body += chunk
                    self._body_bytes += len(chunk)
                    if self._body_bytes > self._limits.all_bodies_bytes_max:
                        raise _SlackHttpError(503, "too many requests at once; post it again")
        except TimeoutError:
            raise _SlackHttpError(408, "the request was not received in time") from None

    def _signature_problem(self, scope: Scope, body: bytes) -> str:
        """Return why the signature or timestamp is not valid, for the log and never for the client; empty: valid."""
        timestamp = _single_header(scope, b"x-slack-request-timestamp") or ""
        received = _single_header(scope, b"x-slack-signature") or ""
        is_timestamp = timestamp.isascii() and timestamp.isdigit() and len(timestamp) <= 12
        expected = compute_signature(self._secret, timestamp if is_timestamp else "0", body)
        if not hmac.compare_digest(expected.encode(), received.encode(errors="replace")) or not is_timestamp:
            return "the signature does not match"
        if abs(time.time() - int(timestamp)) > self._limits.signature_window_s:
            return "the signature's timestamp is too far from the current time"
        return ""

    def _log_refusal(self, scope: Scope, reason: str) -> None:
        """Log a refused request, at a limited rate so that clients cannot flood the log."""
        now = time.monotonic()
        if now - self._refusal_logged_at >= REFUSAL_LOG_INTERVAL_S:
            self._refusal_logged_at = now
            client = scope.get("client") or ("an unknown client", 0)
            log.warning("%s: refused a request from %s: %s", self._name, one_line(str(client[0])), reason)


def _single_header(scope: Scope, name: bytes) -> str | None:
    """Return the header's value; None if it is missing or ambiguous because it is there twice."""
    values = [value for key, value in scope["headers"] if key.lower() == name]
    return values[0].decode("latin-1") if len(values) == 1 else None


def _parse_body(scope: Scope, body: bytes) -> tuple[str, dict[str, Any]]:
    """Return the envelope type, as Socket Mode names it, and the payload."""
    media_type = (_single_header(scope, b"content-type") or "").partition(";")[0].strip().lower()
    try:
        if media_type == "application/x-www-form-urlencoded":
            form = dict(parse_qsl(body.decode(), keep_blank_values=True, max_num_fields=FORM_FIELDS_MAX))
            return ("slash_commands" if "command" in form else "interactive"), form
        event = decode_repaired(body, msgspec.json.decode)
    except (ValueError, msgspec.DecodeError, RecursionError):
        raise _SlackHttpError(400, "the body is neither JSON nor a form") from None
    if not isinstance(event, dict):
        raise _SlackHttpError(400, "the body is not an event")
    return ("url_verification" if event.get("type") == "url_verification" else "events_api"), event


async def _send_response(send: Send, status: int, answer: dict[str, Any]) -> None:
    """Send the response; without a body if the answer is empty, because Slack shows any text in reply to a command."""
    body = msgspec.json.encode(answer) if answer else b""
    headers = [(b"cache-control", b"no-store"), (b"content-length", str(len(body)).encode())]
    if body:
        headers.append((b"content-type", b"application/json"))
    if status in (405, 408, 413):
        headers.append((b"connection", b"close"))  # the rest of the request is not read
    if status == 405:
        headers.append((b"allow", b"POST"))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
