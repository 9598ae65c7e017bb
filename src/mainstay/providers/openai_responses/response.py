"""Parses streamed responses of OpenAI's Responses API into pieces.

The structs follow the published OpenAPI description, as in the official client's types.
"""

from __future__ import annotations

from typing import Any, ClassVar

import msgspec

from mainstay.core.messages import FinishReason
from mainstay.core.ports import Piece, StreamFinished, ThinkingPiece, ToolCallPiece
from mainstay.providers.wire.batching_parser import BatchingParser
from mainstay.providers.wire.decoding import DECODING_ERRORS, Id, Index, ToolName, Word
from mainstay.providers.wire.reasoning_signatures import tag_signature
from mainstay.providers.wire.usage_report import UsageFields

SIGNATURE_OWNER = "openai"

# One struct for all events: `type` says which, and most are deltas.


class ResponsesIncompleteDetails(msgspec.Struct, gc=False):
    reason: Word | None = None


class ResponsesBody(msgspec.Struct, gc=False):
    usage: msgspec.Raw = msgspec.Raw(b"")
    incomplete_details: ResponsesIncompleteDetails | None = None
    error: Any = None


class ResponsesItem(msgspec.Struct, gc=False):
    type: Word = ""
    id: Id | None = None
    name: ToolName | None = None
    arguments: str | None = None
    encrypted_content: str | None = None
    phase: Word | None = None


class ResponsesEvent(msgspec.Struct, gc=False):
    type: Word = ""
    delta: Any = None
    output_index: Index = 0
    summary_index: Index = 0
    item: ResponsesItem | None = None
    response: ResponsesBody | None = None
    error: Any = None
    code: Any = None
    message: str | None = None


_event_decoder = msgspec.json.Decoder(ResponsesEvent)
_decode_event = _event_decoder.decode

_INCOMPLETE_REASONS = {"max_output_tokens": FinishReason.LENGTH, "content_filter": FinishReason.FILTERED}


class UnfinishedToolCall:
    """A function call item that was added and is not done."""

    __slots__ = ("has_arguments", "index")

    def __init__(self, index: int) -> None:
        self.index = index
        self.has_arguments = False  # a delta of its arguments has arrived


class OpenAIResponsesParser(BatchingParser):
    """Parses the event payloads of one streamed response."""

    USAGE_FIELDS: ClassVar[UsageFields] = UsageFields(
        ("input_tokens",),
        ("output_tokens",),
        cached=("input_tokens_details.cached_tokens",),
        reasoning=("output_tokens_details.reasoning_tokens",),
        written=("input_tokens_details.cache_write_tokens",),
        is_always_sent=True,
    )

    __slots__ = ("_finish_reason", "_open_calls")

    def __init__(self, label: str) -> None:
        super().__init__(label)
        self._open_calls: dict[int, UnfinishedToolCall] = {}  # by output index, until the item is done
        self._finish_reason: FinishReason | None = None

    def feed(self, payloads: list[bytes]) -> list[Piece]:
        event: ResponsesEvent | None
        for payload in payloads:
            try:
                event = _decode_event(payload)
            except DECODING_ERRORS:
                event = self.decode_leniently(payload, _event_decoder)
                if event is None:
                    break
            if event.type == "response.output_text.delta" and isinstance(event.delta, str):
                self.append_text("text", event.delta)
            else:
                self._handle_event(event)
                if self.is_over:
                    break
        return self.drain_pieces()

    def final_piece(self) -> StreamFinished | None:
        if self._finish_reason is None:
            return None
        reason = self._finish_reason
        if reason is FinishReason.END and self.call_count:
            reason = FinishReason.TOOL_CALLS
        return StreamFinished(reason, self.usage.build())

    # --- events ----------------------------------------------------------------------------------

    def _handle_event(self, event: ResponsesEvent) -> None:
        match event:
            case ResponsesEvent(type="response.function_call_arguments.delta", delta=str(delta)) if delta:
                self._append_arguments(event.output_index, delta)
            case ResponsesEvent(
                type="response.reasoning_summary_text.delta" | "response.reasoning_text.delta", delta=str(delta)
            ):
                self.append_text("thinking", delta)
            case ResponsesEvent(type="response.reasoning_summary_part.added") if event.summary_index:
                self.append_text("thinking", "\n\n")
            case ResponsesEvent(type="response.refusal.delta", delta=str(delta)):
                self.append_text("text", delta)
            case ResponsesEvent(type="response.output_item.added", item=ResponsesItem() as item):
                self._start_item(event.output_index, item)
            case ResponsesEvent(type="response.output_item.done", item=ResponsesItem() as item):
                self._finish_item(event.output_index, item)
            case ResponsesEvent(type="response.completed"):
                self._finish_response(event.response, FinishReason.END)
            case ResponsesEvent(type="response.incomplete"):
                cut = event.response.incomplete_details if event.response else None
                # an incomplete call must not run
                default = FinishReason.LENGTH if self._open_calls else FinishReason.END
                self._finish_response(event.response, _INCOMPLETE_REASONS.get((cut and cut.reason) or "", default))
            case ResponsesEvent(type="response.failed"):
                self.handle_error((event.response.error if event.response else None) or "it failed")
            case ResponsesEvent(type="error") | ResponsesEvent(error=dict()):
                self.handle_error(event.error or {"code": event.code, "message": event.message})

    def _start_item(self, output_index: int, item: ResponsesItem) -> None:
        if item.type == "function_call":
            self._open_calls[output_index] = UnfinishedToolCall(self.begin_call(item.name or ""))
        elif item.phase and item.type == "message":
            self.emit(ThinkingPiece("", tag_signature(SIGNATURE_OWNER, f"phase:{item.phase}")))

    def _finish_item(self, output_index: int, item: ResponsesItem) -> None:
        if item.type == "reasoning" and item.encrypted_content:
            self.emit(ThinkingPiece("", tag_signature(SIGNATURE_OWNER, f"{item.id or ''}:{item.encrypted_content}")))
        elif item.type == "function_call":
            if output_index not in self._open_calls:  # it was never added: it arrives complete
                self._start_item(output_index, item)
            call = self._open_calls.pop(output_index)
            if item.arguments and not call.has_arguments and not self.is_over:
                self.emit(ToolCallPiece(call.index, "", item.arguments))

    def _append_arguments(self, output_index: int, part: str) -> None:
        call = self._open_calls.get(output_index)
        if call is not None:  # ignore a delta of a call that was never added: its tool is unknown
            call.has_arguments = True
            self.append_call_input(call.index, "", part)

    def _finish_response(self, response: ResponsesBody | None, reason: FinishReason) -> None:
        self._finish_reason = reason
        if response is not None:
            self.usage.update(response.usage)
        self.is_over = True
