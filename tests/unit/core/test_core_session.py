"""A session as a projection of its journal: the same records always make the same view."""

from __future__ import annotations

import random
from typing import Any, Literal

import pytest

from mainstay.core.events import (
    Event,
    Folded,
    Forked,
    Judged,
    MessageAdded,
    Received,
    SessionChanged,
    Steered,
    ToolFinished,
    ToolStarted,
    TurnEnded,
    TurnStarted,
)
from mainstay.core.journal import Record
from mainstay.core.messages import Binary, Text, ToolCall, ToolResult, Usage, join_inputs
from mainstay.core.outcome import Aborted, Answered
from mainstay.core.ports import NO_TOKEN_COUNT, SessionTail
from mainstay.core.session import Session


def session_of(*events: Event) -> Session:
    session = Session("s")
    for seq, event in enumerate(events, start=1):
        session.apply(seq, 1000 * seq, event)
    return session


def records(*events: Event) -> list[Record]:
    return [Record(seq, 1000 * seq, event) for seq, event in enumerate(events, start=1)]


def turn(number: int, at: int, text: str) -> list[Event]:
    return [
        Received((Text(text),)),
        TurnStarted((at,), turn=number),
        MessageAdded("assistant", (Text(f"re: {text}"),), usage=Usage(10, 5), cost=0.5, turn=number, step=1),
        TurnEnded(Answered(), turn=number),
    ]


def conversation(turns: int) -> list[Event]:
    made: list[Event] = []
    for number in range(1, turns + 1):
        made += turn(number, len(made) + 1, f"message {number}")
    return made


def test_a_session_counts_its_turns_messages_tokens_and_cost() -> None:
    session = session_of(*conversation(3))
    standing = session.to_info()
    assert (standing.turns, standing.messages, standing.head) == (3, 6, 12)
    assert (standing.prompt_tokens, standing.completion_tokens, standing.cost) == (30, 15, 1.5)
    assert (standing.created, standing.updated) == (1000, 12_000)
    assert (standing.unfinished, standing.status) == (False, "active")


def test_results_that_come_in_any_order_are_in_the_order_of_the_calls() -> None:
    calls = tuple(ToolCall(f"c{n}", "t", "{}") for n in range(4))
    start: list[Event] = [
        Received((Text("x"),)),
        TurnStarted((1,), turn=1),
        MessageAdded("assistant", calls, turn=1, step=1),
    ]
    for seed in range(5):
        order = list(calls)
        random.Random(seed).shuffle(order)
        session = session_of(
            *start, *(ToolFinished(ToolResult(call.id, "t", call.id), turn=1, step=1) for call in order)
        )
        assert [part.call_id for part in session.messages[-1].parts] == ["c0", "c1", "c2", "c3"]  # type: ignore[union-attr]
        assert session.open_turn is not None
        assert session.open_turn.open_calls == ()


def test_a_call_has_one_result_after_any_later_event() -> None:
    session = session_of(
        Received((Text("x"),)),
        TurnStarted((1,), turn=1),
        MessageAdded("assistant", (ToolCall("c", "t", "{}"),), turn=1, step=1),
        ToolStarted("c", turn=1, step=1),
        ToolFinished(ToolResult("c", "t", "first"), turn=1, step=1),
        ToolFinished(ToolResult("c", "t", "second"), turn=1, step=1),
    )
    assert session.open_turn is not None
    assert session.open_turn.calls == 1
    assert [part.content for part in session.messages[-1].parts] == ["first"]  # type: ignore[union-attr]
    assert len(session.messages) == 3


def test_waiting_inputs_and_an_open_turn_make_a_session_unfinished() -> None:
    waiting = session_of(Received((Text("x"),)))
    assert waiting.is_unfinished
    assert waiting.to_info().floor <= 1
    running = session_of(Received((Text("x"),)), TurnStarted((1,), turn=1))
    assert running.is_unfinished
    assert not session_of(*turn(1, 1, "x")).is_unfinished
    both = session_of(Received((Text("x"),)), TurnStarted((1,), turn=1), Received((Text("y"),)))
    assert both.to_info().floor == 1, "loading must bring the whole open turn and whatever waits"


def test_messages_are_only_ever_added() -> None:
    events = conversation(20)
    before: list[str] = []
    session = Session("s")
    for seq, event in enumerate(events, start=1):
        session.apply(seq, seq, event)
        now = [repr(message) for message in session.messages]
        assert now[: len(before)] == before
        before = now


@pytest.mark.parametrize("start", range(1, 41))
def test_a_window_cut_anywhere_begins_with_something_whole(start: int) -> None:
    events = conversation(10)
    whole = session_of(*events)
    kept = [record for record in records(*events) if record.seq >= start]
    view = Session.from_tail(SessionTail(whole.to_info(), kept, complete=False))
    if any(isinstance(record.event, TurnStarted) and record.event.inputs[0] >= start for record in kept):
        assert view.messages[0].role == "user"
        texts = [message.text for message in view.messages]
        assert texts == [message.text for message in whole.messages][-len(texts) :]
    assert (view.turns, view.message_count, view.head) == (whole.turns, whole.message_count, whole.head)


def judged_turn(number: int, at: int, provisional: Literal["held", "shown"]) -> list[Event]:
    """Two attempts; the second stands."""

    def answer(text: str, step: int) -> MessageAdded:
        return MessageAdded("assistant", (Text(text),), provisional=provisional, turn=number, step=step)

    return [
        Received((Text(f"ask {number}"),)),
        TurnStarted((at,), turn=number),
        answer("bad", 1),
        Judged((), 0.1, passed=False, tries=4, turn=number, step=1),
        MessageAdded("system", (Text("better", origin="runtime"),), turn=number, step=1),
        answer(f"good {number}", 2),
        Judged((), 0.9, passed=True, attempt=2, last=True, tries=4, turn=number, step=2),
        TurnEnded(Answered(0.9), turn=number),
    ]


@pytest.mark.parametrize("provisional", ["held", "shown"])
def test_failed_attempts_leave_with_the_turn_from_any_position_of_the_journal(
    provisional: Literal["held", "shown"],
) -> None:
    events = [event for number in range(3) for event in judged_turn(number + 1, 8 * number + 1, provisional)]
    assert [one.text for one in session_of(*events[:7]).messages] == ["ask 1", "bad", "better", "good 1"], (
        "while it lasts"
    )
    whole = session_of(*events)
    texts = [one.text for one in whole.messages]
    assert texts == ["ask 1", "good 1", "ask 2", "good 2", "ask 3", "good 3"]
    assert whole.message_count == 12
    for start in range(17):
        kept = [record for record in records(*events) if record.seq > start]
        view = Session.from_tail(SessionTail(whole.to_info(), kept, complete=False))
        assert [one.text for one in view.messages] == texts[-len(view.messages) :]
        assert len(view.messages) >= 2


def test_the_count_of_a_window_is_renewed_when_messages_left_it() -> None:
    events = judged_turn(1, 1, "held")
    session = session_of(*events[:-1])
    session.window_tokens = (4, 100, "by words")
    session.apply(8, 8000, events[-1])
    assert session.window_tokens == NO_TOKEN_COUNT


@pytest.mark.parametrize(
    ("provisional", "outcome", "kept"),
    [
        ("held", Aborted(), ["ask"]),
        ("shown", Aborted(), ["ask", "unjudged"]),
        ("held", Answered(), ["ask", "unjudged"]),
        ("", Aborted(), ["ask", "unjudged"]),
    ],
    ids=["held", "a draft", "no judges any more", "never judged"],
)
def test_an_answer_that_was_never_judged_stays_if_a_user_was_shown_it(
    provisional: Any, outcome: Any, kept: list[str]
) -> None:
    session = session_of(
        Received((Text("ask"),)),
        TurnStarted((1,), turn=1),
        MessageAdded("assistant", (Text("unjudged"),), provisional=provisional, turn=1, step=1),
        TurnEnded(outcome, turn=1),
    )
    assert [one.text for one in session.messages] == kept


def test_a_window_keeps_an_input_that_waited_before_the_cut() -> None:
    events: list[Event] = [
        *turn(1, 1, "one"),
        Received((Text("waits long"),)),  # 5
        *[Received((Text("two"),)), TurnStarted((6,), turn=2)],
        MessageAdded("assistant", (Text("re: two"),), turn=2, step=1),
        TurnEnded(Answered(), turn=2),
        TurnStarted((5,), turn=3),
    ]
    whole = session_of(*events)
    view = Session.from_tail(SessionTail(whole.to_info(), records(*events)[3:], complete=False))
    assert [message.text for message in view.messages] == ["two", "re: two", "waits long"]
    assert view.queued_inputs == {}


def test_a_fold_replaces_what_it_covers_in_the_view() -> None:
    session = session_of(*conversation(3), Folded(8, "two turns about nothing", through=2))
    assert session.summary == "two turns about nothing"
    summary, *rest = (message.text for message in session.messages)
    assert summary.startswith("[This summary stands for the earlier part of this conversation.")
    assert summary.endswith("two turns about nothing")
    assert rest == ["message 3", "re: message 3"]
    assert (session.message_count, session.to_info().fold) == (6, 13)


def test_a_fork_leaves_the_open_turn_and_what_waits_behind() -> None:
    session = session_of(*turn(1, 1, "one"), Received((Text("two"),)), TurnStarted((5,), turn=2), Forked("parent", 6))
    assert session.parent == "parent"
    assert not session.is_unfinished
    assert session.turns == 2


def test_a_steer_is_a_message_of_the_user_within_the_turn() -> None:
    session = session_of(
        Received((Text("go"),)), TurnStarted((1,), turn=1), Received((Text("left"),), "steer"), Steered((3,), turn=1)
    )
    assert [(message.role, message.text) for message in session.messages] == [("user", "go"), ("user", "left")]
    assert session.queued_inputs == {}


def test_quick_messages_are_joined_by_a_line_break_and_pictures_stay_between() -> None:
    image = Binary("image/png", b"x")
    assert join_inputs([(Text("a"),), (Text("b"), image), (Text("c"),)]) == (Text("a\nb"), image, Text("c"))
    assert join_inputs([(Text("a"),), (Text("b", origin="web"),)]) == (Text("a\n"), Text("b", origin="web"))
    assert join_inputs([(Text("a"), Text("b"))]) == (Text("a"), Text("b"))


def test_settings_survive_and_empty_ones_stay_empty() -> None:
    session = session_of(
        SessionChanged(title="A", metadata={"a": "1"}), SessionChanged(status="paused"), SessionChanged(model="x/y")
    )
    standing = session.to_info()
    assert (standing.title, standing.status, standing.model, standing.metadata) == ("A", "paused", "x/y", {"a": "1"})
    assert Session.from_tail(SessionTail(standing, [], complete=True)).to_info() == standing
