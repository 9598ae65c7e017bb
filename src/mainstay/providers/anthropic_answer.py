"""A streamed message of Anthropic's, event by event, as pieces."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from mainstay.core.messages import FinishReason, Usage
from mainstay.core.ports import CallPiece, Finished, Piece, ThinkingPiece
from mainstay.providers.forms import encode, mended
from mainstay.providers.pieces import PieceJoiner

# One struct for all events: they tell themselves apart by `type`, and most are deltas.


class _Usage(msgspec.Struct, gc=False):
    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    cache_creation_input_tokens: int | None = None


class _Message(msgspec.Struct, gc=False):
    usage: _Usage | None = None


class _Delta(msgspec.Struct, gc=False):
    type: str = ""
    text: str | None = None
    thinking: str | None = None
    signature: str | None = None
    partial_json: str | None = None
    stop_reason: str | None = None


class _Block(msgspec.Struct, gc=False):
    type: str = ""
    text: str | None = None
    thinking: str | None = None
    signature: str | None = None
    name: str | None = None
    input: Any = None


class _Event(msgspec.Struct, gc=False):
    type: str = ""
    index: int = 0
    delta: _Delta | None = None
    content_block: _Block | None = None
    message: _Message | None = None
    usage: _Usage | None = None
    error: Any = None


_decode = msgspec.json.Decoder(_Event).decode

_REASONS = {
    "end_turn": FinishReason.END,
    "stop_sequence": FinishReason.END,
    "pause_turn": FinishReason.END,
    "tool_use": FinishReason.TOOL_CALLS,
    "max_tokens": FinishReason.LENGTH,
    "model_context_window_exceeded": FinishReason.LENGTH,
    "refusal": FinishReason.FILTERED,
}


class _OpenCall:
    __slots__ = ("index", "written")

    def __init__(self, index: int, written: str) -> None:
        self.index = index
        self.written = written  # the input, where the block brought it whole


class MessagesAnswer(PieceJoiner):
    """Feeds on the payloads of a streamed message."""

    __slots__ = ("_calls", "_next", "_reason", "_usage")

    def __init__(self, who: str) -> None:
        super().__init__(who)
        self._calls: dict[int, _OpenCall] = {}  # by block, while it is open
        self._next = 0  # the lowest index that no call has had
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
            if event.type == "content_block_delta" and event.delta is not None:
                self._take_delta(event.index, event.delta)
            else:
                self._take(event)
                if self.over:
                    break
        return self._take_pieces()

    def finished(self) -> Finished | None:
        if self._reason is None:
            return None
        reason = _REASONS.get(self._reason, FinishReason.END)
        if reason in (FinishReason.END, FinishReason.TOOL_CALLS):
            reason = FinishReason.TOOL_CALLS if self._next else FinishReason.END
        return Finished(reason, self._tokens())

    def _tokens(self) -> Usage:
        usage = self._usage
        cached = usage.cache_read_input_tokens or 0
        written = usage.cache_creation_input_tokens or 0
        prompt = (usage.input_tokens or 0) + cached + written
        return Usage(prompt, usage.output_tokens or 0, cached, written=written)

    # --- events ----------------------------------------------------------------------------------

    def _take(self, event: _Event) -> None:
        match event.type:
            case "content_block_start" if event.content_block is not None:
                self._start_block(event.index, event.content_block)
            case "content_block_stop":
                self._stop_block(event.index)
            case "message_start" if event.message is not None:
                self._count(event.message.usage)
            case "message_delta":
                self._count(event.usage)
                if event.delta is not None and event.delta.stop_reason:
                    self._reason = event.delta.stop_reason
            case "message_stop":
                self.over = True
            case "error":
                self._fail(event.error)

    def _take_delta(self, index: int, delta: _Delta) -> None:
        if delta.text:
            self._add("text", delta.text)
        elif delta.partial_json:
            self._write_block(index, delta.partial_json)
        elif delta.thinking:
            self._add("thinking", delta.thinking)
        elif delta.signature:
            self._say(ThinkingPiece("", delta.signature))

    def _start_block(self, index: int, block: _Block) -> None:
        if block.type == "tool_use":
            written = encode(block.input).decode() if block.input else ""
            own = max(index, self._next)
            self._calls[index] = _OpenCall(own, written)
            self._next = own + 1
            self._say(CallPiece(own, block.name or ""))
        elif block.text:
            self._add("text", block.text)
        elif block.thinking:
            self._add("thinking", block.thinking)

    def _stop_block(self, index: int) -> None:
        call = self._calls.pop(index, None)
        if call is not None and call.written:
            self._say(CallPiece(call.index, "", call.written))

    def _write_block(self, index: int, part: str) -> None:
        call = self._calls.get(index)
        if call is not None:  # a delta for a block that was never opened does not say which tool is meant
            call.written = ""
            self._write(call.index, "", part)

    def _count(self, usage: _Usage | None) -> None:
        """Counts are cumulative; what an event does not mention stays as it was."""
        if usage is None:
            return
        for field in _Usage.__struct_fields__:
            value = getattr(usage, field)
            if value is not None:
                setattr(self._usage, field, value)

    # --- trouble ---------------------------------------------------------------------------------

    def _read_odd(self, payload: bytes) -> _Event | None:
        """JSON with half a surrogate pair, which only the standard decoder lets through; else nonsense."""
        try:
            return msgspec.convert(mended(json.loads(payload)), _Event)
        except (ValueError, RecursionError, msgspec.ValidationError):
            if self._reason is None:
                self._break(payload)
            self.over = True
            return None
