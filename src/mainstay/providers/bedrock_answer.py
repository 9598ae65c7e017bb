"""A streamed answer of Bedrock's Converse API, event by event, as pieces.

The shape is that of Amazon's published service model.
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

OWNER = "bedrock"


class _ToolUse(msgspec.Struct, gc=False):
    name: str | None = None
    input: str | None = None


class _Reasoning(msgspec.Struct, gc=False):
    text: str | None = None
    signature: str | None = None


class _Content(msgspec.Struct, gc=False, rename="camel"):
    text: str | None = None
    tool_use: _ToolUse | None = None
    reasoning_content: _Reasoning | None = None


class _Block(msgspec.Struct, gc=False, rename="camel"):
    content_block_index: int = 0
    start: _Content | None = None
    delta: _Content | None = None


class _Stop(msgspec.Struct, gc=False, rename="camel"):
    stop_reason: str = ""


class _Usage(msgspec.Struct, gc=False, rename="camel"):
    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_input_tokens: int | None = None
    cache_write_input_tokens: int | None = None


class _Metadata(msgspec.Struct, gc=False):
    usage: _Usage | None = None


class _Event(msgspec.Struct, gc=False, rename="camel"):
    content_block_start: _Block | None = None
    content_block_delta: _Block | None = None
    message_stop: _Stop | None = None
    metadata: _Metadata | None = None
    exception: str | None = None
    error: Any = None


_decode = msgspec.json.Decoder(_Event).decode

_REASONS = {
    "max_tokens": FinishReason.LENGTH,
    "model_context_window_exceeded": FinishReason.LENGTH,
    "content_filtered": FinishReason.FILTERED,
    "guardrail_intervened": FinishReason.FILTERED,
}
_FAILED = ("malformed_model_output", "malformed_tool_use")
_STATUS = {
    "throttlingException": 429,
    "serviceUnavailableException": 503,
    "internalServerException": 500,
    "modelStreamErrorException": 500,
    "validationException": 400,
}


class ConverseAnswer(PieceJoiner):
    """Feeds on the payloads of a streamed answer."""

    __slots__ = ("_calls", "_count", "_reason", "_usage")

    def __init__(self, who: str) -> None:
        super().__init__(who)
        self._calls: dict[int, int] = {}  # the call that a block is
        self._count = 0
        self._reason: str | None = None
        self._usage = _Usage()

    def feed(self, payloads: list[bytes]) -> list[Piece]:
        for payload in payloads:
            try:
                event = _decode(payload)
            except (ValueError, RecursionError, msgspec.DecodeError):
                odd = self._read_odd(payload)
                if odd is None:
                    break
                event = odd
            block = event.content_block_delta
            if block is not None and block.delta is not None:
                self._take_delta(block.content_block_index, block.delta)
            else:
                self._take(event)
                if self.over:
                    break
        return self._take_pieces()

    def finished(self) -> Finished | None:
        if self._reason is None:
            return None
        end = FinishReason.TOOL_CALLS if self._count else FinishReason.END
        usage = self._usage
        cached = usage.cache_read_input_tokens or 0
        written = usage.cache_write_input_tokens or 0
        prompt = usage.input_tokens + cached + written
        spent = Usage(prompt, usage.output_tokens, cached, written=written)
        return Finished(_REASONS.get(self._reason, end), spent)

    def _take(self, event: _Event) -> None:
        if event.content_block_start is not None:
            self._start(event.content_block_start)
        elif event.message_stop is not None:
            self._stop(event.message_stop.stop_reason)
        elif event.metadata is not None:
            self._usage = event.metadata.usage or self._usage
            self.over = self._reason is not None
        elif event.exception is not None:
            said = event.error if isinstance(event.error, dict) else {}
            self._fail({"message": said.get("message", ""), "code": _STATUS.get(event.exception, 500)})

    def _take_delta(self, index: int, delta: _Content) -> None:
        if delta.text:
            self._add("text", delta.text)
        elif delta.tool_use is not None:
            if delta.tool_use.input and index in self._calls:
                self._write(self._calls[index], "", delta.tool_use.input)
        elif delta.reasoning_content is not None:
            if delta.reasoning_content.text:
                self._add("thinking", delta.reasoning_content.text)
            if delta.reasoning_content.signature:
                self._say(ThinkingPiece("", marked(OWNER, delta.reasoning_content.signature)))

    def _start(self, block: _Block) -> None:
        if block.start is not None and block.start.tool_use is not None:
            self._calls[block.content_block_index] = self._count
            self._say(CallPiece(self._count, block.start.tool_use.name or ""))
            self._count += 1

    def _stop(self, reason: str) -> None:
        if reason in _FAILED:
            self._flush()
            self.error = StreamBroken(f"{self._who} wrote something that makes no sense", details=reason)
            self.over = True
        else:
            self._reason = reason

    def _read_odd(self, payload: bytes) -> _Event | None:
        """JSON with half a surrogate pair, which only the standard decoder lets through; else nonsense."""
        try:
            return msgspec.convert(mended(json.loads(payload)), _Event)
        except (ValueError, RecursionError, msgspec.ValidationError):
            if self._reason is None:
                self._break(payload)
            self.over = True
            return None
