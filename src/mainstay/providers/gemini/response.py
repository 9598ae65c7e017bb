"""Parses streamed responses of the Gemini API into pieces.

The structs follow the published GenerateContentResponse, as in the official client's types.
"""

from __future__ import annotations

from typing import Any, ClassVar

import msgspec

from mainstay.core.messages import FinishReason
from mainstay.core.ports import Piece, StreamFinished, ThinkingPiece
from mainstay.providers.wire.batching_parser import BatchingParser
from mainstay.providers.wire.decoding import DECODING_ERRORS, ToolName, Word
from mainstay.providers.wire.reasoning_signatures import tag_signature
from mainstay.providers.wire.usage_report import UsageFields

# owners of signatures: of the call that follows, or of a separate part
CALL_SIGNATURE, TEXT_SIGNATURE = ("gemini-call", "gemini")


class GeminiFunctionCall(msgspec.Struct, gc=False):
    name: ToolName | None = None
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
    finish_reason: Word | None = None


class GeminiPromptFeedback(msgspec.Struct, gc=False, rename="camel"):
    block_reason: Word | None = None


class GeminiChunk(msgspec.Struct, gc=False, rename="camel"):
    candidates: list[GeminiCandidate] | None = None
    usage_metadata: msgspec.Raw = msgspec.Raw(b"")
    prompt_feedback: GeminiPromptFeedback | None = None
    error: Any = None


_chunk_decoder = msgspec.json.Decoder(GeminiChunk)
_decode_chunk = _chunk_decoder.decode

_END_REASONS = ("STOP", "OTHER", "FINISH_REASON_UNSPECIFIED", "TOO_MANY_TOOL_CALLS")
_FAILED_REASONS = ("MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "MALFORMED_RESPONSE")
_LENGTH_REASONS = ("MAX_TOKENS", "CONTINUATION")


class GeminiResponseParser(BatchingParser):
    """Parses the event payloads of one streamed response."""

    USAGE_FIELDS: ClassVar[UsageFields] = UsageFields(
        ("promptTokenCount", "toolUsePromptTokenCount"),
        ("candidatesTokenCount", "thoughtsTokenCount"),
        cached=("cachedContentTokenCount",),
        reasoning=("thoughtsTokenCount",),
        is_always_sent=True,
    )

    __slots__ = ("_finish_reason", "_is_blocked")

    def __init__(self, label: str) -> None:
        super().__init__(label)
        self._finish_reason: str | None = None
        self._is_blocked = False

    def feed(self, payloads: list[bytes]) -> list[Piece]:
        chunk: GeminiChunk | None
        for payload in payloads:
            try:
                chunk = _decode_chunk(payload)
            except DECODING_ERRORS:
                chunk = self.decode_leniently(payload, _chunk_decoder)
                if chunk is None:
                    break
            self.usage.update(chunk.usage_metadata)  # cumulative
            if chunk.candidates:
                candidate = chunk.candidates[0]
                if candidate.content is not None:
                    for part in candidate.content.parts or ():
                        if self.is_over:
                            break
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
            reason = FinishReason.TOOL_CALLS if self.call_count else FinishReason.END
        else:
            reason = FinishReason.LENGTH if self._finish_reason in _LENGTH_REASONS else FinishReason.FILTERED
        return StreamFinished(reason, self.usage.build())

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
        self.begin_call(call.name or "", "" if args == "null" else args)

    def _handle_finish(self, reason: str) -> None:
        """Store the finish reason. A malformed call is an error, because a second attempt mostly succeeds."""
        if reason in _FAILED_REASONS:
            self.break_stream("produced an invalid tool call", reason)
        else:
            self._finish_reason = reason
