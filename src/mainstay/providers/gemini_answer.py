"""A streamed answer of Gemini's, chunk by chunk, as pieces.

The shape is that of the published GenerateContentResponse, as the official client's types have it.
"""

from __future__ import annotations

import json
from typing import Any

import msgspec

from mainstay.core.errors import StreamBroken
from mainstay.core.messages import FinishReason, Usage
from mainstay.core.ports import CallPiece, Finished, Piece, ThinkingPiece
from mainstay.providers.forms import mended
from mainstay.providers.opaque import marked
from mainstay.providers.pieces import PieceJoiner

CALL, TEXT = "gemini-call", "gemini"  # whose signatures: of the call that follows, or of a part of its own


class _Call(msgspec.Struct, gc=False):
    name: str | None = None
    args: msgspec.Raw = msgspec.Raw(b"")


class _Part(msgspec.Struct, gc=False, rename="camel"):
    text: str | None = None
    thought: bool | None = None
    thought_signature: str | None = None
    function_call: _Call | None = None


class _Content(msgspec.Struct, gc=False):
    parts: list[_Part] | None = None


class _Candidate(msgspec.Struct, gc=False, rename="camel"):
    content: _Content | None = None
    finish_reason: str | None = None


class _Usage(msgspec.Struct, gc=False, rename="camel"):
    prompt_token_count: int | None = None
    tool_use_prompt_token_count: int | None = None
    candidates_token_count: int | None = None
    thoughts_token_count: int | None = None
    cached_content_token_count: int | None = None


class _Feedback(msgspec.Struct, gc=False, rename="camel"):
    block_reason: str | None = None


class _Chunk(msgspec.Struct, gc=False, rename="camel"):
    candidates: list[_Candidate] | None = None
    usage_metadata: _Usage | None = None
    prompt_feedback: _Feedback | None = None
    error: Any = None


_decode = msgspec.json.Decoder(_Chunk).decode

_ENDS = ("STOP", "OTHER", "FINISH_REASON_UNSPECIFIED", "TOO_MANY_TOOL_CALLS")
_FAILED = ("MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "MALFORMED_RESPONSE")
_CUT = ("MAX_TOKENS", "CONTINUATION")


class GeminiAnswer(PieceJoiner):
    """Feeds on the payloads of a streamed answer."""

    __slots__ = ("_blocked", "_calls", "_reason", "_usage")

    def __init__(self, who: str) -> None:
        super().__init__(who)
        self._calls = 0
        self._reason: str | None = None
        self._blocked = False
        self._usage: _Usage | None = None

    def feed(self, payloads: list[bytes]) -> list[Piece]:
        for payload in payloads:
            try:
                chunk = _decode(payload)
            except (ValueError, RecursionError, msgspec.DecodeError):
                odd = self._read_odd(payload)
                if odd is None:
                    break
                chunk = odd
            if chunk.usage_metadata is not None:
                self._usage = chunk.usage_metadata  # cumulative
            if chunk.candidates:
                candidate = chunk.candidates[0]
                if candidate.content is not None:
                    for part in candidate.content.parts or ():
                        self._take(part)
                if candidate.finish_reason is not None:
                    self._end(candidate.finish_reason)
            elif chunk.prompt_feedback is not None and chunk.prompt_feedback.block_reason:
                self._blocked = True
            if chunk.error is not None:
                self._fail(chunk.error)
            if self.over:
                break
        return self._take_pieces()

    def finished(self) -> Finished | None:
        if self._blocked:
            reason = FinishReason.FILTERED
        elif self._reason is None:
            return None
        elif self._reason in _ENDS:
            reason = FinishReason.TOOL_CALLS if self._calls else FinishReason.END
        else:
            reason = FinishReason.LENGTH if self._reason in _CUT else FinishReason.FILTERED
        return Finished(reason, _tokens(self._usage) if self._usage is not None else Usage())

    # --- chunks ----------------------------------------------------------------------------------

    def _take(self, part: _Part) -> None:
        if part.function_call is not None:
            if part.thought_signature:
                self._say(ThinkingPiece("", marked(CALL, part.thought_signature)))
            self._take_call(part.function_call)
            return
        if part.text:
            self._add("thinking" if part.thought else "text", part.text)
        if part.thought_signature:
            self._say(ThinkingPiece("", marked(TEXT, part.thought_signature)))

    def _take_call(self, call: _Call) -> None:
        """Calls come whole."""
        written = bytes(call.args).decode(errors="replace")
        self._say(CallPiece(self._calls, call.name or "", "" if written == "null" else written))
        self._calls += 1

    def _end(self, reason: str) -> None:
        """A call that it could not write is not heard at all: asked once more, it mostly can."""
        if reason in _FAILED:
            self.error = StreamBroken(f"{self._who} tried to call a tool and failed", details=reason)
            self.over = True
        else:
            self._reason = reason

    # --- trouble ---------------------------------------------------------------------------------

    def _read_odd(self, payload: bytes) -> _Chunk | None:
        """JSON with half a surrogate pair, which only the standard decoder lets through; else nonsense."""
        try:
            return msgspec.json.decode(msgspec.json.encode(mended(json.loads(payload))), type=_Chunk)
        except (ValueError, RecursionError, msgspec.DecodeError):
            if self._reason is None:
                self._break(payload)
            self.over = True
            return None


def _tokens(usage: _Usage) -> Usage:
    prompt = (usage.prompt_token_count or 0) + (usage.tool_use_prompt_token_count or 0)
    thoughts = usage.thoughts_token_count or 0
    return Usage(
        prompt, (usage.candidates_token_count or 0) + thoughts, usage.cached_content_token_count or 0, thoughts
    )
