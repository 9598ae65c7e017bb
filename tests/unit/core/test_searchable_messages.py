"""Searchable messages from records, and redacted records."""

from __future__ import annotations

import pytest

from mainstay.core.events import (
    Blanked,
    Event,
    Folded,
    MessageAdded,
    Received,
    SessionChanged,
    StepCheckpointed,
    ToolFinished,
    TurnEnded,
    TurnStarted,
)
from mainstay.core.journal import FORGOTTEN_TEXT, Record, decode_event, encode_event, redact_event
from mainstay.core.memory_tiers import IndexedMessage
from mainstay.core.messages import Binary, Finish, FinishReason, Text, Thinking, ToolCall, ToolResult
from mainstay.core.outcome import Answered, Failed
from mainstay.core.searchable_messages import searchable_message, searchable_messages


def entries(*events: Event) -> list[IndexedMessage]:
    return searchable_messages("s", [Record(seq, seq * 10, event) for seq, event in enumerate(events, start=1)])


def test_messages_of_people_models_and_tools_are_searchable_under_their_names() -> None:
    found = entries(
        Received((Text("hello"),), sender="ana"),
        TurnStarted((1,), turn=1),
        MessageAdded("assistant", (Thinking("hm"), Text("let me look"), ToolCall("c1", "look", '{"at": "x"}'))),
        ToolFinished(ToolResult("c1", "look", "a heron", origin="untrusted:look")),
        MessageAdded("assistant", (Text("a heron"), Finish(FinishReason.END))),
        TurnEnded(Answered(), turn=1),
        Received((Text("thanks"), Binary("image/png", b"x"))),
    )
    assert found == [
        IndexedMessage("s", 1, 10, "user", "hello", "ana"),
        IndexedMessage("s", 3, 30, "assistant", 'let me look\nlook({"at": "x"})', "assistant"),
        IndexedMessage("s", 4, 40, "tool", "a heron", "look", "untrusted:look", "c1"),
        IndexedMessage("s", 5, 50, "assistant", "a heron", "assistant"),
        IndexedMessage("s", 7, 70, "user", "thanks", "user"),
    ]


def test_notes_of_the_runtime_and_what_is_empty_are_left_out() -> None:
    nothing = (
        MessageAdded("system", (Text("a note"),)),
        Received((Text(" \n"),)),
        Received((Binary("image/png", b"x"),)),
        ToolFinished(ToolResult("c1", "look", "")),
        MessageAdded("assistant", (Thinking("hm"),)),
        StepCheckpointed("partial"),
        SessionChanged(instructions="be kind"),
        Folded(1, "a summary"),
        Blanked(),
    )
    assert entries(*nothing) == []


def test_imported_history_is_searchable_too() -> None:
    found = entries(
        MessageAdded("user", (Text("hello"),)), MessageAdded("tool", (ToolResult("c9", "look", "a heron"),))
    )
    assert [(one.role, one.speaker, one.text, one.call_id) for one in found] == [
        ("user", "user", "hello", ""),
        ("tool", "look", "a heron", "c9"),
    ]


def test_the_worst_origin_of_its_parts_is_that_of_the_message() -> None:
    parts = (Text("a", origin="runtime"), Text("b", origin="untrusted:web"), Text("c"))
    assert [one.origin for one in entries(Received(parts), Received(parts[:1]), Received(parts[2:]))] == [
        "untrusted:web",
        "runtime",
        "",
    ]


CALL = ToolCall("c1", "look", '{"secret": 1}')


@pytest.mark.parametrize(
    ("event", "left"),
    [
        (
            Received((Text("secret", origin="o"), Text("")), sender="ana", id="m1"),
            Received((Text(FORGOTTEN_TEXT, origin="o"), Text("")), sender="ana", id="m1"),
        ),
        (
            MessageAdded("assistant", (Thinking("secret", "secret"), CALL, Finish(FinishReason.END)), turn=2, step=1),
            MessageAdded(
                "assistant",
                (Thinking(FORGOTTEN_TEXT), ToolCall("c1", "look", "{}"), Finish(FinishReason.END)),
                turn=2,
                step=1,
            ),
        ),
        (
            ToolFinished(ToolResult("c1", "look", "secret", is_error=True, origin="untrusted:look"), turn=1),
            ToolFinished(ToolResult("c1", "look", FORGOTTEN_TEXT, is_error=True, origin="untrusted:look"), turn=1),
        ),
        (Received((Binary("image/png", b"secret", "/secret"),)), Received((Binary("image/png"),))),
        (StepCheckpointed("secret", turn=1), StepCheckpointed(FORGOTTEN_TEXT, turn=1)),
        (TurnEnded(Failed("it failed", "secret"), turn=1), TurnEnded(Failed("it failed"), turn=1)),
        (Folded(3, "secret"), Blanked()),
        (TurnStarted((1,), turn=1), TurnStarted((1,), turn=1)),
        (SessionChanged(instructions="be kind"), SessionChanged(instructions="be kind")),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_redacted_event_has_its_shape_and_nothing_else(event: Event, left: Event) -> None:
    assert redact_event(event) == left
    assert b"secret" not in encode_event(redact_event(event))
    assert decode_event(encode_event(redact_event(event))) == left
    assert redact_event(left) == left


def test_redacted_messages_are_not_searchable() -> None:
    said = (Received((Text("secret"),)), ToolFinished(ToolResult("c1", "look", "secret")))
    assert entries(*(redact_event(event) for event in said)) == []


def test_recalled_content_is_not_indexed_again() -> None:
    def record(seq: int, event: Event) -> Record:
        return Record(seq, 0, event)

    call = ToolCall("call_1_1_0", "memory_search", '{"query":"key"}')
    records = [
        record(1, MessageAdded("assistant", (call,), turn=1)),
        record(2, ToolFinished(ToolResult("call_1_1_0", "memory_search", "[a#1] the key is with Ana"), turn=1)),
        record(3, MessageAdded("assistant", (Text("I look it up."), call), turn=1)),
        record(4, ToolFinished(ToolResult("call_1_2_0", "weather", "sunny"), turn=1)),
    ]
    assert [entry.seq for entry in searchable_messages("s", records)] == [3, 4]
    found = searchable_message("s", records[1])
    assert found is not None, "it can still be read"
    assert found.text == "[a#1] the key is with Ana"
