"""Parses streamed responses of Ollama's /api/chat into pieces."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from mainstay.core.messages import FinishReason
from mainstay.core.ports import Piece, StreamFinished, ToolCallPiece
from mainstay.providers.wire.batching_parser import DECODING_ERRORS, BatchingParser, build_usage


class OllamaFunction(msgspec.Struct, gc=False):
    name: str | None = None
    arguments: msgspec.Raw = msgspec.Raw(b"")


class OllamaToolCall(msgspec.Struct, gc=False):
    function: OllamaFunction | None = None


class OllamaMessage(msgspec.Struct, gc=False):
    content: str | None = None
    thinking: str | None = None
    tool_calls: list[OllamaToolCall] | None = None


class OllamaLine(msgspec.Struct, gc=False):
    message: OllamaMessage | None = None
    done: bool | None = None
    done_reason: str | None = None
    prompt_eval_count: int | None = None
    eval_count: int | None = None
    error: Any = None


_line_decoder = msgspec.json.Decoder(OllamaLine)
_decode_line = _line_decoder.decode


class OllamaResponseParser(BatchingParser):
    """Parses the JSON lines of one streamed chat response."""

    __slots__ = ("_call_count", "_last_line")

    def __init__(self, label: str) -> None:
        super().__init__(label)
        self._call_count = 0
        self._last_line: OllamaLine | None = None

    def feed(self, payloads: list[bytes]) -> list[Piece]:
        line: OllamaLine | None
        for payload in payloads:
            try:
                line = _decode_line(payload)
            except DECODING_ERRORS:
                line = self.decode_leniently(payload, _line_decoder)
                if line is None:
                    break
            message = line.message
            if message is not None:
                if message.thinking:
                    self.append_text("thinking", message.thinking)
                if message.content:
                    self.append_text("text", message.content)
                for call in message.tool_calls or ():
                    self._emit_call(call.function or OllamaFunction())
            if line.error is not None:
                self.handle_error(line.error)
                break
            if line.done:
                self._last_line = line
                self.is_over = True
                break
        return self.drain_pieces()

    def final_piece(self) -> StreamFinished | None:
        last = self._last_line
        if last is None:
            return None
        reason = FinishReason.TOOL_CALLS if self._call_count else FinishReason.END
        if last.done_reason == "length":
            reason = FinishReason.LENGTH
        return StreamFinished(reason, build_usage(last.prompt_eval_count, last.eval_count))

    def _emit_call(self, function: OllamaFunction) -> None:
        """Emit a call. Calls arrive complete. Arguments are an object, or its JSON as a string with some templates."""
        arguments = bytes(function.arguments).decode(errors="replace")
        if arguments.startswith('"'):
            arguments = str(json.loads(arguments))
        self.emit(ToolCallPiece(self._call_count, function.name or "", "" if arguments == "null" else arguments))
        self._call_count += 1
