"""Incremental parser of HTTP/1.1 responses, strict and with size limits. It does no input or output.

Both HTTP clients read with it: that of model APIs (providers/wire), which keeps connections, and that of untrusted
addresses (io). What two programs could read in two ways is refused: two lengths, a transfer coding other than chunked,
a malformed header, a chunk without its line ends. Written by hand because it was measured: a general client spends more
on a short streamed response than reading and decoding it costs.
"""

from __future__ import annotations

import re
from functools import lru_cache

HEAD_BYTES_MAX = 32 * 1024
HEADERS_MAX = 100
HEADER_NAMES_CACHED_MAX = 1024
RESPONSES_MAX = 5  # informational ones (1xx) and the final one
CHUNK_LINE_BYTES_MAX = 4096  # of a size with its extensions, or of a trailer
FRAMING_BYTES_MAX = 1024 * 1024  # lines of sizes and trailers of a response, which are not content

_STATUS_LINE = re.compile(r"HTTP/1\.([01]) ([1-5][0-9][0-9])(?: .*)?", re.DOTALL)
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,256}")
_SPACE = " \t"
_STATUS_WITHOUT_BODY = (204, 304)
_MALFORMED_CHUNK = "the server sent a malformed chunk"
_MALFORMED_HEADER = "the server sent a malformed header"


class ConnectionBroken(Exception):
    """The server closed the connection, or does not speak HTTP."""


class ResponseHead:
    """Status and headers of a response. Names are in lower case; repeated headers are joined by commas."""

    __slots__ = ("headers", "keep_alive", "status")

    def __init__(self, raw: bytes) -> None:
        text = raw.decode("latin-1")
        lines = text.split("\r\n")
        if text.count("\n") != len(lines) - 1 or text.count("\r") != len(lines) - 1 or "\x00" in text:
            lines = _split_at_line_feeds(text)
        self.status, is_persistent = _parse_status_line(lines[0])
        if len(lines) > HEADERS_MAX + 1:
            raise ConnectionBroken(f"the server sent more than {HEADERS_MAX} headers")
        headers: dict[str, str] = {}
        for line in lines[1:]:
            name, colon, value = line.partition(":")
            if not colon:
                raise ConnectionBroken(_MALFORMED_HEADER)
            key = _header_names.get(name) or _parse_header_name(name)
            if key in headers:
                value = f"{headers[key]}, {value.strip(_SPACE)}"
            headers[key] = value.strip(_SPACE)
        self.headers = headers
        connection = headers.get("connection", "").lower()
        self.keep_alive = "close" not in connection and (is_persistent or "keep-alive" in connection)


class HttpResponseParser:
    """Parses one response after another: `start_response`, `feed_head` until it returns a head, then `feed_body` until
    `is_complete`. The errors of all methods are ConnectionBroken."""

    framing_bytes_max = FRAMING_BYTES_MAX

    def __init__(self) -> None:
        self.is_complete = True  # the response has ended
        self.keep_alive = True  # the connection can be used for another response
        self.bytes_left: int | None = None  # of the body; None: chunked, or until the connection ends
        self._is_chunked = False
        self._partial = b""  # an incomplete head, chunk header or trailer
        self._responses_left = 0
        self._chunk_left = 0
        self._framing_left = 0
        self._expects_chunk_end = False  # the line end after a chunk is next
        self._saw_last_chunk = False

    @property
    def ends_with_connection(self) -> bool:
        """Whether the body ends when the connection does; else that is an error."""
        return self.bytes_left is None and not self._is_chunked

    def start_response(self) -> None:
        self.is_complete = False
        self._partial = b""
        self._responses_left = RESPONSES_MAX

    # --- heads -----------------------------------------------------------------------------------

    def feed_head(self, raw: bytes) -> tuple[ResponseHead, bytes] | None:
        """Return the head of the final response and the bytes after it, which belong to `feed_body`; None if the head
        is not whole yet."""
        if self._partial:
            raw, self._partial = self._partial + raw, b""
        while True:
            end, skip = raw.find(b"\r\n\r\n", 0, HEAD_BYTES_MAX), 4
            if end < 0:
                end, skip = raw.find(b"\n\n", 0, HEAD_BYTES_MAX), 2
            if end < 0:
                if len(raw) >= HEAD_BYTES_MAX or not raw.startswith(b"HTTP/1."[: len(raw)]):
                    raise ConnectionBroken("the server does not speak HTTP")
                self._partial = raw
                return None
            try:
                head = ResponseHead(raw[:end])
            except ConnectionBroken:
                end, skip = raw.find(b"\n\n", 0, end), 2
                if end < 0:
                    raise
                head = ResponseHead(raw[:end])  # its lines end with LF, and an empty line with CRLF is in the body
            raw = raw[end + skip :]
            if head.status >= 200:
                self._begin_body(head)
                return head, raw
            self._responses_left -= 1
            if self._responses_left <= 0:
                raise ConnectionBroken("the server sent too many interim responses")

    def _begin_body(self, head: ResponseHead) -> None:
        headers = head.headers
        self.bytes_left = None
        if "transfer-encoding" in headers:
            if headers["transfer-encoding"].lower() != "chunked":
                raise ConnectionBroken("the server uses an unsupported transfer encoding")
            self._is_chunked = True
            self._chunk_left = 0
            self._expects_chunk_end = self._saw_last_chunk = False
            self._framing_left = self.framing_bytes_max
            # With a length, too, a proxy on the way may have believed that one.
            self.keep_alive = head.keep_alive and "content-length" not in headers
        elif "content-length" in headers:
            self._is_chunked = False
            self.bytes_left = _parse_length(headers["content-length"])
            self.keep_alive = head.keep_alive
        else:
            self._is_chunked = self.keep_alive = False
        self.is_complete = self.bytes_left == 0 or head.status in _STATUS_WITHOUT_BODY

    # --- bodies ----------------------------------------------------------------------------------

    def feed_body(self, raw: bytes) -> bytes:
        """Return the content in these bytes. What follows the end of the response is dropped, and then the connection
        cannot be used again."""
        if self._is_chunked:
            return self._decode_chunks(raw)
        if self.bytes_left is not None:
            left = self.bytes_left - len(raw)
            if left < 0:
                raw = raw[:left]
                left = 0
                self.keep_alive = False
            self.bytes_left = left
            self.is_complete = left == 0
        return raw

    def _decode_chunks(self, raw: bytes) -> bytes:
        """Return the chunk data in these bytes, of whole and partial chunks, without the framing."""
        if self._partial:
            raw, self._partial = self._partial + raw, b""
        chunks: list[bytes] = []
        position, end = 0, len(raw)
        while not self.is_complete:
            if self._chunk_left:
                chunk = raw[position : position + self._chunk_left]
                chunks.append(chunk)
                position += len(chunk)
                self._chunk_left -= len(chunk)
                self._expects_chunk_end = not self._chunk_left
                if self._chunk_left:
                    break
            line = raw.find(b"\r\n", position)
            if line < 0:
                break
            if self._expects_chunk_end or self._saw_last_chunk:
                self._handle_frame_end(raw[position:line])
                position = line + 2
                continue
            size = _parse_chunk_size(raw[position:line])
            position = line + 2
            stop = position + size
            if size and stop + 2 <= end and raw[stop : stop + 2] == b"\r\n":  # a whole chunk, as nearly always
                chunks.append(raw[position:stop])
                position = stop + 2
            elif size:
                self._chunk_left = size
            else:
                self._saw_last_chunk = True
        content = b"".join(chunks)
        self._framing_left -= position - len(content)
        if self._framing_left < 0:
            raise ConnectionBroken("the server sends more frames than content")
        if position < end:
            if self.is_complete:  # bytes after the response
                self.keep_alive = False
                return content
            self._partial = raw[position:]
            if end - position > CHUNK_LINE_BYTES_MAX or (self._expects_chunk_end and self._partial != b"\r"):
                raise ConnectionBroken(_MALFORMED_CHUNK)
        return content

    def _handle_frame_end(self, line: bytes) -> None:
        """Handle the line end after a chunk, or a trailer line after the last chunk."""
        if len(line) > CHUNK_LINE_BYTES_MAX or (line and not self._saw_last_chunk):
            raise ConnectionBroken(_MALFORMED_CHUNK)
        self.is_complete = self._saw_last_chunk and not line
        self._expects_chunk_end = False


def _split_at_line_feeds(text: str) -> list[str]:
    """Split a head whose lines do not end with CRLF alone. Some servers send LF; a mixture is refused."""
    if "\r" in text or "\x00" in text:
        raise ConnectionBroken(_MALFORMED_HEADER)
    return text.split("\n")


@lru_cache(maxsize=64)
def _parse_status_line(line: str) -> tuple[int, bool]:
    """Return the status, and whether connections of this version are kept unless the server says otherwise."""
    match = _STATUS_LINE.fullmatch(line)
    if match is None:
        raise ConnectionBroken("the server does not speak HTTP")
    return int(match[2]), match[1] == "1"


_header_names: dict[str, str] = {}  # a cache: servers send the same few names


def _parse_header_name(name: str) -> str:
    if not _HEADER_NAME.fullmatch(name):
        raise ConnectionBroken(_MALFORMED_HEADER)
    key = name.lower()
    if len(_header_names) < HEADER_NAMES_CACHED_MAX:
        _header_names[name] = key
    return key


def _parse_length(header: str) -> int:
    if "," in header:  # a server may say the same twice
        header, *others = {value.strip(_SPACE) for value in header.split(",")}
        header = "" if others else header
    if not header.isdecimal() or not header.isascii() or len(header) > 18:
        raise ConnectionBroken("the server sent an invalid or contradictory Content-Length")
    return int(header)


@lru_cache(maxsize=1024)  # a stream has many chunks of few different sizes
def _parse_chunk_size(line: bytes) -> int:
    digits = line.partition(b";")[0].strip(b" \t")
    if (
        not 0 < len(digits) <= 8
        or digits.strip(b"0123456789abcdefABCDEF")  # int() accepts signs and 0x too
        or len(line) > CHUNK_LINE_BYTES_MAX
        or b"\n" in line  # it would end the line for others
        or b"\r" in line
    ):
        raise ConnectionBroken(_MALFORMED_CHUNK)
    return int(digits, 16)
