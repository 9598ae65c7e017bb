"""Filters a server's JSON-RPC messages before the SDK parses them.

The SDK parses a message in one go, which blocks the event loop. So messages are checked first with a much faster
decoder: an answer without a pending request is dropped and counted, a message with too many values is refused, and a
list that is too long is truncated.
"""

from __future__ import annotations

import msgspec

from mainstay.core.surrogates import repair_escapes
from mainstay.plugins.mcp.flood_guard import FloodGuard
from mainstay.plugins.mcp.pending_requests import PendingRequests, RequestId, normalize_id
from mainstay.plugins.mcp.server_config import McpLimits

SMALL_BYTES = 16 * 1024  # a message up to this size parses quickly, whatever it contains
UNSOLICITED_BYTES_MAX = 64 * 1024  # of an unsolicited message
LIST_ITEMS_MAX = 1000  # items of an answer, or of a page of a list
INTERNAL_ERROR = -32603


class _MessageShape(msgspec.Struct):
    """The fields that tell what kind of message it is."""

    jsonrpc: str
    method: str | msgspec.UnsetType = msgspec.UNSET
    id: int | str | None = None
    result: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


class _TruncatedResponse(msgspec.Struct):
    id: int | str
    result: dict[str, msgspec.Raw]
    jsonrpc: str = "2.0"


_shape_decoder = msgspec.json.Decoder(_MessageShape)
_fields_decoder = msgspec.json.Decoder(dict[str, msgspec.Raw])
_items_decoder = msgspec.json.Decoder(list[msgspec.Raw])
_DECODE_ERRORS = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


class MessageFilter:
    """The filter of one connection."""

    def __init__(self, limits: McpLimits, flood_guard: FloodGuard, pending: PendingRequests) -> None:
        self.limits = limits
        self.flood_guard = flood_guard
        self.pending = pending

    def filter_message(
        self, text: bytes, *, expected_id: RequestId | None = None, finishes: bool = False
    ) -> bytes | None:
        """Return the message as it may be passed on; None if it is dropped. `expected_id`: the only request that it may
        answer; None: any pending one. `finishes`: an answer ends its request, so that a second one is dropped."""
        try:
            text, shape = _decode_shape(text)
        except _DECODE_ERRORS:  # not JSON-RPC, for instance a print statement of the server
            self.flood_guard.count_dropped(len(text))
            return None
        if shape.method is not msgspec.UNSET:
            accepted = len(text) <= UNSOLICITED_BYTES_MAX and self.flood_guard.try_admit()
        else:
            accepted = shape.id in self.pending and (
                expected_id is None or normalize_id(shape.id or 0) == normalize_id(expected_id)
            )
        if not accepted or len(text) > self.limits.message_bytes_max:
            self.flood_guard.count_dropped(len(text))
            return None
        if finishes and shape.method is msgspec.UNSET and shape.id is not None:
            self.pending.finish(shape.id)
        return self._fit_size(text, shape)

    def filter_body(self, text: bytes) -> bytes:
        """Return a response body as it may be passed on. It is never dropped: the SDK rejects an invalid one."""
        try:
            return self._fit_size(*_decode_shape(text))
        except _DECODE_ERRORS:
            return b"{}"

    def _fit_size(self, text: bytes, shape: _MessageShape) -> bytes:
        if len(text) <= SMALL_BYTES:
            return text
        if shape.id is not None and shape.result is not msgspec.UNSET:
            text = _truncate_lists(text, shape.id, shape.result)
        if count_values(text, self.limits.values_max) > self.limits.values_max:
            self.flood_guard.count_dropped(len(text))
            return build_error_response(shape.id, f"it answered with more than {self.limits.values_max} values")
        return text


def _decode_shape(text: bytes) -> tuple[bytes, _MessageShape]:
    """Return the message, without lone surrogates, and its shape: many servers write half of a cut emoji."""
    try:
        return text, _shape_decoder.decode(text)
    except msgspec.ValidationError:
        raise
    except msgspec.DecodeError:
        repaired = repair_escapes(text)
        return repaired, _shape_decoder.decode(repaired)


def build_error_response(id: RequestId | None, reason: str) -> bytes:
    """Return an error response to a request, in place of the server's own."""
    return msgspec.json.encode({"jsonrpc": "2.0", "id": id, "error": {"code": INTERNAL_ERROR, "message": reason}})


def _truncate_lists(text: bytes, id: RequestId, result: msgspec.Raw) -> bytes:
    """Truncate the lists in a result (content parts, tools, messages)."""
    try:
        fields = _fields_decoder.decode(result)
        truncated = {}
        for name, value in fields.items():
            if bytes(memoryview(value)[:1]) == b"[" and len(items := _items_decoder.decode(value)) > LIST_ITEMS_MAX:
                truncated[name] = msgspec.Raw(msgspec.json.encode(items[:LIST_ITEMS_MAX]))
    except _DECODE_ERRORS:  # not an object, or not UTF-8
        return text
    return msgspec.json.encode(_TruncatedResponse(id, fields | truncated)) if truncated else text


def count_values(text: bytes, values_max: int) -> int:
    """Return roughly how many values a message has, by counting commas and brackets outside of strings. May return
    early with any number above `values_max`."""
    unescaped = text.replace(b"\\\\", b"").replace(b'\\"', b"") if b"\\" in text else text
    if (quotes := unescaped.count(b'"')) > values_max * 4:
        return quotes
    outside = b"".join(unescaped.split(b'"')[::2])
    return outside.count(b",") + outside.count(b"{") + outside.count(b"[")
