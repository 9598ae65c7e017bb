"""Encoding of answers: text that only grows, remembered conversations, and ids."""

from __future__ import annotations

import pytest

from mainstay.core.events import (
    ApprovalAnswered,
    ApprovalAsked,
    Event,
    Lagged,
    MessageAdded,
    StepRestarted,
    TextDelta,
    ToolFinished,
    TurnEnded,
)
from mainstay.core.messages import Text, ToolResult, Usage
from mainstay.core.outcome import Answered, Exhausted
from mainstay.server.openai.common_request import ClientMessage, ClientToolCall, history_digest
from mainstay.server.openai.conversation_cache import BoundedCache, ConversationCache
from mainstay.server.openai.ids import (
    ResponsePosition,
    format_response_id,
    from_client_call_id,
    parse_response_id,
    to_client_call_id,
)
from mainstay.server.openai.turn_answer import FINAL_ANSWER_NOTE, RESTART_NOTE, OpenAIAnswer

ANN, BOB = ("home", "ann"), ("home", "bob")


def said(text: str, step: int = 1, usage: Usage | None = None) -> MessageAdded:
    return MessageAdded("assistant", (Text(text),), usage=usage, turn=1, step=step)


def delta(text: str, step: int = 1) -> TextDelta:
    return TextDelta(text, turn=1, step=step)


def answer_text(*events: Event, late: bool = False) -> str:
    answer = OpenAIAnswer("s", is_late=late)
    told = "".join(answer.handle_event(event) for event in events) + answer.finish()
    assert told == answer.text
    return told


@pytest.mark.parametrize("late", [False, True])
def test_streamed_text_is_not_repeated_when_it_is_recorded(late: bool) -> None:
    assert answer_text(delta("Hel"), delta("lo"), said("Hello"), late=late) == "Hello"


def test_unstreamed_text_is_sent_when_it_is_recorded() -> None:
    assert answer_text(said("Hello")) == "Hello"
    assert answer_text(delta("Hel"), Lagged(2), delta("you"), said("Hello, you")) == "Hello, you"


def test_text_that_arrives_after_the_end_of_its_step_is_not_sent_twice() -> None:
    assert answer_text(said("Hello"), delta("Hel"), delta("lo")) == "Hello"


def test_steps_are_separated() -> None:
    assert answer_text(delta("a"), said("a"), delta("b", 2), said("b", 2), said("c", 3)) == "a\n\nb\n\nc"


def test_an_answer_that_restarts_says_so_because_streamed_text_cannot_be_withdrawn() -> None:
    assert answer_text(delta("Hel"), StepRestarted(turn=1), delta("Hi"), said("Hi")) == f"Hel{RESTART_NOTE}\n\nHi"
    assert answer_text(StepRestarted(turn=1), delta("Hi"), said("Hi")) == "Hi"


def test_an_answer_recorded_differently_is_sent_as_recorded() -> None:
    assert answer_text(delta("Hello"), said("Bye")) == f"Hello{FINAL_ANSWER_NOTE}Bye"


def test_an_answer_that_goes_on_with_a_result_begins_after_it() -> None:
    asked = ApprovalAsked("q1", "c1", "weather", "{}", client=True, turn=1, step=1)
    answer = OpenAIAnswer("s", "c1")
    usage = Usage(prompt=5, completion=2)
    before = (said("Let me see.", usage=usage), asked, ApprovalAnswered("q1", "approved", result="rain", turn=1))
    for event in (*before, ToolFinished(ToolResult("c1", "weather", "rain"), turn=1), said("Rain.", 2, usage)):
        answer.handle_event(event)
    assert (answer.text, answer.usage, answer.is_complete) == ("Rain.", usage, False)
    answer.handle_event(TurnEnded(Answered(), turn=1))
    assert (answer.is_complete, answer.finish_reason) == (True, "stop")


def test_a_bound_that_was_hit_is_a_length() -> None:
    answer = OpenAIAnswer("s")
    answer.handle_event(said("That is all I could do."))
    answer.handle_event(TurnEnded(Exhausted("steps"), turn=1))
    assert answer.finish_reason == "length"


def test_a_call_is_known_to_clients_by_an_id_that_is_unique_everywhere() -> None:
    one, two = to_client_call_id("s", "call_1_1_0"), to_client_call_id("t", "call_1_1_0")
    assert one != two
    assert from_client_call_id("s", one) == from_client_call_id("t", two) == "call_1_1_0"
    assert from_client_call_id("s", two) == two


def test_a_response_id_is_useless_to_another_person() -> None:
    spot = ResponsePosition("desk", 4, "c1", 1_700_000_000)
    id = format_response_id(ANN, spot)
    assert parse_response_id(ANN, id) == spot
    for who in (BOB, ("away", "ann"), ("", "")):
        assert parse_response_id(who, id) is None
    for wrong in (
        "",
        "resp_",
        "resp_!",
        id[:-2],
        id + "A",
        "x" + id,
        "resp_" + "A" * 5000,
        id.replace("resp_", "rsp_"),
    ):
        assert parse_response_id(ANN, wrong) is None, wrong


def test_a_history_is_found_once_by_the_client_that_sent_it() -> None:
    memory = ConversationCache()
    told = (ClientMessage(role="user", parts=(Text("a"),)), ClientMessage(role="assistant", parts=(Text("b"),)))
    memory.save_session(ANN, told, "s")
    assert memory.take_session(BOB, told) is None
    assert memory.take_session(ANN, told[:1]) is None
    assert memory.take_session(ANN, told) == "s"
    assert memory.take_session(ANN, told) is None
    assert memory.take_session(ANN, ()) is None


def test_a_history_is_the_same_however_a_client_tells_it() -> None:
    call = (ClientToolCall("c1", "weather"),)
    apart = (ClientMessage(role="assistant", parts=(Text("Let me see."),)), ClientMessage(role="assistant", calls=call))
    together = (ClientMessage(role="assistant", parts=(Text("Let me see."),), calls=call),)
    assert (
        history_digest(apart)
        == history_digest(together)
        == history_digest((ClientMessage(role="assistant", calls=call),))
    )
    assert history_digest((ClientMessage(role="user", parts=(Text(" a\n"),)),)) == history_digest(
        (ClientMessage(role="user", parts=(Text("a"),)),)
    )
    assert history_digest((ClientMessage(role="user", parts=(Text("a"),)),)) != history_digest(
        (ClientMessage(role="assistant", parts=(Text("a"),)),)
    )


def test_memory_is_bounded_and_forgets_the_oldest() -> None:
    newest: BoundedCache[int, int] = BoundedCache(3)
    for number in range(10):
        newest.put(number, number)
    assert len(newest) == 3
    assert [newest.get(number) for number in (6, 7, 9)] == [None, 7, 9]
