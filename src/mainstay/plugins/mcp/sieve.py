"""What of a server's messages reaches the SDK, which takes a message apart in one go: while it does, nothing else runs.

So it is looked through beforehand, by what is much faster: a message that nobody waits for is dropped and counted, one
with more in it than can be taken apart in a moment is refused, and a list that is too long is cut.
"""

from __future__ import annotations

import msgspec

from mainstay.plugins.mcp.asked import Asked, Id, key_of
from mainstay.plugins.mcp.gate import Gate
from mainstay.plugins.mcp.server import McpLimits

SMALL_BYTES = 16 * 1024  # nothing in it can take long
UNASKED_BYTES_MAX = 64 * 1024
PARTS_MAX = 1000  # of an answer, or of a page of a list
INTERNAL_ERROR = -32603


class _Shape(msgspec.Struct):
    """Enough of a message to know what it is."""

    jsonrpc: str
    method: str | msgspec.UnsetType = msgspec.UNSET
    id: int | str | None = None
    result: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


class _Answer(msgspec.Struct):
    id: int | str
    result: dict[str, msgspec.Raw]
    jsonrpc: str = "2.0"


_shape = msgspec.json.Decoder(_Shape)
_fields = msgspec.json.Decoder(dict[str, msgspec.Raw])
_items = msgspec.json.Decoder(list[msgspec.Raw])
_UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


class Sieve:
    def __init__(self, limits: McpLimits, gate: Gate, asked: Asked) -> None:
        self.limits = limits
        self.gate = gate
        self.asked = asked

    def message(self, text: bytes, *, to: Id | None = None, once: bool = False) -> bytes | None:
        """As it may be passed on; None if it was dropped. `to`: the one request that it can be the answer to. `once`:
        if it is an answer, there is no other."""
        try:
            shape = _shape.decode(text)
        except _UNREADABLE:  # a print of the server's, or worse
            self.gate.drop(len(text))
            return None
        if shape.method is not msgspec.UNSET:
            wanted = len(text) <= UNASKED_BYTES_MAX and self.gate.admit()
        else:
            wanted = shape.id in self.asked and (to is None or key_of(shape.id or 0) == key_of(to))
        if not wanted or len(text) > self.limits.message_bytes_max:
            self.gate.drop(len(text))
            return None
        if once and shape.method is msgspec.UNSET and shape.id is not None:
            self.asked.end(shape.id)
        return self._fit(text, shape)

    def body(self, text: bytes) -> bytes:
        """The same for an answer that came alone: it is passed on, whatever becomes of it there."""
        try:
            return self._fit(text, _shape.decode(text))
        except _UNREADABLE:
            return b"{}"

    def _fit(self, text: bytes, shape: _Shape) -> bytes:
        if len(text) <= SMALL_BYTES:
            return text
        if shape.id is not None and shape.result is not msgspec.UNSET:
            text = _cut(text, shape.id, shape.result)
        if marks_in(text, self.limits.marks_max) > self.limits.marks_max:
            self.gate.drop(len(text))
            return refusal(shape.id, f"it answered with more than {self.limits.marks_max} values")
        return text


def refusal(id: Id | None, reason: str) -> bytes:
    """What whoever asked is told in the server's stead."""
    return msgspec.json.encode({"jsonrpc": "2.0", "id": id, "error": {"code": INTERNAL_ERROR, "message": reason}})


def _cut(text: bytes, id: Id, result: msgspec.Raw) -> bytes:
    """Without what is too much of the lists in a result: its parts, tools, messages."""
    try:
        fields = _fields.decode(result)
        long = {}
        for name, value in fields.items():
            if bytes(memoryview(value)[:1]) == b"[" and len(items := _items.decode(value)) > PARTS_MAX:
                long[name] = msgspec.Raw(msgspec.json.encode(items[:PARTS_MAX]))
    except _UNREADABLE:  # it is no object, or somebody's text is no text
        return text
    return msgspec.json.encode(_Answer(id, fields | long)) if long else text


def marks_in(text: bytes, most: int) -> int:
    """How many commas and brackets there are outside of strings, which is about how many values; or, where that is soon
    seen, only that they are more than `most`."""
    plain = text.replace(b"\\\\", b"").replace(b'\\"', b"") if b"\\" in text else text
    if (quotes := plain.count(b'"')) > most * 4:
        return quotes
    outside = b"".join(plain.split(b'"')[::2])
    return outside.count(b",") + outside.count(b"{") + outside.count(b"[")
