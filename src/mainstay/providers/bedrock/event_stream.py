"""Decoder for Amazon's binary event stream format (`application/vnd.amazon.eventstream`).

A frame consists of its length, the length of its headers, a checksum of these two, the headers, the payload, and a
checksum of everything before. Only three headers matter: the message type, and the name of the event or of the error.
"""

from __future__ import annotations

import struct
import zlib
from functools import lru_cache

from mainstay.core.errors import StreamBroken
from mainstay.providers.wire.sse import EVENT_BYTES_MAX, NON_EVENT_BYTES_MAX, SseDecoder

HEADERS_BYTES_MAX = 16 * 1024
FRAME_START = b"\x00"  # of its length in four bytes, which is at most `EVENT_BYTES_MAX`
_PRELUDE = struct.Struct(">III")
_STRING_TYPE = 7
# bytes of a header value, by its type; values of types 6 and 7 carry their length
_VALUE_SIZES = {0: 0, 1: 0, 2: 1, 3: 2, 4: 4, 5: 8, 8: 8, 9: 16}


class AwsEventStreamDecoder(SseDecoder):
    """Splits bytes into payloads: JSON objects with one field, named after the event (`{"contentBlockDelta":{…}}`)."""

    __slots__ = ("_bytes_needed",)

    def __init__(self) -> None:
        super().__init__()
        self._bytes_needed = _PRELUDE.size  # bytes to buffer before the next frame can be read

    def feed(self, data: bytes) -> list[bytes]:
        self._buffer_partial(data)
        if self._buffered_bytes < self._bytes_needed:
            return []
        data = self._join_partial(b"")
        payloads: list[bytes] = []
        offset = 0
        while len(data) - offset >= _PRELUDE.size:
            total = self._parse_frame_size(data, offset)
            if not total:
                return payloads
            if len(data) - offset < total:
                break
            payloads.append(_read_frame(data[offset : offset + total]))
            self._has_started = True
            offset += total
        self._buffer_partial(data[offset:])
        self._bytes_needed = (
            self._parse_frame_size(data, offset) if len(data) - offset >= _PRELUDE.size else _PRELUDE.size
        )
        return payloads

    def flush(self) -> list[bytes]:
        """Drop an incomplete frame. Data that never was a frame is kept in `non_event_data`."""
        rest = self._join_partial(b"")
        if not self._has_started and rest[:1] != FRAME_START:
            self.non_event_data = (self.non_event_data + rest)[:NON_EVENT_BYTES_MAX]
        return []

    def _parse_frame_size(self, data: bytes, offset: int) -> int:
        """Return the size of the frame that begins at `offset`; 0 if the stream is not in this format.

        Raises StreamBroken if a later frame is corrupted or too large.
        """
        total, headers, checksum = _PRELUDE.unpack_from(data, offset)
        is_valid = zlib.crc32(data[offset : offset + 8]) == checksum and headers <= min(total - 16, HEADERS_BYTES_MAX)
        if is_valid:
            if total > EVENT_BYTES_MAX:
                sentence = f"the model sent a single event of more than {EVENT_BYTES_MAX // 1024 // 1024} MB"
                raise StreamBroken(sentence, retryable=False)
            return int(total)
        if self._has_started:
            raise StreamBroken("the response is corrupted: a frame has a wrong checksum")
        self.non_event_data = (self.non_event_data + data[offset:])[:NON_EVENT_BYTES_MAX]
        return 0


def _read_frame(frame: bytes) -> bytes:
    _, size, _ = _PRELUDE.unpack_from(frame)
    (checksum,) = struct.unpack_from(">I", frame, len(frame) - 4)
    if zlib.crc32(frame[:-4]) != checksum:
        raise StreamBroken("the response is corrupted: a frame has a wrong checksum")
    before, after = _payload_wrapping(frame[12 : 12 + size])
    return before + (frame[12 + size : -4] or b"{}") + after


@lru_cache(maxsize=64)  # a stream has many frames with few different headers
def _payload_wrapping(head: bytes) -> tuple[bytes, bytes]:
    """Return the bytes to put before and after the payload of a frame with these headers."""
    headers = _parse_headers(head)
    kind = headers.get(b":message-type")
    if kind == b"event":
        return b'{"%b":' % headers.get(b":event-type", b""), b"}"
    if kind == b"exception":
        return b'{"exception":"%b","error":' % headers.get(b":exception-type", b""), b"}"
    message = headers.get(b":error-message", b"").replace(b"\\", b"").replace(b'"', b"'")
    return b'{"exception":"%b","error":{"message":"%b"},"rest":' % (headers.get(b":error-code", b""), message), b"}"


def _parse_headers(data: bytes) -> dict[bytes, bytes]:
    headers: dict[bytes, bytes] = {}
    offset = 0
    try:
        while offset < len(data):
            end = offset + 1 + data[offset]
            name, kind = data[offset + 1 : end], data[end]
            offset = end + 1
            size = _VALUE_SIZES.get(kind)
            if size is None:
                size = int.from_bytes(data[offset : offset + 2])
                offset += 2
            if kind == _STRING_TYPE:
                headers[name] = data[offset : offset + size]
            offset += size
    except IndexError:
        raise StreamBroken("the response is corrupted: a frame has invalid headers") from None
    return headers
