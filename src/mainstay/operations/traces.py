"""The operation that returns the trace of a turn."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

import msgspec
from msgspec import Meta

from mainstay.operations.caller import Caller
from mainstay.operations.operation import SEQUENCE_MAX, Operation, SessionName
from mainstay.operations.operation_entry import OperationEntry, Route
from mainstay.operations.sessions import read_journal

if TYPE_CHECKING:
    from mainstay.observe.span_types import Attributes, Span, Trace

TRACE_BYTES_MAX = 1 << 20  # a trace ends with the span that reaches it
SPAN_EVENTS_MAX = 200  # of one span

_SESSION_ATTRIBUTES = ("gen_ai.conversation.id", "mainstay.session")  # their values are session keys
_OPERATOR_ATTRIBUTES = ("server.address",)  # from the configuration, not from the journal
_FAILED_TURN = "turn_failed"


# --- results -------------------------------------------------------------------------------------


class TraceSpanEvent(msgspec.Struct, frozen=True, kw_only=True):
    """Something that happened at one moment of a span."""

    at: int  # ms
    name: str
    attributes: str  # a JSON object


class TraceSpan(msgspec.Struct, frozen=True, kw_only=True):
    """An operation within a turn, or the turn itself."""

    id: str
    parent: str  # span id; "" for the turn itself
    name: str
    kind: Literal["internal", "client"]
    start: int  # ms
    end: int  # ms; of an open span: the time of the request
    status: Literal["ok", "error", "open"]
    error_type: str
    error_message: str  # "" unless the telemetry settings include content
    attributes: str  # a JSON object
    events: list[TraceSpanEvent]


class TurnTrace(msgspec.Struct, frozen=True, kw_only=True):
    """The trace of a turn, with those of its sub-agents. The first span is the turn itself."""

    id: str
    session: str
    turn: int
    spans: list[TraceSpan]
    cut: bool  # spans or events are missing, because there are too many


class GetTrace(Operation[TurnTrace], frozen=True, kw_only=True):
    """Show the trace of a turn: its model calls, tool calls and waiting times."""

    session: SessionName
    turn: Annotated[int, Meta(ge=1, le=SEQUENCE_MAX)] | None = None  # None: the last one


# --- functions -----------------------------------------------------------------------------------


async def get_trace(caller: Caller, request: GetTrace) -> TurnTrace:
    key, info = await caller.find_session(request.session)
    runtime = await caller.runtime()
    store = runtime.services.store
    from mainstay.observe.traces import SPANS_MAX, build_trace, select_turns  # rarely used

    (records,) = select_turns(await read_journal(store, key), request.turn, request.session)
    trace = await build_trace(store, info, records, runtime.telemetry_options(), runtime.services.clock.now_ms())
    assert trace is not None, "a turn has spans as of a time"
    return _view_trace(caller, trace, is_full=len(trace.spans) == SPANS_MAX)


def _view_trace(caller: Caller, trace: Trace, *, is_full: bool) -> TurnTrace:
    """Return a trace as the caller may see it. `is_full`: it has as many spans as a trace can have."""
    spans: list[TraceSpan] = []
    size = 0
    cut = is_full
    for span in trace.spans:
        if size >= TRACE_BYTES_MAX:
            cut = True
            break
        spans.append(view := _view_span(caller, span))
        size += len(msgspec.json.encode(view))
        cut = cut or len(view.events) < len(span.events)
    return TurnTrace(
        id=trace.id, session=caller.session_name(trace.session) or "", turn=trace.turn, spans=spans, cut=cut
    )


def _view_span(caller: Caller, span: Span) -> TraceSpan:
    error_type = span.error_type
    attributes = {name: value for name, value in span.attributes.items() if not _is_hidden(caller, name)}
    for name in _SESSION_ATTRIBUTES:
        if name in attributes:
            attributes[name] = caller.session_name(str(attributes[name])) or ""
    is_turn = attributes.get("gen_ai.operation.name") == "invoke_agent"
    if error_type and is_turn and caller.principal.role != "admin":  # the class of the error is for operators
        attributes["error.type"] = error_type = _FAILED_TURN
    events = [
        TraceSpanEvent(at=event.at, name=event.name, attributes=_encode_attributes(event.attributes))
        for event in span.events[:SPAN_EVENTS_MAX]
    ]
    return TraceSpan(
        id=span.id,
        parent=span.parent_id,
        name=span.name,
        kind=span.kind,
        start=span.start,
        end=span.end,
        status="error" if error_type else "open" if span.is_open else "ok",
        error_type=error_type,
        error_message=span.error_message,
        attributes=_encode_attributes(attributes),
        events=events,
    )


def _is_hidden(caller: Caller, attribute: str) -> bool:
    return attribute in _OPERATOR_ATTRIBUTES and caller.principal.role != "admin"


def _encode_attributes(attributes: Attributes) -> str:
    return msgspec.json.encode(attributes).decode()


ENTRIES = (
    OperationEntry(request=GetTrace, run=get_trace, http=Route("GET", "/api/sessions/{id}/trace", {"id": "session"})),
)
