"""Encoding of events: every written record is read back, and an unreadable one is named."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from mainstay.core import journal
from mainstay.core.chat_addresses import ChatAddress, PlatformMessage
from mainstay.core.client_tools import ClientTool
from mainstay.core.errors import StoreCorrupt, StoreTooNew
from mainstay.core.events import (
    ApprovalAnswered,
    ApprovalAsked,
    Blanked,
    Delivered,
    DurableEvent,
    Event,
    Folded,
    Forked,
    Guarded,
    Judged,
    MessageAdded,
    Received,
    Relieved,
    Reserved,
    Score,
    SessionChanged,
    Settled,
    Spawned,
    Steered,
    StepCheckpointed,
    StepRestarted,
    ToolFinished,
    ToolStarted,
    TurnEnded,
    TurnResumed,
    TurnSetAside,
    TurnStarted,
)
from mainstay.core.journal import decode_event, decode_events, encode_event, replace_surrogates
from mainstay.core.memory_tiers import Fact, Summary
from mainstay.core.messages import Binary, Finish, FinishReason, Text, Thinking, ToolCall, ToolResult, Usage
from mainstay.core.outcome import Aborted, Answered, Exhausted, Failed, Paused

EVERY: list[Event] = [
    Received((Text("hi", origin="web"), Binary("image/png", b"\x00\xff", "a.png")), "steer", "ann", "m1"),
    TurnStarted((1, 2), "model", turn=1),
    TurnResumed(turn=1),
    TurnResumed(after_crash=True, released=True, turn=1),
    TurnSetAside(crashes=3, turn=1),
    MessageAdded(
        "assistant",
        (Thinking("hm", "sig"), Text("so"), ToolCall("c", "t", "{", finished=False), Finish(FinishReason.LENGTH)),
        "model",
        Usage(1, 2, 3, 4),
        0.5,
        turn=1,
        step=2,
    ),
    ToolStarted("c", turn=1, step=2),
    ToolFinished(ToolResult("c", "t", "no", is_error=True), turn=1, step=2),
    ToolFinished(ToolResult("c", "t", "x", mark="ab12"), Usage(1, 2), 0.5, turn=1, step=2),
    ApprovalAsked("a1", "c", "t", "{}", "why", "digest", 1000, "t", turn=1, step=2),
    ApprovalAnswered("a1", "approved", "ana", "fine", "{}", "t", turn=1, step=2),
    Guarded("tool", "flagged", ("override",), "c", "excerpt", turn=1, step=2),
    Spawned("parent", "c", ("read",), 2, untrusted=True, private=True),
    Steered((3,), turn=1),
    StepCheckpointed("half", "thought", turn=1, step=3),
    StepRestarted("cut", turn=1, step=3),
    Reserved("3.2", "model", 100, 2000, 12_345, guessed=True, turn=3, step=2),
    Settled("3.2", Usage(100, 5), 0.25, turn=3, step=2),
    Judged(
        (Score("kind", 0.5, "curt", weight=2.0, usage=Usage(9, 1), cost=0.1, seconds=1.5), Score("true", error="gone")),
        *(0.25, False, 2, True),
        turn=1,
        step=2,
    ),
    Relieved(("call_1_1_0",), turns=3, texts=(4, 9), steps=2, room=100, turn=5),
    Folded(
        7,
        "summary",
        through=2,
        version=3,
        by="model",
        origin="untrusted:web",
        parts=(Summary(1, 7, 1000, 2000, "they met"),),
        facts=(Fact("Ana", "lives in", "Lisbon", 3, 0.9, "untrusted:web", many=True),),
        usage=Usage(1, 2),
        cost=0.1,
    ),
    *(TurnEnded(outcome, turn=1) for outcome in (Answered(), Aborted(), Exhausted("25 steps"), Paused("a1"))),
    TurnEnded(Answered(0.5, passed=False), turn=1),
    TurnEnded(Failed("sorry", "details", turn=1, step=3), turn=1),
    Received(
        (Text("psst"),),
        "overheard",
        "ann",
        "m2",
        PlatformMessage(ChatAddress("chat", "r", "t"), "m2", "U1", "Ann", "psst", 5),
    ),
    Delivered("s#1", ChatAddress("chat", "r:1", "t%"), ("m3",), "unknown", "cut", turn=1),
    SessionChanged(guests=(ClientTool("look", "Look.", {"type": "object"}),)),
    SessionChanged("title", "archived", "model", "be kind", "be kinder", ("brew",), {"name": "Ana"}, {"a": "b"}),
    Forked("parent", 9),
    Blanked(),
]


@pytest.mark.parametrize("event", EVERY, ids=lambda event: type(event).__name__)
def test_every_kind_of_event_is_read_back_as_it_was_written(event: Event) -> None:
    assert decode_event(encode_event(event)) == event
    assert type(decode_event(encode_event(event))) is type(event)


def test_the_table_above_has_every_kind() -> None:
    assert {type(event) for event in EVERY} == set(DurableEvent.__args__)


def test_a_record_is_json_with_its_type_and_only_what_differs_from_the_default() -> None:
    assert encode_event(Received((Text("hi"),))) == b'{"type":"Received","parts":[{"type":"text","text":"hi"}]}'
    assert encode_event(TurnEnded(Answered(), turn=3)) == b'{"type":"TurnEnded","outcome":{"type":"Answered"},"turn":3}'


def test_many_are_read_at_once_as_they_are_one_by_one() -> None:
    bodies = [encode_event(event).decode() for event in EVERY]
    assert list(decode_events(bodies)) == EVERY
    assert list(decode_events([])) == []


def test_f54_a_record_of_a_newer_release_is_refused_with_its_name() -> None:
    with pytest.raises(StoreTooNew, match="type 'Levitated' that this release does not know; use the newer release"):
        decode_event('{"type":"Levitated","height":3}')
    with pytest.raises(StoreTooNew):
        list(decode_events([encode_event(EVERY[0]).decode(), '{"type":"Levitated"}']))


@pytest.mark.parametrize(
    "body",
    [
        "",
        "{",
        "[]",
        "null",
        "12",
        '{"no":"type"}',
        '{"type":5}',
        '{"type":"Received"}',
        '{"type":"Received","parts":5}',
    ],
)
def test_f9_an_invalid_record_is_damage(body: str) -> None:
    with pytest.raises((StoreCorrupt, StoreTooNew)):
        decode_event(body)


def test_f54_a_field_that_a_newer_release_added_is_ignored() -> None:
    assert decode_event('{"type":"TurnResumed","turn":3,"machine":"b"}') == TurnResumed(turn=3)


def test_f54_a_record_of_an_older_release_is_upcast(monkeypatch: pytest.MonkeyPatch) -> None:
    def upcast(fields: dict[str, Any]) -> dict[str, Any]:
        return {"type": "StepRestarted", "reason": fields["why"], "turn": fields["turn"]}

    monkeypatch.setitem(journal.UPCASTS, "StepFailed", upcast)
    old = '{"type":"StepFailed","why":"cut","turn":4}'
    assert decode_event(old) == StepRestarted("cut", turn=4)
    assert list(decode_events([old, encode_event(TurnResumed()).decode()])) == [
        StepRestarted("cut", turn=4),
        TurnResumed(),
    ]


def test_half_characters_are_repaired_at_every_place() -> None:
    odd = Received((Text("a\ud800"), Binary("x/y", b"\xff", "p\udfff")), sender="\udc00", id="m")
    with pytest.raises(UnicodeEncodeError):
        encode_event(odd)
    assert replace_surrogates(odd) == Received((Text("a?"), Binary("x/y", b"\xff", "p?")), sender="?", id="m")
    deep = SessionChanged(metadata={"k\ud800": "v\ud800"})
    assert replace_surrogates(deep) == SessionChanged(metadata={"k?": "v?"})


def test_events_are_values_that_cannot_be_changed() -> None:
    for event in EVERY:
        with pytest.raises(AttributeError):
            event.turn = 9  # type: ignore[misc]
        assert msgspec.structs.replace(event, turn=9).turn == 9
