"""Parses streamed responses of Anthropic's Messages API into pieces."""

from __future__ import annotations

from typing import Any

import msgspec

from mainstay.core.messages import FinishReason
from mainstay.core.ports import Piece, StreamFinished, ThinkingPiece, ToolCallPiece
from mainstay.providers.wire.batching_parser import DECODING_ERRORS, BatchingParser, build_uncached_usage
from mainstay.providers.wire.encoding import encode

# One struct for all events: `type` says which, and most are deltas.


class AnthropicUsage(msgspec.Struct, gc=False):
    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    cache_creation_input_tokens: int | None = None


class AnthropicMessage(msgspec.Struct, gc=False):
    usage: AnthropicUsage | None = None


class AnthropicDelta(msgspec.Struct, gc=False):
    type: str = ""
    text: str | None = None
    thinking: str | None = None
    signature: str | None = None
    partial_json: str | None = None
    stop_reason: str | None = None


class AnthropicBlock(msgspec.Struct, gc=False):
    type: str = ""
    text: str | None = None
    thinking: str | None = None
    signature: str | None = None
    name: str | None = None
    input: Any = None


class AnthropicEvent(msgspec.Struct, gc=False):
    type: str = ""
    index: int = 0
    delta: AnthropicDelta | None = None
    content_block: AnthropicBlock | None = None
    message: AnthropicMessage | None = None
    usage: AnthropicUsage | None = None
    error: Any = None


_event_decoder = msgspec.json.Decoder(AnthropicEvent)
_decode_event = _event_decoder.decode

_FINISH_REASONS = {
    "end_turn": FinishReason.END,
    "stop_sequence": FinishReason.END,
    "pause_turn": FinishReason.END,
    "tool_use": FinishReason.TOOL_CALLS,
    "max_tokens": FinishReason.LENGTH,
    "model_context_window_exceeded": FinishReason.LENGTH,
    "refusal": FinishReason.FILTERED,
}


class AnthropicToolCall:
    """A tool_use block that has started and not stopped."""

    __slots__ = ("index", "initial_input")

    def __init__(self, index: int, initial_input: str) -> None:
        self.index = index
        self.initial_input = initial_input  # the whole input, if it came with the start of the block


class AnthropicResponseParser(BatchingParser):
    """Parses the event payloads of one streamed message."""

    __slots__ = ("_next_index", "_open_calls", "_stop_reason", "_usage")

    def __init__(self, label: str) -> None:
        super().__init__(label)
        self._open_calls: dict[int, AnthropicToolCall] = {}  # by block index, until the block stops
        self._next_index = 0  # index of the next call
        self._stop_reason: str | None = None
        self._usage = AnthropicUsage()

    def feed(self, payloads: list[bytes]) -> list[Piece]:
        event: AnthropicEvent | None
        for payload in payloads:
            try:
                event = _decode_event(payload)
            except DECODING_ERRORS:
                event = self.decode_leniently(payload, _event_decoder)
                if event is None:
                    break
            if event.type == "content_block_delta" and event.delta is not None:
                self._handle_delta(event.index, event.delta)
            else:
                self._handle_event(event)
                if self.is_over:
                    break
        return self.drain_pieces()

    def final_piece(self) -> StreamFinished | None:
        if self._stop_reason is None:
            return None
        reason = _FINISH_REASONS.get(self._stop_reason, FinishReason.END)
        if reason in (FinishReason.END, FinishReason.TOOL_CALLS):
            reason = FinishReason.TOOL_CALLS if self._next_index else FinishReason.END
        usage = self._usage
        total = build_uncached_usage(
            usage.input_tokens, usage.output_tokens, usage.cache_read_input_tokens, usage.cache_creation_input_tokens
        )
        return StreamFinished(reason, total)

    # --- events ----------------------------------------------------------------------------------

    def _handle_event(self, event: AnthropicEvent) -> None:
        match event.type:
            case "content_block_start" if event.content_block is not None:
                self._start_block(event.index, event.content_block)
            case "content_block_stop":
                self._stop_block(event.index)
            case "message_start" if event.message is not None:
                self._update_usage(event.message.usage)
            case "message_delta":
                self._update_usage(event.usage)
                if event.delta is not None and event.delta.stop_reason:
                    self._stop_reason = event.delta.stop_reason
            case "message_stop":
                self.is_over = True
            case "error":
                self.handle_error(event.error)

    def _handle_delta(self, index: int, delta: AnthropicDelta) -> None:
        if delta.text:
            self.append_text("text", delta.text)
        elif delta.partial_json:
            self._append_block_input(index, delta.partial_json)
        elif delta.thinking:
            self.append_text("thinking", delta.thinking)
        elif delta.signature:
            self.emit(ThinkingPiece("", delta.signature))

    def _start_block(self, index: int, block: AnthropicBlock) -> None:
        if block.type == "tool_use":
            initial_input = encode(block.input).decode() if block.input else ""
            call_index = max(index, self._next_index)
            self._open_calls[index] = AnthropicToolCall(call_index, initial_input)
            self._next_index = call_index + 1
            self.emit(ToolCallPiece(call_index, block.name or ""))
        elif block.text:
            self.append_text("text", block.text)
        elif block.thinking:
            self.append_text("thinking", block.thinking)

    def _stop_block(self, index: int) -> None:
        call = self._open_calls.pop(index, None)
        if call is not None and call.initial_input:
            self.emit(ToolCallPiece(call.index, "", call.initial_input))

    def _append_block_input(self, index: int, part: str) -> None:
        call = self._open_calls.get(index)
        if call is not None:  # ignore a delta of a block that never started: its tool is unknown
            call.initial_input = ""
            self.append_call_input(call.index, "", part)

    def _update_usage(self, usage: AnthropicUsage | None) -> None:
        """Update the token counts. They are cumulative; a count that an event omits keeps its value."""
        if usage is None:
            return
        for field in AnthropicUsage.__struct_fields__:
            value = getattr(usage, field)
            if value is not None:
                setattr(self._usage, field, value)
