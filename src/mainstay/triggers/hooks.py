"""Webhooks as a plain ASGI application: `POST /hooks/NAME`, below wherever it is mounted.

    unknown or paused 404 · other methods 405 · too large 413 · too slow 408 · not signed 401 · and only then parsed:
    not text 415 · no JSON where JSON was said 400 · not taken: 422, 429 or 503 · taken, which is durable: 202

Until the signature is known to be right, nothing of the body has been looked at, and every refusal of it reads the
same; the reason is in the owner's log. A body, a signature and a secret are in no log.
"""

from __future__ import annotations

import asyncio
import json
import logging
import math
import re
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any, Literal, NoReturn
from urllib.parse import parse_qsl

import msgspec

from mainstay.core.errors import (
    AgentClosed,
    ConfigError,
    InputRefused,
    LaneFull,
    SessionArchived,
    SessionUnknown,
    StoreError,
)
from mainstay.core.ports import Clock
from mainstay.core.triggers import Hook
from mainstay.io.signing import GITHUB_ID, IDEMPOTENCY, SECRETS_MAX, Unsigned, key_of, only, verify
from mainstay.triggers.templates import check_template, render
from mainstay.trust.guards.lines import one_line

log = logging.getLogger("mainstay.triggers")

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
ASGIApp = Callable[[Message, Receive, Send], Awaitable[None]]
Media = Literal["json", "text"]

PREFIX = "/hooks/"
BYTES_MAX = 16 * 1024 * 1024  # that a hook may be configured to take
GIVEN_CHARS_MAX = 255
FIELDS_MAX = 1000  # of a form
WINDOW_S_MAX = 24 * 3600.0
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")


class Bounds(msgspec.Struct, frozen=True, kw_only=True):
    body_s: float = 10.0  # for all of a body to come
    deliver_s: float = 25.0  # for it to be durable
    held_bytes_max: int = 64 * 1024 * 1024  # of all bodies together that are being read or delivered
    shown_chars_max: int = 32 * 1024  # of what came, for the model
    retry_s: int = 10  # when to try again, for whoever was told to
    complaint_s: float = 1.0  # between two lines of the log about refused deliveries to one hook


class Delivery(msgspec.Struct, frozen=True, kw_only=True):
    """Something that was signed. The same `nonce` is the same delivery; so is the same `given`, where there is one."""

    hook: Hook
    nonce: str
    given: str = ""  # what its sender calls it; nobody has signed that
    shown: str = ""  # from outside
    media: Media = "text"


class Delivered(msgspec.Struct, frozen=True):
    """It is durable, or has been: `duplicate`."""

    id: str
    duplicate: bool = False


Deliver = Callable[[Delivery], Awaitable[Delivered]]


def check_hook(hook: Hook) -> None:
    """Raises ConfigError for a hook that must not be served: first of all one whose secret anybody could guess."""
    if not _NAME.fullmatch(hook.name):
        raise ConfigError(f"a webhook's name has letters, digits, - and _, 64 at most; {hook.name[:80]!r} is none")
    if len(hook.others) >= SECRETS_MAX:
        raise ConfigError(f"the webhook {hook.name} has over {SECRETS_MAX} secrets")
    if not 0 < hook.bytes_max <= BYTES_MAX:
        raise ConfigError(f"the webhook {hook.name} cannot take {hook.bytes_max} bytes; at most {BYTES_MAX}")
    if not 0 < hook.window_s <= WINDOW_S_MAX:
        raise ConfigError(f"the webhook {hook.name} has a window of {hook.window_s:g} s; at most {WINDOW_S_MAX:g}")
    target = hook.target
    if bool(target.session) == bool(target.channel) or bool(target.channel) != bool(target.room):
        raise ConfigError(f"the webhook {hook.name} needs either a session or a channel with a room")
    try:
        for secret in (hook.secret, *hook.others):
            key_of(hook.scheme, secret)
        check_template(hook.template)
    except ConfigError as error:
        raise ConfigError(f"the webhook {hook.name} cannot be served: {error}") from None


def check_hooks(hooks: Mapping[str, Hook]) -> None:
    """Each, and that no two share a secret: what was signed for one could be sent to the other."""
    owners: dict[bytes, str] = {}
    for name, hook in hooks.items():
        check_hook(hook)
        if name != hook.name:
            raise ConfigError(f"the webhook {hook.name} is listed as {name[:80]!r}")
        for key in {key_of(hook.scheme, secret) for secret in (hook.secret, *hook.others)}:
            if (other := owners.setdefault(key, name)) != name:
                raise ConfigError(f"the webhooks {other} and {name} have the same secret; give each its own")


def hooks_app(
    hooks: Mapping[str, Hook], deliver: Deliver, *, clock: Clock, alone: bool = False, bounds: Bounds | None = None
) -> ASGIApp:
    """Refuses to be made of hooks that must not be served (ConfigError). `alone`: it answers `/healthz` too."""
    check_hooks(hooks)
    return _Hooks(hooks, deliver, clock, alone, bounds or Bounds())


# --- one request ---------------------------------------------------------------------------------


class _Answer(msgspec.Struct, frozen=True):
    status: int
    body: dict[str, Any] | None = None
    headers: tuple[tuple[bytes, bytes], ...] = ()


class _Refused(Exception):
    def __init__(self, status: int, kind: str, sentence: str, *headers: tuple[bytes, bytes]) -> None:
        super().__init__(sentence)
        self.answer = _Answer(status, {"error": {"type": kind, "message": sentence}}, headers)


class _Gone(Exception):
    """Whoever asked has hung up."""


class _Hooks:
    def __init__(self, hooks: Mapping[str, Hook], deliver: Deliver, clock: Clock, alone: bool, bounds: Bounds) -> None:
        self._hooks = hooks
        self._deliver = deliver
        self._clock = clock
        self._alone = alone
        self._bounds = bounds
        self._held = 0  # bytes
        self._complaints: dict[
            str, tuple[float, int]
        ] = {}  # when the log last had one, and how many were left out since

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        match scope["type"]:
            case "http":
                await self._http(scope, receive, send)
            case "lifespan":
                await _live(receive, send)
            case "websocket":
                await send({"type": "websocket.close", "code": 1000})
            case other:
                raise NotImplementedError(f"webhooks come over HTTP, not over {other}")

    async def _http(self, scope: Message, receive: Receive, send: Send) -> None:
        reading = _Body(receive, scope["headers"])
        try:
            answer = await self._answer(scope, reading)
        except _Refused as refused:
            answer = refused.answer
        except _Gone:
            return
        finally:
            self._held -= len(reading.data)
        # What is still on its way is not waited for.
        headers = answer.headers if reading.whole else (*answer.headers, (b"connection", b"close"))
        await _send(send, msgspec.structs.replace(answer, headers=headers), silent=scope["method"] == "HEAD")

    async def _answer(self, scope: Message, body: _Body) -> _Answer:
        path, method = _path(scope), scope["method"]
        if self._alone and path == "/healthz":
            return _health(method)
        hook = self._find(path)
        if method == "OPTIONS":
            return _Answer(204, headers=((b"allow", b"OPTIONS, POST"),))
        if method != "POST":
            raise _Refused(405, "method_not_allowed", "a webhook is posted", (b"allow", b"OPTIONS, POST"))
        await self._read(body, hook.bytes_max)
        raw = bytes(body.data)
        nonce = self._verify(hook, scope, raw)
        given = _given(hook, scope["headers"])
        payload, media = _parse(hook, scope["headers"], raw)
        shown = render(hook.template, payload, chars_max=self._bounds.shown_chars_max)
        return await self._hand_over(Delivery(hook=hook, nonce=nonce, given=given, shown=shown, media=media))

    def _find(self, path: str) -> Hook:
        name = path.removeprefix(PREFIX)
        hook = self._hooks.get(name) if len(name) < len(path) <= 100 else None
        if hook is None or hook.paused:  # which of the two is nobody's business
            raise _Refused(404, "not_found", "there is nothing here")
        return hook

    async def _read(self, body: _Body, bytes_max: int) -> None:
        """All of it, or a refusal before more is read than it may have."""
        try:
            async with asyncio.timeout(self._bounds.body_s):
                body.announced(bytes_max)
                while not body.whole:
                    came = await body.more(bytes_max)
                    self._held += came  # not in one line with the wait: others count meanwhile
                    if self._held > self._bounds.held_bytes_max:
                        self._unavailable(503, "busy", "too much is being delivered at once; try again later")
        except TimeoutError:
            raise _Refused(408, "too_slow", f"the body did not come within {self._bounds.body_s:g} s") from None

    def _verify(self, hook: Hook, scope: Message, body: bytes) -> str:
        try:
            return verify(hook, scope["headers"], body, self._clock.now_ms()).nonce
        except Unsigned as reason:
            self._complain(hook.name, scope, str(reason))
            raise _Refused(401, "unauthorized", "the delivery is not signed as it should be") from None

    async def _hand_over(self, delivery: Delivery) -> _Answer:
        try:
            async with asyncio.timeout(self._bounds.deliver_s):
                done = await self._deliver(delivery)
        except LaneFull:
            self._unavailable(429, "busy", "too many prompts wait already; try again later")
        except InputRefused as error:
            log.warning("webhook %s: a delivery was refused: %s", delivery.hook.name, one_line(str(error)))
            raise _Refused(422, "refused", "it cannot be taken as it is") from None
        except (StoreError, SessionArchived, SessionUnknown, AgentClosed, TimeoutError) as error:
            why = one_line(str(error)) or "it took too long"
            log.error("webhook %s: a delivery was not taken: %s", delivery.hook.name, why)
            self._unavailable(503, "unavailable", "it could not be kept; try again later")
        again = {"duplicate": True} if done.duplicate else {}
        return _Answer(202, {"accepted": True, "id": done.id} | again)

    def _unavailable(self, status: int, kind: str, sentence: str) -> NoReturn:
        raise _Refused(status, kind, sentence, (b"retry-after", str(self._bounds.retry_s).encode())) from None

    def _complain(self, name: str, scope: Message, reason: str) -> None:
        """In the log, but not as often as strangers would like."""
        now = self._clock.monotonic()
        last, left_out = self._complaints.get(name, (float("-inf"), 0))
        if now - last < self._bounds.complaint_s:
            self._complaints[name] = (last, left_out + 1)
            return
        self._complaints[name] = (now, 0)
        client = scope.get("client") or ("somebody", 0)
        more = f" ({left_out} more were refused before)" if left_out else ""
        log.warning("webhook %s: refused a delivery of %s: %s%s", name, one_line(str(client[0])), reason, more)


class _Body:
    def __init__(self, receive: Receive, headers: list[tuple[bytes, bytes]]) -> None:
        self._receive = receive
        named = {name.lower(): value for name, value in headers}
        self._length = named.get(b"content-length", b"")
        self.data = bytearray()
        self.whole = self._length in (b"", b"0") and b"transfer-encoding" not in named

    def announced(self, bytes_max: int) -> None:
        """Without having read anything. What was announced may be a lie; what comes is counted too."""
        if self._length.isdigit() and (len(self._length) > 18 or int(self._length) > bytes_max):
            _too_large(bytes_max)
        self.whole = False

    async def more(self, bytes_max: int) -> int:
        message = await self._receive()
        if message["type"] == "http.disconnect":
            raise _Gone
        chunk = message.get("body", b"")
        if len(self.data) + len(chunk) > bytes_max:
            _too_large(bytes_max)
        self.data += chunk
        self.whole = not message.get("more_body", False)
        return len(chunk)


def _too_large(bytes_max: int) -> NoReturn:
    raise _Refused(413, "too_large", f"the body has over {bytes_max} bytes")


def _path(scope: Message) -> str:
    """Below wherever this is mounted."""
    path, root = str(scope["path"]), str(scope.get("root_path", ""))
    below = path.removeprefix(root.rstrip("/"))
    return below if below.startswith("/") else path


def _given(hook: Hook, headers: list[tuple[bytes, bytes]]) -> str:
    """What its sender calls it: the same name, the same delivery."""
    try:
        given = only(headers, IDEMPOTENCY) or (only(headers, GITHUB_ID) if hook.scheme == "github" else "") or ""
    except ValueError as error:
        raise _Refused(400, "bad_request", str(error)) from None
    if len(given) > GIVEN_CHARS_MAX:
        raise _Refused(400, "bad_request", f"{IDEMPOTENCY} has over {GIVEN_CHARS_MAX} characters")
    return given


def _parse(hook: Hook, headers: list[tuple[bytes, bytes]], body: bytes) -> tuple[Any, Media]:
    named = {name.lower(): value for name, value in headers}
    kind = named.get(b"content-type", b"").partition(b";")[0].strip().lower()
    if named.get(b"content-encoding", b"identity").strip().lower() != b"identity":
        raise _Refused(415, "unsupported", "the body must not be compressed")
    try:
        text = body.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise _Refused(415, "unsupported", "the body is not UTF-8") from None
    if kind == b"application/x-www-form-urlencoded":
        return _form(hook, text)
    declared = kind == b"application/json" or kind.endswith(b"+json")
    if not declared and not text.lstrip().startswith(("{", "[")):
        return text, "text"
    try:
        return _json(text), "json"
    except (ValueError, RecursionError):
        if declared:
            raise _Refused(400, "bad_request", "the body is not JSON, which its content type says it is") from None
        return text, "text"


def _form(hook: Hook, text: str) -> tuple[Any, Media]:
    """Its fields; of GitHub's, the one field that holds everything, which is JSON."""
    try:
        fields = dict(parse_qsl(text, keep_blank_values=True, max_num_fields=FIELDS_MAX))
        if hook.scheme == "github" and "payload" in fields:
            return _json(fields["payload"]), "json"
    except (ValueError, RecursionError):
        raise _Refused(400, "bad_request", "the body is not the form that its content type says it is") from None
    return fields, "json"


def _json(text: str) -> Any:
    return json.loads(text, parse_constant=_no_number, parse_float=_number)


def _number(digits: str) -> float:
    """What is beyond floats could not be written down again."""
    return number if math.isfinite(number := float(digits)) else _no_number(digits[:40])


def _no_number(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


# --- the protocol --------------------------------------------------------------------------------


def _health(method: str) -> _Answer:
    if method not in ("GET", "HEAD"):
        raise _Refused(405, "method_not_allowed", "health is asked for with GET", (b"allow", b"GET, HEAD"))
    return _Answer(200, {"ok": True})


async def _send(send: Send, answer: _Answer, *, silent: bool) -> None:
    body = b"" if answer.body is None else msgspec.json.encode(answer.body)
    headers = [(b"cache-control", b"no-store"), (b"x-content-type-options", b"nosniff"), *answer.headers]
    if answer.body is not None:
        headers += [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": answer.status, "headers": headers})
    await send({"type": "http.response.body", "body": b"" if silent else body})


async def _live(receive: Receive, send: Send) -> None:
    """There is nothing to begin or to end: what is delivered is awaited."""
    while (await receive())["type"] == "lifespan.startup":
        await send({"type": "lifespan.startup.complete"})
    await send({"type": "lifespan.shutdown.complete"})
