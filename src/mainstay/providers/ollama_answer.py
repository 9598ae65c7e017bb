"""Ollama's streamed chat, line by line, as pieces. The shape is that of the documented /api/chat."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from mainstay.core.messages import FinishReason, Usage
from mainstay.core.ports import CallPiece, Finished, Piece
from mainstay.providers.forms import mended
from mainstay.providers.pieces import PieceJoiner


class _Function(msgspec.Struct, gc=False):
    name: str | None = None
    arguments: msgspec.Raw = msgspec.Raw(b"")


class _Call(msgspec.Struct, gc=False):
    function: _Function | None = None


class _Message(msgspec.Struct, gc=False):
    content: str | None = None
    thinking: str | None = None
    tool_calls: list[_Call] | None = None


class _Line(msgspec.Struct, gc=False):
    message: _Message | None = None
    done: bool | None = None
    done_reason: str | None = None
    prompt_eval_count: int | None = None
    eval_count: int | None = None
    error: Any = None


_decode = msgspec.json.Decoder(_Line).decode


class OllamaAnswer(PieceJoiner):
    """Feeds on the lines of a chat."""

    __slots__ = ("_calls", "_last")

    def __init__(self, who: str) -> None:
        super().__init__(who)
        self._calls = 0
        self._last: _Line | None = None

    def feed(self, payloads: list[bytes]) -> list[Piece]:
        for payload in payloads:
            try:
                line = _decode(payload)
            except (ValueError, RecursionError, msgspec.DecodeError):
                odd = self._read_odd(payload)
                if odd is None:
                    break
                line = odd
            message = line.message
            if message is not None:
                if message.thinking:
                    self._add("thinking", message.thinking)
                if message.content:
                    self._add("text", message.content)
                for call in message.tool_calls or ():
                    self._take_call(call.function or _Function())
            if line.error is not None:
                self._fail(line.error)
                break
            if line.done:
                self._last = line
                self.over = True
                break
        return self._take_pieces()

    def finished(self) -> Finished | None:
        last = self._last
        if last is None:
            return None
        reason = FinishReason.TOOL_CALLS if self._calls else FinishReason.END
        if last.done_reason == "length":
            reason = FinishReason.LENGTH
        return Finished(reason, Usage(last.prompt_eval_count or 0, last.eval_count or 0))

    def _take_call(self, function: _Function) -> None:
        """Calls come whole. Arguments are an object; a model's template may have made text of it."""
        written = bytes(function.arguments).decode(errors="replace")
        if written.startswith('"'):
            written = str(json.loads(written))
        self._say(CallPiece(self._calls, function.name or "", "" if written == "null" else written))
        self._calls += 1

    def _read_odd(self, payload: bytes) -> _Line | None:
        """JSON with half a surrogate pair, which only the standard decoder lets through; else nonsense."""
        try:
            return msgspec.json.decode(msgspec.json.encode(mended(json.loads(payload))), type=_Line)
        except (ValueError, RecursionError, msgspec.DecodeError):
            self._break(payload)
            return None
