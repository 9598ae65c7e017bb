"""Parses streamed responses of Bedrock's Converse API into pieces.

The structs follow Amazon's published service model.
"""

from __future__ import annotations

from typing import Any, ClassVar

import msgspec

from mainstay.core.messages import FinishReason
from mainstay.core.ports import Piece, StreamFinished, ThinkingPiece
from mainstay.providers.wire.batching_parser import BatchingParser
from mainstay.providers.wire.decoding import DECODING_ERRORS, Index, ToolName, Word
from mainstay.providers.wire.reasoning_signatures import tag_signature
from mainstay.providers.wire.usage_report import UsageFields

SIGNATURE_OWNER = "bedrock"


class BedrockToolUse(msgspec.Struct, gc=False):
    name: ToolName | None = None
    input: str | None = None


class BedrockReasoning(msgspec.Struct, gc=False):
    text: str | None = None
    signature: str | None = None


class BedrockContent(msgspec.Struct, gc=False, rename="camel"):
    text: str | None = None
    tool_use: BedrockToolUse | None = None
    reasoning_content: BedrockReasoning | None = None


class BedrockBlock(msgspec.Struct, gc=False, rename="camel"):
    content_block_index: Index = 0
    start: BedrockContent | None = None
    delta: BedrockContent | None = None


class BedrockStop(msgspec.Struct, gc=False, rename="camel"):
    stop_reason: Word = ""


class BedrockMetadata(msgspec.Struct, gc=False):
    usage: msgspec.Raw = msgspec.Raw(b"")


class BedrockEvent(msgspec.Struct, gc=False, rename="camel"):
    content_block_start: BedrockBlock | None = None
    content_block_delta: BedrockBlock | None = None
    message_stop: BedrockStop | None = None
    metadata: BedrockMetadata | None = None
    exception: Word | None = None
    error: Any = None


_event_decoder = msgspec.json.Decoder(BedrockEvent)
_decode_event = _event_decoder.decode

_FINISH_REASONS = {
    "max_tokens": FinishReason.LENGTH,
    "model_context_window_exceeded": FinishReason.LENGTH,
    "content_filtered": FinishReason.FILTERED,
    "guardrail_intervened": FinishReason.FILTERED,
}
_FAILED_REASONS = ("malformed_model_output", "malformed_tool_use")
_STATUS_BY_EXCEPTION = {
    "throttlingException": 429,
    "serviceUnavailableException": 503,
    "internalServerException": 500,
    "modelStreamErrorException": 500,
    "validationException": 400,
}


class BedrockResponseParser(BatchingParser):
    """Parses the event payloads of one streamed response."""

    USAGE_FIELDS: ClassVar[UsageFields] = UsageFields(
        ("inputTokens", "cacheReadInputTokens", "cacheWriteInputTokens"),
        ("outputTokens",),
        cached=("cacheReadInputTokens",),
        written=("cacheWriteInputTokens",),
        is_always_sent=True,
    )

    __slots__ = ("_calls_by_block", "_stop_reason")

    def __init__(self, label: str) -> None:
        super().__init__(label)
        self._calls_by_block: dict[int, int] = {}  # index of the call, by block index
        self._stop_reason: str | None = None

    def feed(self, payloads: list[bytes]) -> list[Piece]:
        event: BedrockEvent | None
        for payload in payloads:
            try:
                event = _decode_event(payload)
            except DECODING_ERRORS:
                event = self.decode_leniently(payload, _event_decoder)
                if event is None:
                    break
            block = event.content_block_delta
            if block is not None and block.delta is not None:
                self._handle_delta(block.content_block_index, block.delta)
            else:
                self._handle_event(event)
                if self.is_over:
                    break
        return self.drain_pieces()

    def final_piece(self) -> StreamFinished | None:
        if self._stop_reason is None:
            return None
        default = FinishReason.TOOL_CALLS if self.call_count else FinishReason.END
        return StreamFinished(_FINISH_REASONS.get(self._stop_reason, default), self.usage.build())

    def _handle_event(self, event: BedrockEvent) -> None:
        if event.content_block_start is not None:
            self._start_block(event.content_block_start)
        elif event.message_stop is not None:
            self._handle_stop(event.message_stop.stop_reason)
        elif event.metadata is not None:
            self.usage.update(event.metadata.usage)
            self.is_over = self._stop_reason is not None
        elif event.exception is not None:
            error = event.error if isinstance(event.error, dict) else {}
            self.handle_error(
                {"message": error.get("message", ""), "code": _STATUS_BY_EXCEPTION.get(event.exception, 500)}
            )

    def _handle_delta(self, index: int, delta: BedrockContent) -> None:
        if delta.text:
            self.append_text("text", delta.text)
        elif delta.tool_use is not None:
            if delta.tool_use.input and index in self._calls_by_block:
                self.append_call_input(self._calls_by_block[index], "", delta.tool_use.input)
        elif delta.reasoning_content is not None:
            if delta.reasoning_content.text:
                self.append_text("thinking", delta.reasoning_content.text)
            if delta.reasoning_content.signature:
                self.emit(ThinkingPiece("", tag_signature(SIGNATURE_OWNER, delta.reasoning_content.signature)))

    def _start_block(self, block: BedrockBlock) -> None:
        if block.start is not None and block.start.tool_use is not None:
            self._calls_by_block[block.content_block_index] = self.begin_call(block.start.tool_use.name or "")

    def _handle_stop(self, reason: str) -> None:
        if reason in _FAILED_REASONS:
            self.break_stream("returned malformed output", reason)
        else:
            self._stop_reason = reason
