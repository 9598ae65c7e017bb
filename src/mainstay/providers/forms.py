"""What every model API wants of the things we keep: JSON it accepts, names that fit, images as base64."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Generic, TypeVar

import msgspec

from mainstay.core.messages import Binary, Message

IMAGE_MIMES = ("image/png", "image/jpeg", "image/gif", "image/webp")
IMAGE_BYTES_MAX = 20 * 1024 * 1024
_UNFIT = re.compile(r"[^a-zA-Z0-9_-]")
_encode = msgspec.json.Encoder().encode
_decode_object = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode

V = TypeVar("V")


class Kept(Generic[V]):
    """Remembers what was made of the last few things, by identity: the same objects are never encoded twice."""

    def __init__(self, make: Callable[..., V], size: int = 64) -> None:
        self._make = make
        self._size = size
        self._made: dict[tuple[int, ...], tuple[tuple[object, ...], V]] = {}  # with the things: ids stay theirs

    def __call__(self, *things: object) -> V:
        key = tuple(map(id, things))
        entry = self._made.get(key)
        if entry is None:
            if len(self._made) >= self._size:
                self._made.clear()
            entry = self._made[key] = (things, self._make(*things))
        return entry[1]


def encode(value: Any) -> bytes:
    """JSON. Half a surrogate pair, which UTF-8 cannot carry, becomes U+FFFD."""
    try:
        return _encode(value)
    except UnicodeEncodeError:
        return _encode(mended(value))


def mended(value: Any) -> Any:
    """The same with every string free of lone surrogates; two halves that stand together are joined."""
    if isinstance(value, str):
        return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    if isinstance(value, dict):
        return {mended(key): mended(item) for key, item in value.items()}
    if isinstance(value, list):
        return [mended(item) for item in value]
    return value


def arguments(input: str) -> str:
    """A call's input as a JSON object's text. What is none goes as `{}`; its error result explains."""
    try:
        _decode_object(input)
        json.loads(input)  # the stricter half: depth, and what the first does not look into
    except (ValueError, RecursionError, msgspec.DecodeError):
        return "{}"
    return input


def fit_name(name: str) -> str:
    """A tool's name as APIs take it. Those we offer fit already; a model may have called anything."""
    return _UNFIT.sub("_", name)[:64] or "unknown"


def fit_id(id: str) -> str:
    """A call's id as APIs take it; the same for the call and its result."""
    if id and len(id) <= 64 and not _UNFIT.search(id):
        return id
    return "call_" + short_id(id, 32)


def short_id(id: str, size: int = 9) -> str:
    return hashlib.sha256(id.encode(errors="surrogatepass")).hexdigest()[:size]


def image_of(part: Binary) -> str:
    """An image's base64, or an empty string for what is none or cannot be read."""
    if part.mime not in IMAGE_MIMES:
        return ""
    data = part.data
    if not data and part.path:
        try:
            with Path(part.path).open("rb") as file:
                data = file.read(IMAGE_BYTES_MAX + 1)
        except OSError:
            return ""
    return base64.b64encode(data).decode() if 0 < len(data) <= IMAGE_BYTES_MAX else ""


def note_of(part: Binary) -> str:
    """What a model is told of a file that it cannot be shown."""
    where = f" at {part.path}" if part.path else ""
    size = f", {len(part.data)} bytes" if part.data else ""
    return f"[attached file{where}: {part.mime or 'unknown type'}{size}]"


def runtime_note(text: str) -> str:
    """A system message inside a history, which not every API has a role for."""
    return f"[note from the runtime] {text}"


# --- histories -----------------------------------------------------------------------------------


def kept_parts(messages: Sequence[Message], tag: str, written: Callable[[Message], bytes]) -> list[bytes]:
    """Each message as it was encoded when it was first sent in the form of this tag."""
    return [
        kept[1] if (kept := message.wire) is not None and kept[0] is tag else written(message) for message in messages
    ]


class Blocks(msgspec.Struct, frozen=True):
    """A message's content: a comma before each block. Results go first, wherever they stood."""

    role: str
    results: bytes = b""
    others: bytes = b""


def group_blocks(messages: Sequence[Message], blocks_of: Callable[[Message], Blocks]) -> list[tuple[str, bytes]]:
    """Roles in turn, each with its content. A history begins with the user; results without their calls would be
    refused."""
    groups: list[tuple[str, list[bytes], list[bytes]]] = []
    for message in messages:
        blocks = blocks_of(message)
        if not (blocks.results or blocks.others):
            continue
        if not groups and (blocks.role != "user" or message.role == "tool"):
            continue
        if not groups or groups[-1][0] != blocks.role:
            groups.append((blocks.role, [], []))
        groups[-1][1].append(blocks.results)
        groups[-1][2].append(blocks.others)
    return [(role, b"".join(results + others)[1:]) for role, results, others in groups]
