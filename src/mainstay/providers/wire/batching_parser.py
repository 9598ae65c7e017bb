"""Base class of response parsers: deltas that arrived in one batch leave as one piece."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from typing import Any, ClassVar, Literal, TypeVar

import msgspec

from mainstay.core.errors import ProviderError, StreamBroken
from mainstay.core.ports import Piece, StreamFinished, TextPiece, ThinkingPiece, ToolCallPiece
from mainstay.providers.wire import errors
from mainstay.providers.wire.decoding import CALLS_MAX
from mainstay.providers.wire.decoding import DECODING_ERRORS as DECODING_ERRORS
from mainstay.providers.wire.encoding import repair_surrogates
from mainstay.providers.wire.usage_report import UsageFields, UsageReport
from mainstay.providers.wire.usage_report import build_usage as build_usage

END_MARK = b"[DONE]"  # the last payload of many APIs, the only one that is no JSON

E = TypeVar("E")


class BatchingParser(ABC):
    """Joins deltas to few pieces, because every piece costs its subscribers time. A subclass decodes the API's format.

    `error` is to be raised after the returned pieces; `is_over` means that nothing follows. `call_count` counts the
    tool calls that have begun.
    """

    USAGE_FIELDS: ClassVar[UsageFields] = UsageFields((), ())  # of `usage`, unless the subclass calls `build_usage`

    __slots__ = (
        "_buffer",
        "_buffer_kind",
        "_call_index",
        "_call_name",
        "_has_emitted",
        "_label",
        "_pieces",
        "call_count",
        "error",
        "is_over",
        "usage",
    )

    def __init__(self, label: str) -> None:
        self._label = label
        self._pieces: list[Piece] = []
        self._buffer_kind: Literal["", "text", "thinking", "call"] = ""  # kind of the buffered deltas
        self._buffer: list[str] = []
        self._call_index = 0
        self._call_name = ""
        self._has_emitted = False
        self.call_count = 0
        self.usage = UsageReport(self.USAGE_FIELDS)
        self.error: ProviderError | None = None
        self.is_over = False

    @abstractmethod
    def feed(self, payloads: list[bytes]) -> list[Piece]:
        """Return the pieces of payloads that arrived together: the result of `drain_pieces`."""

    @abstractmethod
    def final_piece(self) -> StreamFinished | None:
        """Return the last piece, with finish reason and usage; None until the model has finished."""

    # --- decoding --------------------------------------------------------------------------------

    def decode_leniently(self, payload: bytes, decoder: msgspec.json.Decoder[E]) -> E | None:
        """Decode JSON with a lone surrogate, which only the standard decoder accepts. None: nothing follows, because
        this is the end mark, or it is invalid, which is an error unless the model has finished."""
        try:
            return decoder.decode(msgspec.json.encode(repair_surrogates(json.loads(payload))))
        except DECODING_ERRORS:
            self.is_over = True
            if payload.strip() != END_MARK and self.final_piece() is None:
                self.break_stream("sent an event that cannot be parsed", repr(payload[:200]))
            return None

    # --- pieces ----------------------------------------------------------------------------------

    def append_text(self, kind: Literal["text", "thinking"], text: str) -> None:
        if self._buffer_kind != kind:
            self._flush()
            self._buffer_kind = kind
        self._buffer.append(text)

    def append_call_input(self, index: int, name: str, part: str) -> None:
        """Append to a call's input. `name` is empty if it was emitted before."""
        if name or self._buffer_kind != "call" or self._call_index != index:
            self._flush()
            self._buffer_kind, self._call_index, self._call_name = "call", index, name
        self._buffer.append(part)

    def begin_call(self, name: str, input: str = "") -> int:
        """Emit the beginning of a tool call, or all of it, and return its index. Too many calls break the stream."""
        index = self.call_count
        if self.count_call():
            self.emit(ToolCallPiece(index, name, input))
        return index

    def count_call(self) -> bool:
        """Count a call that begins; return False if these are too many, which breaks the stream."""
        self.call_count += 1
        if self.call_count > CALLS_MAX:
            self.break_stream(f"sent more than {CALLS_MAX} tool calls in one answer")
        return not self.is_over

    def emit(self, *pieces: Piece) -> None:
        self._flush()
        self._pieces += pieces

    def _flush(self) -> None:
        if not self._buffer:
            return
        joined = "".join(self._buffer)
        self._buffer.clear()
        if self._buffer_kind == "text":
            self._pieces.append(TextPiece(joined))
        elif self._buffer_kind == "thinking":
            self._pieces.append(ThinkingPiece(joined))
        else:
            self._pieces.append(ToolCallPiece(self._call_index, self._call_name, joined))
            self._call_name = ""

    def drain_pieces(self) -> list[Piece]:
        """Return all pieces of this batch."""
        self._flush()
        pieces, self._pieces = self._pieces, []
        self._has_emitted = self._has_emitted or bool(pieces)
        return pieces

    def break_stream(self, problem: str, details: str = "") -> None:
        """Set `error` for a response that cannot be used; `problem` completes a sentence about the provider."""
        self._flush()
        self.error = StreamBroken(f"{self._label} {problem}", details=details)
        self.is_over = True

    def handle_error(self, error: Any) -> None:
        """Set `error` for an error event of the provider."""
        self._flush()
        report = errors.parse_error_value({"error": error})
        has_output = self._has_emitted or self._pieces
        self.error = (
            errors.error_for_interruption(self._label, report)
            if has_output
            else errors.error_from_report(self._label, report)
        )
        self.is_over = True
