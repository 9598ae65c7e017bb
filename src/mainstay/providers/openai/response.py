"""Parses streamed responses of the chat completions API into pieces."""

from __future__ import annotations

from typing import Any

import msgspec

from mainstay.core.messages import FinishReason
from mainstay.core.ports import Piece, StreamFinished
from mainstay.providers.openai.tool_calls import ToolCallAssembler
from mainstay.providers.wire.batching_parser import DECODING_ERRORS, BatchingParser, build_usage
from mainstay.providers.wire.encoding import encode

# Lenient, because compatible servers differ: any field may be missing or null.


class ChatFunction(msgspec.Struct, gc=False):
    name: str | None = None
    arguments: str | dict[str, Any] | None = None


class ChatToolCall(msgspec.Struct, gc=False):
    index: int | None = None
    id: str | int | None = None
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
    finish_reason: str | None = None
    index: int | None = None


class ChatTokenDetails(msgspec.Struct, gc=False):
    cached_tokens: int | None = None
    cache_write_tokens: int | None = None
    reasoning_tokens: int | None = None


class ChatUsage(msgspec.Struct, gc=False):
    prompt_cache_hit_tokens: int | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    prompt_tokens_details: ChatTokenDetails | None = None
    completion_tokens_details: ChatTokenDetails | None = None


class ChatChunk(msgspec.Struct, gc=False):
    choices: list[ChatChoice] | None = None
    usage: ChatUsage | None = None
    error: Any = None


_chunk_decoder = msgspec.json.Decoder(ChatChunk)
_decode_chunk = _chunk_decoder.decode

_NO_USAGE = ChatUsage()
_FINISH_REASONS = {
    "stop": FinishReason.END,
    "tool_calls": FinishReason.TOOL_CALLS,
    "function_call": FinishReason.TOOL_CALLS,
    "length": FinishReason.LENGTH,
    "content_filter": FinishReason.FILTERED,
}


class ChatCompletionParser(BatchingParser):
    """Parses the event payloads of one streamed chat completion."""

    __slots__ = ("_calls", "_finish_reason", "_usage")

    def __init__(self, label: str) -> None:
        super().__init__(label)
        self._calls = ToolCallAssembler()
        self._finish_reason: str | None = None
        self._usage: ChatUsage | None = None

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
            if chunk.usage is not None:
                self._usage = chunk.usage
            if chunk.error is not None:
                self.handle_error(chunk.error)
                break
        if self._finish_reason is not None:
            self.emit(*self._calls.take_pending_names())
        return self.drain_pieces()

    def final_piece(self) -> StreamFinished | None:
        if self._finish_reason is None:
            return None
        reason = _FINISH_REASONS.get(self._finish_reason, FinishReason.END)
        if reason in (FinishReason.END, FinishReason.TOOL_CALLS):
            reason = FinishReason.TOOL_CALLS if self._calls else FinishReason.END
        usage = self._usage or _NO_USAGE
        prompt = usage.prompt_tokens_details or ChatTokenDetails()
        completion = usage.completion_tokens_details or ChatTokenDetails()
        return StreamFinished(
            reason,
            build_usage(
                usage.prompt_tokens,
                usage.completion_tokens,
                cached=prompt.cached_tokens or usage.prompt_cache_hit_tokens,
                reasoning=completion.reasoning_tokens,
                written=prompt.cache_write_tokens,
            ),
        )

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
        call, before = self._calls.find_or_open(index, id, function.name or "")
        if before:
            self.emit(*before)
        call.append_name(function.name or "")
        arguments = function.arguments
        if isinstance(arguments, dict):
            arguments = encode(arguments).decode()
        if arguments:
            call.arguments.append(arguments)
            self.append_call_input(call.index, call.take_name(), arguments)
