"""Base class of response parsers: deltas that arrived in one batch leave as one piece."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from typing import Any, Literal, TypeVar

import msgspec

from mainstay.core.errors import ProviderError, StreamBroken
from mainstay.core.messages import Usage
from mainstay.core.ports import Piece, StreamFinished, TextPiece, ThinkingPiece, ToolCallPiece
from mainstay.providers.wire import errors
from mainstay.providers.wire.encoding import repair_surrogates

END_MARK = b"[DONE]"  # the last payload of many APIs, the only one that is no JSON
DECODING_ERRORS = (ValueError, RecursionError, msgspec.DecodeError)

E = TypeVar("E")


class BatchingParser(ABC):
    """Joins deltas to few pieces, because every piece costs its subscribers time. A subclass decodes the API's format.

    `error` is to be raised after the returned pieces; `is_over` means that nothing follows.
    """

    __slots__ = (
        "_buffer",
        "_buffer_kind",
        "_call_index",
        "_call_name",
        "_has_emitted",
        "_label",
        "_pieces",
        "error",
        "is_over",
    )

    def __init__(self, label: str) -> None:
        self._label = label
        self._pieces: list[Piece] = []
        self._buffer_kind: Literal["", "text", "thinking", "call"] = ""  # kind of the buffered deltas
        self._buffer: list[str] = []
        self._call_index = 0
        self._call_name = ""
        self._has_emitted = False
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
                sentence = f"{self._label} sent an event that cannot be parsed"
                self.error = StreamBroken(sentence, details=repr(payload[:200]))
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


# --- token counts: APIs omit them or send null -------------------------------------------------------


def build_usage(
    prompt: int | None,
    completion: int | None,
    *,
    cached: int | None = None,
    reasoning: int | None = None,
    written: int | None = None,
) -> Usage:
    """Return the usage of a response whose count of prompt tokens includes cached ones."""
    return Usage(prompt or 0, completion or 0, cached or 0, reasoning or 0, written or 0)


def build_uncached_usage(
    uncached: int | None, completion: int | None, cached: int | None, written: int | None
) -> Usage:
    """Return the usage of a response whose count of prompt tokens excludes those read from or written to the cache."""
    return build_usage((uncached or 0) + (cached or 0) + (written or 0), completion, cached=cached, written=written)
