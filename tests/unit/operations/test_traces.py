"""What callers see of a trace, and how large it can be."""

from __future__ import annotations

import json
from typing import cast

import msgspec
import pytest

from mainstay.core.people import PersonRole, Principal
from mainstay.observe.span_types import Span, SpanEvent, Trace
from mainstay.operations.caller import Caller
from mainstay.operations.runtime_protocols import RuntimeSource
from mainstay.operations.traces import SPAN_EVENTS_MAX, TRACE_BYTES_MAX, _view_trace


def caller(role: PersonRole) -> Caller:
    principal = Principal(person="ann", workspace="default", role=role)
    return Caller(principal, cast(RuntimeSource, None))


def trace(*spans: Span) -> Trace:
    return Trace(id="t", session="web:ann:trip", turn=1, spans=spans)


def span(**more: object) -> Span:
    return msgspec.structs.replace(Span(id="1", name="chat m", start=1, end=2), **more)


@pytest.mark.parametrize(("role", "is_shown"), [("member", False), ("guest", False), ("admin", True)])
def test_the_address_of_the_model_is_for_admins(role: PersonRole, is_shown: bool) -> None:
    attributes = {"server.address": "models.internal", "gen_ai.conversation.id": "web:ann:trip/call_1"}
    (seen,) = _view_trace(caller(role), trace(span(attributes=attributes)), is_full=False).spans
    assert ("models.internal" in seen.attributes) is is_shown
    assert json.loads(seen.attributes)["gen_ai.conversation.id"] == ("web:ann:" if is_shown else "") + "trip/call_1"


def test_a_span_of_another_persons_session_would_not_name_it() -> None:
    (seen,) = _view_trace(
        caller("member"), trace(span(attributes={"mainstay.session": "web:bob:trip"})), is_full=False
    ).spans
    assert json.loads(seen.attributes) == {"mainstay.session": ""}


def test_a_span_says_whether_it_failed_or_is_not_finished() -> None:
    spans = span(), span(error_type="tool_error"), span(is_open=True)
    seen = _view_trace(caller("member"), trace(*spans), is_full=False)
    assert [one.status for one in seen.spans] == ["ok", "error", "open"]
    assert not seen.cut


def test_a_trace_is_bounded_and_says_so() -> None:
    large = span(attributes={"gen_ai.tool.call.result": "x" * (TRACE_BYTES_MAX // 4)})
    seen = _view_trace(caller("member"), trace(*[large] * 50), is_full=False)
    assert (len(seen.spans), seen.cut) == (4, True)
    many = span(events=tuple(SpanEvent(1, "mainstay.steered") for _ in range(SPAN_EVENTS_MAX + 1)))
    seen = _view_trace(caller("member"), trace(many), is_full=False)
    assert (len(seen.spans[0].events), seen.cut) == (SPAN_EVENTS_MAX, True)
    assert _view_trace(caller("member"), trace(span()), is_full=True).cut
