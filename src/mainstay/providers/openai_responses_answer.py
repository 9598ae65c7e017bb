"""A streamed response of OpenAI's Responses API, event by event, as pieces.

The events are those of the published OpenAPI description, as the official client's types have them.
"""

from __future__ import annotations

import json
from typing import Any

import msgspec

from mainstay.core.messages import FinishReason, Usage
from mainstay.core.ports import CallPiece, Finished, Piece, ThinkingPiece
from mainstay.providers.forms import mended
from mainstay.providers.opaque import marked
from mainstay.providers.pieces import PieceJoiner

OWNER = "openai"

# One struct for all events: they tell themselves apart by `type`, and most are deltas.


class _Details(msgspec.Struct, gc=False):
    cached_tokens: int | None = None
    cache_write_tokens: int | None = None
    reasoning_tokens: int | None = None


class _Usage(msgspec.Struct, gc=False):
    input_tokens: int | None = None
    output_tokens: int | None = None
    input_tokens_details: _Details | None = None
    output_tokens_details: _Details | None = None


class _Incomplete(msgspec.Struct, gc=False):
    reason: str | None = None


class _Response(msgspec.Struct, gc=False):
    usage: _Usage | None = None
    incomplete_details: _Incomplete | None = None
    error: Any = None


class _Item(msgspec.Struct, gc=False):
    type: str = ""
    id: str | None = None
    name: str | None = None
    arguments: str | None = None
    encrypted_content: str | None = None
    phase: str | None = None


class _Event(msgspec.Struct, gc=False):
    type: str = ""
    delta: Any = None
    output_index: int = 0
    summary_index: int = 0
    item: _Item | None = None
    response: _Response | None = None
    error: Any = None
    code: Any = None
    message: str | None = None


_decode = msgspec.json.Decoder(_Event).decode

_CUT = {"max_output_tokens": FinishReason.LENGTH, "content_filter": FinishReason.FILTERED}


class _OpenCall:
    __slots__ = ("heard", "index")

    def __init__(self, index: int) -> None:
        self.index = index
        self.heard = False  # something of its arguments


class ResponsesAnswer(PieceJoiner):
    """Feeds on the payloads of a response."""

    __slots__ = ("_calls", "_count", "_reason", "_usage")

    def __init__(self, who: str) -> None:
        super().__init__(who)
        self._calls: dict[int, _OpenCall] = {}  # by place in the output, while it is open
        self._count = 0
        self._reason: FinishReason | None = None
        self._usage: _Usage | None = None

    def feed(self, payloads: list[bytes]) -> list[Piece]:
        for payload in payloads:
            try:
                event = _decode(payload)
            except (ValueError, RecursionError, msgspec.DecodeError):
                odd = self._read_odd(payload)
                if odd is None:
                    break
                event = odd
            if event.type == "response.output_text.delta" and isinstance(event.delta, str):
                self._add("text", event.delta)
            else:
                self._take(event)
                if self.over:
                    break
        return self._take_pieces()

    def finished(self) -> Finished | None:
        if self._reason is None:
            return None
        reason = self._reason
        if reason is FinishReason.END and self._count:
            reason = FinishReason.TOOL_CALLS
        return Finished(reason, _tokens(self._usage) if self._usage is not None else Usage())

    # --- events ----------------------------------------------------------------------------------

    def _take(self, event: _Event) -> None:
        match event:
            case _Event(type="response.function_call_arguments.delta", delta=str(delta)) if delta:
                self._write_call(event.output_index, delta)
            case _Event(
                type="response.reasoning_summary_text.delta" | "response.reasoning_text.delta", delta=str(delta)
            ):
                self._add("thinking", delta)
            case _Event(type="response.reasoning_summary_part.added") if event.summary_index:
                self._add("thinking", "\n\n")
            case _Event(type="response.refusal.delta", delta=str(delta)):
                self._add("text", delta)
            case _Event(type="response.output_item.added", item=_Item() as item):
                self._begin(event.output_index, item)
            case _Event(type="response.output_item.done", item=_Item() as item):
                self._end(event.output_index, item)
            case _Event(type="response.completed"):
                self._finish(event.response, FinishReason.END)
            case _Event(type="response.incomplete"):
                cut = event.response.incomplete_details if event.response else None
                other = FinishReason.LENGTH if self._calls else FinishReason.END  # half a call must not run
                self._finish(event.response, _CUT.get((cut and cut.reason) or "", other))
            case _Event(type="response.failed"):
                self._fail((event.response.error if event.response else None) or "it failed")
            case _Event(type="error") | _Event(error=dict()):
                self._fail(event.error or {"code": event.code, "message": event.message})

    def _begin(self, place: int, item: _Item) -> None:
        if item.type == "function_call":
            self._calls[place] = _OpenCall(self._count)
            self._say(CallPiece(self._count, item.name or ""))
            self._count += 1
        elif item.phase and item.type == "message":
            self._say(ThinkingPiece("", marked(OWNER, f"phase:{item.phase}")))

    def _end(self, place: int, item: _Item) -> None:
        if item.type == "reasoning" and item.encrypted_content:
            self._say(ThinkingPiece("", marked(OWNER, f"{item.id or ''}:{item.encrypted_content}")))
        elif item.type == "function_call":
            if place not in self._calls:  # it comes whole
                self._begin(place, item)
            call = self._calls.pop(place)
            if item.arguments and not call.heard:
                self._say(CallPiece(call.index, "", item.arguments))

    def _write_call(self, place: int, part: str) -> None:
        call = self._calls.get(place)
        if call is not None:  # a delta for a call that never began does not say which tool is meant
            call.heard = True
            self._write(call.index, "", part)

    def _finish(self, response: _Response | None, reason: FinishReason) -> None:
        self._reason = reason
        self._usage = response.usage if response is not None else None
        self.over = True

    # --- trouble ---------------------------------------------------------------------------------

    def _read_odd(self, payload: bytes) -> _Event | None:
        """JSON with half a surrogate pair, which only the standard decoder lets through; else nonsense."""
        try:
            return msgspec.convert(mended(json.loads(payload)), _Event)
        except (ValueError, RecursionError, msgspec.ValidationError):
            self._break(payload)
            return None


def _tokens(usage: _Usage) -> Usage:
    prompt, completion = usage.input_tokens_details, usage.output_tokens_details
    cached = (prompt.cached_tokens if prompt else None) or 0
    reasoning = (completion.reasoning_tokens if completion else None) or 0
    written = (prompt.cache_write_tokens if prompt else None) or 0
    return Usage(usage.input_tokens or 0, usage.output_tokens or 0, cached, reasoning, written)
