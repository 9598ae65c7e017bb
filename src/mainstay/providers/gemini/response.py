"""Parses streamed responses of the Gemini API into pieces.

The structs follow the published GenerateContentResponse, as in the official client's types.
"""

from __future__ import annotations

from typing import Any

import msgspec

from mainstay.core.errors import StreamBroken
from mainstay.core.messages import FinishReason, Usage
from mainstay.core.ports import Piece, StreamFinished, ThinkingPiece, ToolCallPiece
from mainstay.providers.wire.batching_parser import DECODING_ERRORS, BatchingParser, build_usage
from mainstay.providers.wire.reasoning_signatures import tag_signature

# owners of signatures: of the call that follows, or of a separate part
CALL_SIGNATURE, TEXT_SIGNATURE = ("gemini-call", "gemini")


class GeminiFunctionCall(msgspec.Struct, gc=False):
    name: str | None = None
    args: msgspec.Raw = msgspec.Raw(b"")


class GeminiPart(msgspec.Struct, gc=False, rename="camel"):
    text: str | None = None
    thought: bool | None = None
    thought_signature: str | None = None
    function_call: GeminiFunctionCall | None = None


class GeminiContent(msgspec.Struct, gc=False):
    parts: list[GeminiPart] | None = None


class GeminiCandidate(msgspec.Struct, gc=False, rename="camel"):
    content: GeminiContent | None = None
    finish_reason: str | None = None


class GeminiUsage(msgspec.Struct, gc=False, rename="camel"):
    prompt_token_count: int | None = None
    tool_use_prompt_token_count: int | None = None
    candidates_token_count: int | None = None
    thoughts_token_count: int | None = None
    cached_content_token_count: int | None = None


class GeminiPromptFeedback(msgspec.Struct, gc=False, rename="camel"):
    block_reason: str | None = None


class GeminiChunk(msgspec.Struct, gc=False, rename="camel"):
    candidates: list[GeminiCandidate] | None = None
    usage_metadata: GeminiUsage | None = None
    prompt_feedback: GeminiPromptFeedback | None = None
    error: Any = None


_chunk_decoder = msgspec.json.Decoder(GeminiChunk)
_decode_chunk = _chunk_decoder.decode

_END_REASONS = ("STOP", "OTHER", "FINISH_REASON_UNSPECIFIED", "TOO_MANY_TOOL_CALLS")
_FAILED_REASONS = ("MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "MALFORMED_RESPONSE")
_LENGTH_REASONS = ("MAX_TOKENS", "CONTINUATION")


class GeminiResponseParser(BatchingParser):
    """Parses the event payloads of one streamed response."""

    __slots__ = ("_call_count", "_finish_reason", "_is_blocked", "_usage")

    def __init__(self, label: str) -> None:
        super().__init__(label)
        self._call_count = 0
        self._finish_reason: str | None = None
        self._is_blocked = False
        self._usage: GeminiUsage | None = None

    def feed(self, payloads: list[bytes]) -> list[Piece]:
        chunk: GeminiChunk | None
        for payload in payloads:
            try:
                chunk = _decode_chunk(payload)
            except DECODING_ERRORS:
                chunk = self.decode_leniently(payload, _chunk_decoder)
                if chunk is None:
                    break
            if chunk.usage_metadata is not None:
                self._usage = chunk.usage_metadata  # cumulative
            if chunk.candidates:
                candidate = chunk.candidates[0]
                if candidate.content is not None:
                    for part in candidate.content.parts or ():
                        self._handle_part(part)
                if candidate.finish_reason is not None:
                    self._handle_finish(candidate.finish_reason)
            elif chunk.prompt_feedback is not None and chunk.prompt_feedback.block_reason:
                self._is_blocked = True
            if chunk.error is not None:
                self.handle_error(chunk.error)
            if self.is_over:
                break
        return self.drain_pieces()

    def final_piece(self) -> StreamFinished | None:
        if self._is_blocked:
            reason = FinishReason.FILTERED
        elif self._finish_reason is None:
            return None
        elif self._finish_reason in _END_REASONS:
            reason = FinishReason.TOOL_CALLS if self._call_count else FinishReason.END
        else:
            reason = FinishReason.LENGTH if self._finish_reason in _LENGTH_REASONS else FinishReason.FILTERED
        return StreamFinished(reason, _to_usage(self._usage) if self._usage is not None else Usage())

    # --- chunks ----------------------------------------------------------------------------------

    def _handle_part(self, part: GeminiPart) -> None:
        if part.function_call is not None:
            if part.thought_signature:
                self.emit(ThinkingPiece("", tag_signature(CALL_SIGNATURE, part.thought_signature)))
            self._emit_call(part.function_call)
            return
        if part.text:
            self.append_text("thinking" if part.thought else "text", part.text)
        if part.thought_signature:
            self.emit(ThinkingPiece("", tag_signature(TEXT_SIGNATURE, part.thought_signature)))

    def _emit_call(self, call: GeminiFunctionCall) -> None:
        """Emit a call. This API sends each call complete."""
        args = bytes(call.args).decode(errors="replace")
        self.emit(ToolCallPiece(self._call_count, call.name or "", "" if args == "null" else args))
        self._call_count += 1

    def _handle_finish(self, reason: str) -> None:
        """Store the finish reason. A malformed call is an error, because a second attempt mostly succeeds."""
        if reason in _FAILED_REASONS:
            self.error = StreamBroken(f"{self._label} produced an invalid tool call", details=reason)
            self.is_over = True
        else:
            self._finish_reason = reason


def _to_usage(usage: GeminiUsage) -> Usage:
    thoughts = usage.thoughts_token_count or 0
    return build_usage(
        (usage.prompt_token_count or 0) + (usage.tool_use_prompt_token_count or 0),
        (usage.candidates_token_count or 0) + thoughts,
        cached=usage.cached_content_token_count,
        reasoning=thoughts,
    )
