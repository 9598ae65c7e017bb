"""Parses streamed responses of Anthropic's Messages API into pieces."""

from __future__ import annotations

from typing import Any, ClassVar

import msgspec

from mainstay.core.messages import FinishReason
from mainstay.core.ports import Piece, StreamFinished, ThinkingPiece, ToolCallPiece
from mainstay.providers.wire.batching_parser import BatchingParser
from mainstay.providers.wire.decoding import DECODING_ERRORS, Index, ToolName, Word
from mainstay.providers.wire.usage_report import UsageFields

# One struct for all events: `type` says which, and most are deltas.


class AnthropicMessage(msgspec.Struct, gc=False):
    usage: msgspec.Raw = msgspec.Raw(b"")


class AnthropicDelta(msgspec.Struct, gc=False):
    type: Word = ""
    text: str | None = None
    thinking: str | None = None
    signature: str | None = None
    partial_json: str | None = None
    stop_reason: Word | None = None


class AnthropicBlock(msgspec.Struct, gc=False):
    type: Word = ""
    text: str | None = None
    thinking: str | None = None
    signature: str | None = None
    name: ToolName | None = None
    input: msgspec.Raw = msgspec.Raw(b"")


class AnthropicEvent(msgspec.Struct, gc=False):
    type: Word = ""
    index: Index = 0
    delta: AnthropicDelta | None = None
    content_block: AnthropicBlock | None = None
    message: AnthropicMessage | None = None
    usage: msgspec.Raw = msgspec.Raw(b"")
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
_EMPTY_INPUTS = ("", "{}", "[]", '""', "null")


class AnthropicToolCall:
    """A tool_use block that has started and not stopped."""

    __slots__ = ("index", "initial_input")

    def __init__(self, index: int, initial_input: str) -> None:
        self.index = index
        self.initial_input = initial_input  # the whole input, if it came with the start of the block


class AnthropicResponseParser(BatchingParser):
    """Parses the event payloads of one streamed message. Counts are cumulative; one that an event omits stays."""

    USAGE_FIELDS: ClassVar[UsageFields] = UsageFields(
        ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens"),
        ("output_tokens",),
        cached=("cache_read_input_tokens",),
        written=("cache_creation_input_tokens",),
        is_always_sent=True,
    )

    __slots__ = ("_open_calls", "_stop_reason")

    def __init__(self, label: str) -> None:
        super().__init__(label)
        self._open_calls: dict[int, AnthropicToolCall] = {}  # by block index, until the block stops
        self._stop_reason: str | None = None

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
            reason = FinishReason.TOOL_CALLS if self.call_count else FinishReason.END
        return StreamFinished(reason, self.usage.build())

    # --- events ----------------------------------------------------------------------------------

    def _handle_event(self, event: AnthropicEvent) -> None:
        match event.type:
            case "content_block_start" if event.content_block is not None:
                self._start_block(event.index, event.content_block)
            case "content_block_stop":
                self._stop_block(event.index)
            case "message_start" if event.message is not None:
                self.usage.update(event.message.usage)
            case "message_delta":
                self.usage.update(event.usage)
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
            written = bytes(block.input).decode(errors="replace")
            initial_input = "" if "".join(written.split()) in _EMPTY_INPUTS else written
            self._open_calls[index] = AnthropicToolCall(self.begin_call(block.name or ""), initial_input)
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
