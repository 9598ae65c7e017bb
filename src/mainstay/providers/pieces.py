"""Joins what belongs together: deltas that arrived in one batch leave as one piece."""

from __future__ import annotations

from typing import Any, Literal

from mainstay.core.errors import ProviderError, StreamBroken
from mainstay.core.ports import CallPiece, Piece, TextPiece, ThinkingPiece
from mainstay.providers import trouble


class PieceJoiner:
    """The half of an answer that all formats share. Listeners pay per piece, so there are few."""

    __slots__ = ("_buffer", "_index", "_kind", "_name", "_pieces", "_spoken", "_who", "error", "over")

    def __init__(self, who: str) -> None:
        self._who = who
        self._pieces: list[Piece] = []
        self._kind: Literal["", "text", "thinking", "call"] = ""  # what the buffer holds
        self._buffer: list[str] = []
        self._index = 0
        self._name = ""
        self._spoken = False
        self.error: ProviderError | None = None
        self.over = False

    def _add(self, kind: Literal["text", "thinking"], text: str) -> None:
        if self._kind != kind:
            self._flush()
            self._kind = kind
        self._buffer.append(text)

    def _write(self, index: int, name: str, part: str) -> None:
        """Part of a call's input; `name` where it was not said before."""
        if name or self._kind != "call" or self._index != index:
            self._flush()
            self._kind, self._index, self._name = "call", index, name
        self._buffer.append(part)

    def _say(self, *pieces: Piece) -> None:
        self._flush()
        self._pieces += pieces

    def _flush(self) -> None:
        if not self._buffer:
            return
        joined = "".join(self._buffer)
        self._buffer.clear()
        if self._kind == "text":
            self._pieces.append(TextPiece(joined))
        elif self._kind == "thinking":
            self._pieces.append(ThinkingPiece(joined))
        else:
            self._pieces.append(CallPiece(self._index, self._name, joined))
            self._name = ""

    def _take_pieces(self) -> list[Piece]:
        """All of this batch."""
        self._flush()
        pieces, self._pieces = self._pieces, []
        self._spoken = self._spoken or bool(pieces)
        return pieces

    def _fail(self, error: Any) -> None:
        """The provider reports an error inside the stream."""
        self._flush()
        report = trouble.report_of({"error": error})
        spoken = self._spoken or self._pieces
        self.error = trouble.interrupted(self._who, report) if spoken else trouble.from_report(self._who, report)
        self.over = True

    def _break(self, payload: bytes) -> None:
        self.error = StreamBroken(f"{self._who} sent an event that makes no sense", details=repr(payload[:200]))
        self.over = True
