"""Parses streamed responses of the chat completions API into pieces."""

from __future__ import annotations

from typing import Any, ClassVar

import msgspec

from mainstay.core.messages import FinishReason
from mainstay.core.ports import Piece, StreamFinished
from mainstay.providers.openai.tool_calls import ToolCallAssembler
from mainstay.providers.wire.batching_parser import BatchingParser
from mainstay.providers.wire.decoding import DECODING_ERRORS, Id, Index, NumericId, ToolName, Word
from mainstay.providers.wire.encoding import encode
from mainstay.providers.wire.usage_report import UsageFields

# Lenient, because compatible servers differ: any field may be missing or null.


class ChatFunction(msgspec.Struct, gc=False):
    name: ToolName | None = None
    arguments: str | dict[str, Any] | None = None


class ChatToolCall(msgspec.Struct, gc=False):
    index: Index | None = None
    id: Id | NumericId | None = None
    function: ChatFunction | None = None


class ChatDelta(msgspec.Struct, gc=False):
    content: str | list[Any] | None = None
    reasoning_content: str | None = None
    reasoning: Any = None
    refusal: str | None = None
    tool_calls: list[ChatToolCall] | None = None
    function_call: ChatFunction | None = None


class ChatChoice(msgspec.Struct, gc=False):
    delta: ChatDelta | None = None
    finish_reason: Word | None = None


class ChatChunk(msgspec.Struct, gc=False):
    choices: list[ChatChoice] | None = None
    usage: msgspec.Raw = msgspec.Raw(b"")
    error: Any = None


_chunk_decoder = msgspec.json.Decoder(ChatChunk)
_decode_chunk = _chunk_decoder.decode

_FINISH_REASONS = {
    "stop": FinishReason.END,
    "tool_calls": FinishReason.TOOL_CALLS,
    "function_call": FinishReason.TOOL_CALLS,
    "length": FinishReason.LENGTH,
    "content_filter": FinishReason.FILTERED,
}


class ChatCompletionParser(BatchingParser):
    """Parses the event payloads of one streamed chat completion."""

    USAGE_FIELDS: ClassVar[UsageFields] = UsageFields(
        ("prompt_tokens",),
        ("completion_tokens",),
        cached=("prompt_tokens_details.cached_tokens", "prompt_cache_hit_tokens"),
        reasoning=("completion_tokens_details.reasoning_tokens",),
        written=("prompt_tokens_details.cache_write_tokens",),
    )

    __slots__ = ("_calls", "_finish_reason")

    def __init__(self, label: str) -> None:
        super().__init__(label)
        self._calls = ToolCallAssembler()
        self._finish_reason: str | None = None

    def feed(self, payloads: list[bytes]) -> list[Piece]:
        chunk: ChatChunk | None
        for payload in payloads:
            try:
                chunk = _decode_chunk(payload)
            except DECODING_ERRORS:
                chunk = self.decode_leniently(payload, _chunk_decoder)
                if chunk is None:
                    break
            if chunk.choices:
                choice = chunk.choices[0]
                delta = choice.delta
                if delta is not None:
                    content = delta.content
                    if content:
                        if self._buffer_kind == "text" and content.__class__ is str:  # most chunks of most responses
                            self._buffer.append(content)
                        else:
                            self._handle_content(content)
                    if delta.tool_calls or delta.reasoning_content or delta.reasoning or delta.refusal:
                        self._handle_delta(delta)
                    elif delta.function_call is not None:
                        self._handle_call(0, None, delta.function_call)
                if choice.finish_reason is not None:
                    self._finish_reason = choice.finish_reason
            self.usage.update(chunk.usage)
            if chunk.error is not None:
                self.handle_error(chunk.error)
            if self.is_over:
                break
        if self._finish_reason is not None and self.error is None:
            self.emit(*self._calls.take_pending_names())
        return self.drain_pieces()

    def final_piece(self) -> StreamFinished | None:
        if self._finish_reason is None:
            return None
        reason = _FINISH_REASONS.get(self._finish_reason, FinishReason.END)
        if reason in (FinishReason.END, FinishReason.TOOL_CALLS):
            reason = FinishReason.TOOL_CALLS if self._calls else FinishReason.END
        return StreamFinished(reason, self.usage.build())

    # --- chunks ----------------------------------------------------------------------------------

    def _handle_delta(self, delta: ChatDelta) -> None:
        """Handle everything but ordinary content: thinking, a refusal, tool calls."""
        thinking = delta.reasoning_content or delta.reasoning
        if thinking and isinstance(thinking, str):
            self.append_text("thinking", thinking)
        if delta.refusal:
            self.append_text("text", delta.refusal)
        for call in delta.tool_calls or ():
            self._handle_call(call.index, call.id, call.function or ChatFunction())

    def _handle_content(self, content: str | list[Any]) -> None:
        if isinstance(content, str):
            self.append_text("text", content)
        else:
            self._handle_content_parts(content)

    def _handle_content_parts(self, parts: list[Any]) -> None:
        """Handle content as a list of parts, as some servers send it with thinking."""
        for part in parts:
            match part:
                case {"type": "text", "text": str(text)}:
                    self.append_text("text", text)
                case {"type": "thinking", "thinking": list(inner)}:
                    for thought in inner:
                        if isinstance(thought, dict) and isinstance(thought.get("text"), str):
                            self.append_text("thinking", thought["text"])

    def _handle_call(self, index: int | None, id: str | int | None, function: ChatFunction) -> None:
        if self.is_over:
            return None
        call, before = self._calls.find_or_open(index, id, function.name or "")
        if before:
            self.emit(*before)
        if len(self._calls) > self.call_count and not self.count_call():
            return None
        call.append_name(function.name or "")
        arguments = function.arguments
        if isinstance(arguments, dict):
            try:
                arguments = encode(arguments).decode()
            except RecursionError:
                return self.break_stream("sent arguments that are nested too deeply")
        if arguments:
            call.arguments.append(arguments)
            self.append_call_input(call.index, call.take_name(), arguments)
