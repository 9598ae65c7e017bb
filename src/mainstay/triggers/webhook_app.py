"""Webhooks as an ASGI application: `POST /hooks/NAME`, with HMAC signatures, below its mount point.

    unknown or paused 404 · other methods 405 · too large 413 · too slow 408 · signature invalid 401 · then parsed:
    not text 415 · invalid JSON with a JSON content type 400 · not accepted 422, 429 or 503 · accepted and durable 202

The body is not parsed before its signature is verified, and every rejected signature gets the same answer; the reason
is logged for the owner. Bodies, signatures and secrets are never logged.
"""

from __future__ import annotations

import asyncio
import json
import logging
import math
import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Literal, NoReturn
from urllib.parse import parse_qsl

import msgspec

from mainstay.core.asgi import ASGIApp, Receive, Scope, Send
from mainstay.core.errors import (
    AgentClosed,
    ConfigError,
    InputRefused,
    LaneFull,
    SessionArchived,
    SessionUnknown,
    StoreError,
)
from mainstay.core.json_types import JsonMapping, JsonObject
from mainstay.core.ports import Clock
from mainstay.core.triggers import Webhook
from mainstay.guards.line_escaping import one_line
from mainstay.io.webhook_signatures import (
    GITHUB_DELIVERY_HEADER,
    IDEMPOTENCY_KEY_HEADER,
    SECRETS_MAX,
    SignatureInvalid,
    decode_secret,
    get_single_header,
    verify_signature,
)
from mainstay.triggers.webhook_templates import check_template, render_template

log = logging.getLogger("mainstay.triggers")

PayloadFormat = Literal["json", "text"]

PATH_PREFIX = "/hooks/"
BODY_BYTES_MAX = 16 * 1024 * 1024  # upper bound of a webhook's configured `bytes_max`
DELIVERY_ID_CHARS_MAX = 255
FORM_FIELDS_MAX = 1000  # of a form
WINDOW_S_MAX = 24 * 3600.0
_NAME_PATTERN = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")


class WebhookAppLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of the webhook application."""

    body_timeout_s: float = 10.0  # for a body to arrive completely
    delivery_timeout_s: float = 25.0  # for a delivery to become durable
    held_bytes_max: int = 64 * 1024 * 1024  # of all bodies together that are being read or delivered
    payload_chars_max: int = 32 * 1024  # of the payload that the model is shown
    retry_after_s: int = 10  # value of Retry-After
    rejection_log_interval_s: float = 1.0  # least time between two log lines about rejected deliveries to one webhook


class WebhookDelivery(msgspec.Struct, frozen=True, kw_only=True):
    """A verified delivery. Equal nonces mean the same delivery; so do equal delivery ids, where there are any."""

    webhook: Webhook
    nonce: str
    delivery_id: str = ""  # the sender's delivery id, which the signature does not cover; empty: none
    payload_text: str = ""  # the payload as the model is shown it: untrusted text
    payload_format: PayloadFormat = "text"


class DeliveryReceipt(msgspec.Struct, frozen=True):
    """A durable delivery. `duplicate`: it had been accepted before."""

    id: str
    duplicate: bool = False


DeliverCallback = Callable[[WebhookDelivery], Awaitable[DeliveryReceipt]]


def check_webhook(webhook: Webhook) -> None:
    """Raise ConfigError for a webhook that must not be served, above all one with a weak secret."""
    if not _NAME_PATTERN.fullmatch(webhook.name):
        raise ConfigError(
            f"{webhook.name[:80]!r} is not a valid webhook name: use letters, digits, - and _, at most 64 characters"
        )
    if len(webhook.other_secrets) >= SECRETS_MAX:
        raise ConfigError(f"the webhook {webhook.name} has more than {SECRETS_MAX} secrets")
    if not 0 < webhook.bytes_max <= BODY_BYTES_MAX:
        raise ConfigError(
            f"the webhook {webhook.name} cannot accept {webhook.bytes_max} bytes; at most {BODY_BYTES_MAX}"
        )
    if not 0 < webhook.window_s <= WINDOW_S_MAX:
        problem = f"cannot have a replay window of {webhook.window_s:g} s; at most {WINDOW_S_MAX:g}"
        raise ConfigError(f"the webhook {webhook.name} {problem}")
    target = webhook.target
    if bool(target.session) == bool(target.channel) or bool(target.channel) != bool(target.room):
        raise ConfigError(f"the webhook {webhook.name} needs either a session or a channel with a room")
    try:
        for secret in (webhook.secret, *webhook.other_secrets):
            decode_secret(webhook.scheme, secret)
        check_template(webhook.template)
    except ConfigError as error:
        raise ConfigError(f"the webhook {webhook.name} cannot be served: {error}") from None


def check_webhooks(webhooks: Mapping[str, Webhook]) -> None:
    """Check each webhook, and that no two share a secret: a delivery signed for one could be sent to the other. Raises
    ConfigError."""
    owners: dict[bytes, str] = {}
    for name, hook in webhooks.items():
        check_webhook(hook)
        if name != hook.name:
            raise ConfigError(f"the webhook {hook.name} is listed as {name[:80]!r}")
        for key in {decode_secret(hook.scheme, secret) for secret in (hook.secret, *hook.other_secrets)}:
            if (other := owners.setdefault(key, name)) != name:
                raise ConfigError(f"the webhooks {other} and {name} have the same secret; give each its own")


def build_webhook_app(
    webhooks: Mapping[str, Webhook],
    deliver: DeliverCallback,
    *,
    clock: Clock,
    standalone: bool = False,
    limits: WebhookAppLimits | None = None,
) -> ASGIApp:
    """Build the application. Raises ConfigError for webhooks that must not be served. `standalone`: it serves
    `/healthz` too."""
    check_webhooks(webhooks)
    return _TriggerWebhookApp(webhooks, deliver, clock, standalone, limits or WebhookAppLimits())


# --- one request ---------------------------------------------------------------------------------


class _WebhookResponse(msgspec.Struct, frozen=True):
    status: int
    body: JsonMapping | None = None
    headers: tuple[tuple[bytes, bytes], ...] = ()


class _WebhookRejected(Exception):
    def __init__(self, status: int, problem_type: str, sentence: str, *headers: tuple[bytes, bytes]) -> None:
        super().__init__(sentence)
        self.response = _WebhookResponse(status, {"error": {"type": problem_type, "message": sentence}}, headers)


class _WebhookClientGone(Exception):
    """The client has disconnected."""


class _TriggerWebhookApp:
    def __init__(
        self,
        webhooks: Mapping[str, Webhook],
        deliver: DeliverCallback,
        clock: Clock,
        standalone: bool,
        limits: WebhookAppLimits,
    ) -> None:
        self._webhooks = webhooks
        self._deliver = deliver
        self._clock = clock
        self._standalone = standalone
        self._limits = limits
        self._held_bytes = 0  # bytes
        self._rejections: dict[str, tuple[float, int]] = {}  # by webhook: time of the last log line, rejections since

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        match scope["type"]:
            case "http":
                await self._handle_http(scope, receive, send)
            case "lifespan":
                await _handle_lifespan(receive, send)
            case "websocket":
                await send({"type": "websocket.close", "code": 1000})
            case other:
                raise NotImplementedError(f"webhooks come over HTTP, not over {other}")

    async def _handle_http(self, scope: Scope, receive: Receive, send: Send) -> None:
        body = _WebhookBody(receive, scope["headers"])
        try:
            answer = await self._handle_request(scope, body)
        except _WebhookRejected as refused:
            answer = refused.response
        except _WebhookClientGone:
            return
        finally:
            self._held_bytes -= len(body.data)
        # The rest of a body that was not read completely is not waited for.
        headers = answer.headers if body.is_complete else (*answer.headers, (b"connection", b"close"))
        await _send_response(
            send, msgspec.structs.replace(answer, headers=headers), head_only=scope["method"] == "HEAD"
        )

    async def _handle_request(self, scope: Scope, body: _WebhookBody) -> _WebhookResponse:
        path, method = _relative_path(scope), scope["method"]
        if self._standalone and path == "/healthz":
            return _health_response(method)
        hook = self._find_webhook(path)
        if method == "OPTIONS":
            return _WebhookResponse(204, headers=((b"allow", b"OPTIONS, POST"),))
        if method != "POST":
            raise _WebhookRejected(405, "method_not_allowed", "use POST", (b"allow", b"OPTIONS, POST"))
        await self._read_body(body, hook.bytes_max)
        raw = bytes(body.data)
        nonce = self._verify_signature(hook, scope, raw)
        delivery_id = _read_delivery_id(hook, scope["headers"])
        payload, media = _parse_body(hook, scope["headers"], raw)
        text = render_template(hook.template, payload, chars_max=self._limits.payload_chars_max)
        return await self._deliver_verified(
            WebhookDelivery(webhook=hook, nonce=nonce, delivery_id=delivery_id, payload_text=text, payload_format=media)
        )

    def _find_webhook(self, path: str) -> Webhook:
        name = path.removeprefix(PATH_PREFIX)
        hook = self._webhooks.get(name) if len(name) < len(path) <= 100 else None
        if hook is None or hook.paused:  # the same answer for both, which reveals nothing
            raise _WebhookRejected(404, "not_found", "not found")
        return hook

    async def _read_body(self, body: _WebhookBody, bytes_max: int) -> None:
        """Read the whole body, or refuse it before more is read than allowed."""
        try:
            async with asyncio.timeout(self._limits.body_timeout_s):
                body.check_content_length(bytes_max)
                while not body.is_complete:
                    size = await body.read_chunk(bytes_max)
                    self._held_bytes += size  # separate from the await: other requests change it meanwhile
                    if self._held_bytes > self._limits.held_bytes_max:
                        self._reject_with_retry(503, "busy", "too many deliveries at once; try again later")
        except TimeoutError:
            raise _WebhookRejected(
                408, "too_slow", f"the body did not arrive within {self._limits.body_timeout_s:g} s"
            ) from None

    def _verify_signature(self, webhook: Webhook, scope: Scope, body: bytes) -> str:
        try:
            return verify_signature(webhook, scope["headers"], body, self._clock.now_ms()).nonce
        except SignatureInvalid as reason:
            self._log_rejection(webhook.name, scope, str(reason))
            raise _WebhookRejected(401, "unauthorized", "the signature is missing or invalid") from None

    async def _deliver_verified(self, delivery: WebhookDelivery) -> _WebhookResponse:
        try:
            async with asyncio.timeout(self._limits.delivery_timeout_s):
                done = await self._deliver(delivery)
        except LaneFull:
            self._reject_with_retry(429, "busy", "too many prompts are queued; try again later")
        except InputRefused as error:
            log.warning("webhook %s: a delivery was refused: %s", delivery.webhook.name, one_line(str(error)))
            raise _WebhookRejected(422, "refused", "the delivery was refused") from None
        except (StoreError, SessionArchived, SessionUnknown, AgentClosed, TimeoutError) as error:
            reason = one_line(str(error)) or "it took too long"
            log.error("webhook %s: a delivery was not accepted: %s", delivery.webhook.name, reason)
            self._reject_with_retry(503, "unavailable", "the delivery could not be stored; try again later")
        body: JsonObject = {"accepted": True, "id": done.id}
        return _WebhookResponse(202, {**body, "duplicate": True} if done.duplicate else body)

    def _reject_with_retry(self, status: int, problem_type: str, sentence: str) -> NoReturn:
        raise _WebhookRejected(
            status, problem_type, sentence, (b"retry-after", str(self._limits.retry_after_s).encode())
        ) from None

    def _log_rejection(self, name: str, scope: Scope, reason: str) -> None:
        """Log a rejected delivery, rate limited: anyone can send invalid ones."""
        now = self._clock.monotonic()
        last, left_out = self._rejections.get(name, (float("-inf"), 0))
        if now - last < self._limits.rejection_log_interval_s:
            self._rejections[name] = (last, left_out + 1)
            return
        self._rejections[name] = (now, 0)
        client = scope.get("client") or ("an unknown client", 0)
        more = f" ({left_out} more were rejected before)" if left_out else ""
        log.warning("webhook %s: rejected a delivery from %s: %s%s", name, one_line(str(client[0])), reason, more)


class _WebhookBody:
    def __init__(self, receive: Receive, headers: list[tuple[bytes, bytes]]) -> None:
        self._receive = receive
        named = {name.lower(): value for name, value in headers}
        self._length = named.get(b"content-length", b"")
        self.data = bytearray()
        self.is_complete = self._length in (b"", b"0") and b"transfer-encoding" not in named

    def check_content_length(self, bytes_max: int) -> None:
        """Refuse a body by its Content-Length before reading it. The header may be false, so `read_chunk` counts
        too."""
        if self._length.isdigit() and (len(self._length) > 18 or int(self._length) > bytes_max):
            _reject_too_large(bytes_max)
        self.is_complete = False

    async def read_chunk(self, bytes_max: int) -> int:
        message = await self._receive()
        if message["type"] == "http.disconnect":
            raise _WebhookClientGone
        chunk = message.get("body", b"")
        if len(self.data) + len(chunk) > bytes_max:
            _reject_too_large(bytes_max)
        self.data += chunk
        self.is_complete = not message.get("more_body", False)
        return len(chunk)


def _reject_too_large(bytes_max: int) -> NoReturn:
    raise _WebhookRejected(413, "too_large", f"the body is larger than {bytes_max} bytes")


def _relative_path(scope: Scope) -> str:
    """Return the path below the mount point."""
    path, root = str(scope["path"]), str(scope.get("root_path", ""))
    below = path.removeprefix(root.rstrip("/"))
    return below if below.startswith("/") else path


def _read_delivery_id(webhook: Webhook, headers: list[tuple[bytes, bytes]]) -> str:
    """Return the sender's delivery id, or its idempotency key; empty if there is none."""
    try:
        delivery_id = (
            get_single_header(headers, IDEMPOTENCY_KEY_HEADER)
            or (get_single_header(headers, GITHUB_DELIVERY_HEADER) if webhook.scheme == "github" else "")
            or ""
        )
    except ValueError as error:
        raise _WebhookRejected(400, "bad_request", str(error)) from None
    if len(delivery_id) > DELIVERY_ID_CHARS_MAX:
        raise _WebhookRejected(
            400, "bad_request", f"{IDEMPOTENCY_KEY_HEADER} has more than {DELIVERY_ID_CHARS_MAX} characters"
        )
    return delivery_id


def _parse_body(webhook: Webhook, headers: list[tuple[bytes, bytes]], body: bytes) -> tuple[object, PayloadFormat]:
    fields = {name.lower(): value for name, value in headers}
    content_type = fields.get(b"content-type", b"").partition(b";")[0].strip().lower()
    if fields.get(b"content-encoding", b"identity").strip().lower() != b"identity":
        raise _WebhookRejected(415, "unsupported", "the body must not be compressed")
    try:
        text = body.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise _WebhookRejected(415, "unsupported", "the body is not UTF-8") from None
    if content_type == b"application/x-www-form-urlencoded":
        return _parse_form(webhook, text)
    declared = content_type == b"application/json" or content_type.endswith(b"+json")
    if not declared and not text.lstrip().startswith(("{", "[")):
        return text, "text"
    try:
        return _parse_json(text), "json"
    except (ValueError, RecursionError):
        if declared:
            raise _WebhookRejected(
                400, "bad_request", "the body is not JSON, although its content type says so"
            ) from None
        return text, "text"


def _parse_form(webhook: Webhook, text: str) -> tuple[object, PayloadFormat]:
    """Parse a form's fields; of GitHub's, the JSON in the field `payload`, which holds everything."""
    try:
        fields = dict(parse_qsl(text, keep_blank_values=True, max_num_fields=FORM_FIELDS_MAX))
        if webhook.scheme == "github" and "payload" in fields:
            return _parse_json(fields["payload"]), "json"
    except (ValueError, RecursionError):
        raise _WebhookRejected(
            400, "bad_request", "the body is not a form, although its content type says so"
        ) from None
    return fields, "json"


def _parse_json(text: str) -> object:
    return json.loads(text, parse_constant=_reject_constant, parse_float=_parse_float)


def _parse_float(digits: str) -> float:
    """Parse a number; refuse infinity, which could not be encoded as JSON again."""
    return number if math.isfinite(number := float(digits)) else _reject_constant(digits[:40])


def _reject_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


# --- ASGI ----------------------------------------------------------------------------------------


def _health_response(method: str) -> _WebhookResponse:
    if method not in ("GET", "HEAD"):
        raise _WebhookRejected(405, "method_not_allowed", "use GET", (b"allow", b"GET, HEAD"))
    return _WebhookResponse(200, {"ok": True})


async def _send_response(send: Send, response: _WebhookResponse, *, head_only: bool) -> None:
    body = b"" if response.body is None else msgspec.json.encode(response.body)
    headers = [(b"cache-control", b"no-store"), (b"x-content-type-options", b"nosniff"), *response.headers]
    if response.body is not None:
        headers += [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": response.status, "headers": headers})
    await send({"type": "http.response.body", "body": b"" if head_only else body})


async def _handle_lifespan(receive: Receive, send: Send) -> None:
    """Answer the lifespan protocol; there is nothing to start or stop."""
    while (await receive())["type"] == "lifespan.startup":
        await send({"type": "lifespan.startup.complete"})
    await send({"type": "lifespan.shutdown.complete"})
