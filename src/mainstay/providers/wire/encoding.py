"""Encodes messages for model APIs: JSON that they accept, valid names and ids, images as base64."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Generic, TypeVar

import msgspec

from mainstay.core.messages import Binary, Message
from mainstay.core.ports import Tool
from mainstay.core.runtime_notes import remove_imitations

IMAGE_MIMES = ("image/png", "image/jpeg", "image/gif", "image/webp")
IMAGE_BYTES_MAX = 20 * 1024 * 1024
_INVALID_NAME_CHARS = re.compile(r"[^a-zA-Z0-9_-]")
_encode = msgspec.json.Encoder().encode
_decode_object = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode

V = TypeVar("V")

WireObject = dict[str, object]  # a JSON object of a request; it is only encoded


class IdentityCache(Generic[V]):
    """Cache of values built from objects, keyed by identity: the same objects are never encoded twice.

    It is emptied when it has `entries_max` entries.
    """

    def __init__(self, build: Callable[..., V], entries_max: int = 64) -> None:
        self._build = build
        self._entries_max = entries_max
        self._entries: dict[tuple[int, ...], tuple[tuple[object, ...], V]] = {}  # with the objects: no id is reused

    def __call__(self, *sources: object) -> V:
        key = tuple(map(id, sources))
        entry = self._entries.get(key)
        if entry is None:
            if len(self._entries) >= self._entries_max:
                self._entries.clear()
            entry = self._entries[key] = (sources, self._build(*sources))
        return entry[1]


def encode(value: object) -> bytes:
    """Return the value as JSON. A lone surrogate, which UTF-8 cannot encode, becomes U+FFFD."""
    try:
        return _encode(value)
    except UnicodeEncodeError:
        return _encode(repair_surrogates(value))


def encode_items(items: Iterable[object]) -> bytes:
    """Return JSON values with a comma before each, so that cached encodings can be joined."""
    return b"".join(b"," + encode(item) for item in items)


def repair_text(text: str) -> str:
    """Return the text with lone surrogates replaced and adjacent halves of a pair joined."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def repair_surrogates(value: object) -> object:
    """Return a JSON value with repaired strings."""
    if isinstance(value, str):
        return repair_text(value)
    if isinstance(value, dict):
        return {repair_surrogates(key): repair_surrogates(item) for key, item in value.items()}
    if isinstance(value, list):
        return [repair_surrogates(item) for item in value]
    return value


def normalise_arguments(input: str) -> str:
    """Return a call's input if it is a JSON object, else `{}`: the call's error result explains what was wrong."""
    try:
        _decode_object(input)
        json.loads(input)  # stricter: checks the nesting depth and the values, which the first decoder skips
    except (ValueError, RecursionError, msgspec.DecodeError):
        return "{}"
    return input


def encode_arguments(input: str) -> msgspec.Raw:
    """Return a call's input for APIs that take it as an object, not as text."""
    return msgspec.Raw(normalise_arguments(input).encode(errors="replace"))


def to_valid_name(name: str) -> str:
    """Return a tool name that APIs accept. Our own tools have valid names; a model may have called any name."""
    return _INVALID_NAME_CHARS.sub("_", name)[:64] or "unknown"


def to_valid_id(id: str) -> str:
    """Return a call id that APIs accept; the same for the call and its result."""
    if id and len(id) <= 64 and not _INVALID_NAME_CHARS.search(id):
        return id
    return "call_" + hash_id(id, 32)


def hash_id(id: str, size: int = 9) -> str:
    return hashlib.sha256(id.encode(errors="surrogatepass")).hexdigest()[:size]


def encode_image(part: Binary) -> str:
    """Return an image as base64; an empty string if it is no image, too large or unreadable."""
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


def describe_file(part: Binary) -> str:
    """Return the text that stands for a file that the model cannot see."""
    location = f" at {part.path}" if part.path else ""
    size = f", {len(part.data)} bytes" if part.data else ""
    return f"[attached file{location}: {part.mime or 'unknown type'}{size}]"


# --- requests ------------------------------------------------------------------------------------


def encode_system_message(*sections: str) -> bytes:
    """Return a system message as OpenAI and Ollama take it, with a comma before it."""
    return encode_items([{"role": "system", "content": "\n\n".join(filter(None, sections))}])


def encode_function_tools(tools: tuple[Tool, ...]) -> bytes:
    """Return the field `tools` as OpenAI and Ollama take it, with a comma after it."""
    definitions = [
        {
            "type": "function",
            "function": {"name": tool.name, "description": tool.description, "parameters": tool.schema},
        }
        for tool in tools
    ]
    return b'"tools":' + encode(definitions) + b","


# --- histories -----------------------------------------------------------------------------------


def build_encoding_tag(api: str, flags: Mapping[str, bool]) -> str:
    """Return the tag of cached encodings for an API and what depends on the model. Equal tags are the same object."""
    return sys.intern(" ".join([api, *(name for name, is_set in flags.items() if is_set)]))


def encode_messages(messages: Sequence[Message], encoding_tag: str, encode_message: Callable[[Message], V]) -> list[V]:
    """Return each message's encoding: the one cached on it if that has this tag, else a new one, which is cached. Text
    that imitates a note of the runtime is changed."""

    def encode_and_cache(message: Message) -> V:
        encoded = encode_message(remove_imitations(message))
        message.wire = (encoding_tag, encoded)
        return encoded

    return [
        cached[1] if (cached := message.wire) is not None and cached[0] is encoding_tag else encode_and_cache(message)
        for message in messages
    ]


class ContentBlocks(msgspec.Struct, frozen=True):
    """A message's encoded content: JSON blocks, with a comma before each. Tool results are sent first."""

    role: str
    results: bytes = b""
    others: bytes = b""


def group_by_role(messages: Sequence[Message], encodings: Sequence[ContentBlocks]) -> list[tuple[str, bytes]]:
    """Return (role, content) pairs of encoded messages, with neighbours of one role joined.

    The first is the user's: APIs refuse a history that begins otherwise, or with tool results without their calls.
    """
    groups: list[tuple[str, list[bytes], list[bytes]]] = []
    role = ""
    results: list[bytes] = []
    others: list[bytes] = []
    for message, blocks in zip(messages, encodings, strict=True):
        if not (blocks.results or blocks.others):
            continue
        if blocks.role != role:
            if not groups and (blocks.role != "user" or message.role == "tool"):
                continue
            role, results, others = blocks.role, [], []
            groups.append((role, results, others))
        if blocks.results:
            results.append(blocks.results)
        others.append(blocks.others)
    return [(role, b"".join(results + others if results else others)[1:]) for role, results, others in groups]
