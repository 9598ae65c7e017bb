"""Parses streamed responses of Ollama's /api/chat into pieces."""

from __future__ import annotations

import json
from typing import Any, ClassVar

import msgspec

from mainstay.core.messages import FinishReason
from mainstay.core.ports import Piece, StreamFinished
from mainstay.providers.wire.batching_parser import BatchingParser
from mainstay.providers.wire.decoding import DECODING_ERRORS, ToolName, Word
from mainstay.providers.wire.usage_report import UsageFields


class OllamaFunction(msgspec.Struct, gc=False):
    name: ToolName | None = None
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
    done_reason: Word | None = None
    prompt_eval_count: msgspec.Raw = msgspec.Raw(b"null")
    eval_count: msgspec.Raw = msgspec.Raw(b"null")
    error: Any = None


_line_decoder = msgspec.json.Decoder(OllamaLine)
_decode_line = _line_decoder.decode


class OllamaResponseParser(BatchingParser):
    """Parses the JSON lines of one streamed chat response."""

    USAGE_FIELDS: ClassVar[UsageFields] = UsageFields(("prompt_eval_count",), ("eval_count",))

    __slots__ = ("_last_line",)

    def __init__(self, label: str) -> None:
        super().__init__(label)
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
                    if not self.is_over:
                        self._emit_call(call.function or OllamaFunction())
            if line.error is not None:
                self.handle_error(line.error)
            if line.done and not self.is_over:
                self._last_line = line
                counts = (bytes(line.prompt_eval_count), bytes(line.eval_count))
                self.usage.update(msgspec.Raw(b'{"prompt_eval_count":%b,"eval_count":%b}' % counts))
                self.is_over = True
            if self.is_over:
                break
        return self.drain_pieces()

    def final_piece(self) -> StreamFinished | None:
        last = self._last_line
        if last is None:
            return None
        reason = FinishReason.TOOL_CALLS if self.call_count else FinishReason.END
        if last.done_reason == "length":
            reason = FinishReason.LENGTH
        return StreamFinished(reason, self.usage.build())

    def _emit_call(self, function: OllamaFunction) -> None:
        """Emit a call. Calls arrive complete. Arguments are an object, or its JSON as a string with some templates."""
        arguments = bytes(function.arguments).decode(errors="replace")
        if arguments.startswith('"'):
            arguments = str(json.loads(arguments))
        self.begin_call(function.name or "", "" if arguments == "null" else arguments)
