"""Checks and reads HTTP requests: path, headers, body limits, JSON decoding."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TypeVar
from urllib.parse import unquote_to_bytes

import msgspec

from mainstay.core.asgi import AsgiMessage, Receive, Scope
from mainstay.core.surrogates import describe_json_error
from mainstay.server.http_state import HttpServerState
from mainstay.server.problems import RETRY_AFTER_S, Problem

T = TypeVar("T")

PATH_BYTES_MAX = 4096
QUERY_BYTES_MAX = 4096
_BAD_ESCAPE = re.compile(rb"%(?![0-9A-Fa-f]{2})")


# --- path ----------------------------------------------------------------------------------------


def get_raw_path(scope: Scope) -> bytes:
    """Return the path below the application's mount point, still percent-encoded: a name may contain a slash."""
    raw = scope.get("raw_path")
    path: bytes = raw if isinstance(raw, bytes) else scope["path"].encode()
    root = scope.get("root_path", "").encode()
    return path[len(root) :] if root and path.startswith(root) else path


def check_path(path: bytes, query: bytes) -> None:
    """Raise Problem for a path that is too long or malformed, as path traversal attempts are."""
    if len(path) > PATH_BYTES_MAX or len(query) > QUERY_BYTES_MAX:
        raise Problem(414, "address_too_long", f"the path or the query is longer than {PATH_BYTES_MAX} bytes")
    if not path.startswith(b"/") or b"//" in path or b"\\" in path or _BAD_ESCAPE.search(path):
        raise Problem(400, "invalid_request", "the path is malformed")
    for segment in path.split(b"/")[1:]:
        decode_segment(segment)


def decode_segment(segment: bytes) -> str:
    """Return a percent-encoded path segment as text. Raises Problem."""
    try:
        text = unquote_to_bytes(segment).decode()
    except UnicodeDecodeError:
        raise Problem(400, "invalid_request", "the path is not UTF-8") from None
    if text in (".", "..") or any(ord(char) < 32 or ord(char) == 127 for char in text):
        raise Problem(400, "invalid_request", "the path contains control characters, or a segment `.` or `..`")
    return text


# --- headers -------------------------------------------------------------------------------------


def get_header(scope: Scope, name: bytes) -> bytes:
    return next((value for key, value in scope["headers"] if key == name), b"")


def check_body_headers(scope: Scope, bytes_max: int) -> None:
    """Check the encoding and the declared length of the body before it is read. Raises Problem."""
    coding = get_header(scope, b"content-encoding").strip().lower()
    if coding not in (b"", b"identity"):
        raise Problem(
            415, "unsupported_encoding", "compressed bodies are not supported; send it without `Content-Encoding`"
        )
    length = get_header(scope, b"content-length")
    if length and (not length.isdigit() or int(length) > bytes_max):
        raise body_too_large(bytes_max)


def body_too_large(bytes_max: int) -> Problem:
    return Problem(413, "too_large", f"the request body is larger than {bytes_max} bytes")


# --- body ----------------------------------------------------------------------------------------


class LimitedReceive:
    """ASGI `receive` that enforces the body limit of one request, and the limit on all bodies in memory together."""

    def __init__(self, receive: Receive, state: HttpServerState) -> None:
        self._receive = receive
        self._state = state
        self._bytes_max = state.settings.body_bytes_max
        self._received_bytes = 0

    async def __call__(self) -> AsgiMessage:
        message = await self._receive()
        if message["type"] == "http.request" and (size := len(message.get("body", b""))):
            self._received_bytes += size
            self._state.held_body_bytes += size
            if self._received_bytes > self._bytes_max:
                raise body_too_large(self._bytes_max)
            if self._state.held_body_bytes > self._state.held_body_bytes_max:
                raise Problem(
                    503, "busy", "the server is receiving too many large requests; try again in a moment", RETRY_AFTER_S
                )
        return message

    def release(self) -> None:
        self._state.held_body_bytes -= self._received_bytes
        self._received_bytes = 0


class ClientDisconnected(Exception):
    """The client disconnected before its request was complete."""


async def read_body(receive: Receive) -> bytes:
    """Return the whole body. Raises ClientDisconnected."""
    pieces: list[bytes] = []
    while True:
        message = await receive()
        if message["type"] != "http.request":
            raise ClientDisconnected
        pieces.append(message.get("body", b""))
        if not message.get("more_body", False):
            return b"".join(pieces)


def check_content_type(scope: Scope) -> None:
    kind, _, rest = get_header(scope, b"content-type").decode("latin-1").lower().partition(";")
    charset = rest.strip().removeprefix("charset=").strip('"')
    if kind.strip() != "application/json" or charset not in ("", "utf-8", "utf8"):
        raise Problem(415, "unsupported_type", "send the body as JSON, with `Content-Type: application/json`")


def decode_body(body: bytes, decode: Callable[[bytes], T]) -> T:
    """Decode a JSON body with a method of a msgspec Decoder. Raises Problem, which names the field at fault."""
    try:
        body.decode()
    except UnicodeDecodeError as error:
        raise Problem(400, "invalid_request", f"the body is not UTF-8: byte {error.start}") from None
    try:
        return decode(body)
    except (msgspec.DecodeError, msgspec.ValidationError) as error:
        sentence = describe_json_error(body, error)
        raise Problem(400, "invalid_request", f"the body is invalid: {sentence}") from None
    except RecursionError:
        raise Problem(400, "invalid_request", "the body is nested too deeply") from None
