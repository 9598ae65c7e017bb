"""What a request may look like: its path, its head, and how much of a body is read before it is too much."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any
from urllib.parse import unquote_to_bytes

import msgspec

from mainstay.server.doors import Doors
from mainstay.server.problems import BUSY_S, Problem

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

PATH_BYTES_MAX = 4096
QUERY_BYTES_MAX = 4096
_ESCAPE = re.compile(rb"%(?![0-9A-Fa-f]{2})")


# --- the path ------------------------------------------------------------------------------------


def raw_path(scope: Scope) -> bytes:
    """As it was asked for, beneath wherever we are mounted: what was escaped still is, so that a name may hold a
    slash."""
    given = scope.get("raw_path")
    path: bytes = given if isinstance(given, bytes) else scope["path"].encode()
    root = scope.get("root_path", "").encode()
    return path[len(root) :] if root and path.startswith(root) else path


def check_path(path: bytes, query: bytes) -> None:
    """Raises Problem for what no client of ours asks for, but those do that hope for a careless server."""
    if len(path) > PATH_BYTES_MAX or len(query) > QUERY_BYTES_MAX:
        raise Problem(414, "address_too_long", f"an address has at most {PATH_BYTES_MAX} bytes")
    if not path.startswith(b"/") or b"//" in path or b"\\" in path or _ESCAPE.search(path):
        raise Problem(400, "invalid_request", "this is no path")
    for segment in path.split(b"/")[1:]:
        plain(segment)


def plain(segment: bytes) -> str:
    """What stands between two slashes, as text. Raises Problem."""
    try:
        text = unquote_to_bytes(segment).decode()
    except UnicodeDecodeError:
        raise Problem(400, "invalid_request", "the path is not UTF-8") from None
    if text in (".", "..") or any(ord(char) < 32 or ord(char) == 127 for char in text):
        raise Problem(400, "invalid_request", "the path holds what no path may: control characters, or dots for a name")
    return text


# --- the head ------------------------------------------------------------------------------------


def header(scope: Scope, name: bytes) -> bytes:
    return next((value for key, value in scope["headers"] if key == name), b"")


def check_body_head(scope: Scope, most: int) -> None:
    """What it says of its body, before any of that is read. Raises Problem."""
    coding = header(scope, b"content-encoding").strip().lower()
    if coding not in (b"", b"identity"):
        raise Problem(415, "unsupported_encoding", "bodies are taken as they are, not compressed")
    length = header(scope, b"content-length")
    if length and (not length.isdigit() or int(length) > most):
        raise too_large(most)


def too_large(most: int) -> Problem:
    return Problem(413, "too_large", f"a request has at most {most} bytes")


# --- the body ------------------------------------------------------------------------------------


class Counted:
    """`receive` for whoever reads a body: not more than may be, nor more than there is room for with all others'."""

    def __init__(self, receive: Receive, doors: Doors) -> None:
        self._receive = receive
        self._doors = doors
        self._most = doors.settings.body_bytes_max
        self._got = 0

    async def __call__(self) -> MutableMapping[str, Any]:
        message = await self._receive()
        if message["type"] == "http.request" and (size := len(message.get("body", b""))):
            self._got += size
            self._doors.held += size
            if self._got > self._most:
                raise too_large(self._most)
            if self._doors.held > self._doors.held_max:
                raise Problem(503, "busy", "too much is being sent here at once; try again in a moment", BUSY_S)
        return message

    def let_go(self) -> None:
        self._doors.held -= self._got
        self._got = 0


class Gone(Exception):
    """Whoever asked has hung up."""


async def read_body(receive: Receive) -> bytes:
    pieces: list[bytes] = []
    while True:
        message = await receive()
        if message["type"] != "http.request":
            raise Gone
        pieces.append(message.get("body", b""))
        if not message.get("more_body", False):
            return b"".join(pieces)


def check_content_type(scope: Scope) -> None:
    kind, _, rest = header(scope, b"content-type").decode("latin-1").lower().partition(";")
    charset = rest.strip().removeprefix("charset=").strip('"')
    if kind.strip() != "application/json" or charset not in ("", "utf-8", "utf8"):
        raise Problem(415, "unsupported_type", "the body is JSON, and says so: `Content-Type: application/json`")


def decode_body(body: bytes, shape: Any) -> Any:
    """Raises Problem, which says where it is wrong."""
    try:
        body.decode()
    except UnicodeDecodeError as error:
        raise Problem(400, "invalid_request", f"the body is not UTF-8: byte {error.start}") from None
    try:
        return msgspec.json.decode(body, type=shape)
    except (msgspec.DecodeError, msgspec.ValidationError) as error:
        raise Problem(400, "invalid_request", f"the body cannot be used: {error}") from None
    except RecursionError:
        raise Problem(400, "invalid_request", "the body is nested too deeply") from None
