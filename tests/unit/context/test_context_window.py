"""What the model will see: compiled from the session, whole turns, and the same bytes for as long as possible."""

from __future__ import annotations

import pytest

from mainstay.context.compile import budget, compile_context
from mainstay.context.window import FULL, RELIEVED, fit, weigh
from mainstay.core.events import Event, Folded, MessageAdded, Received, ToolFinished, TurnEnded, TurnStarted
from mainstay.core.messages import Binary, Message, Text, Thinking, ToolCall, ToolResult
from mainstay.core.outcome import Answered
from mainstay.core.ports import ModelInfo
from mainstay.core.session import Session


class Talk:
    def __init__(self) -> None:
        self.session = Session("s")

    def add(self, *events: Event) -> None:
        for event in events:
            self.session.apply(self.session.head + 1, 0, event)

    def turn(self, size: int, *, calls: int = 0) -> None:
        number = self.session.turns + 1
        self.add(Received((Text(f"{number} " + "x" * size),)))
        self.add(TurnStarted((self.session.head,), turn=number))
        if calls:
            made = tuple(ToolCall(f"c{number}_{n}", "t", "{}") for n in range(calls))
            self.add(MessageAdded("assistant", made, turn=number, step=1))
            self.add(*(ToolFinished(ToolResult(call.id, "t", "y" * size), turn=number, step=1) for call in made))
        self.add(
            MessageAdded("assistant", (Text("z" * size),), turn=number, step=2), TurnEnded(Answered(), turn=number)
        )


def test_the_budget_is_the_window_less_a_reserve_that_shrinks_with_it() -> None:
    assert budget(ModelInfo(name="m", window=128_000)) == 128_000 - 16_384
    assert budget(ModelInfo(name="m", window=4096)) == 3072


def test_a_history_that_fits_is_shown_whole() -> None:
    talk = Talk()
    for _ in range(5):
        talk.turn(100)
    assert fit(talk.session, 10_000) == talk.session.messages
    assert len(talk.session.messages) == 10


@pytest.mark.parametrize("calls", [0, 3])
def test_what_is_dropped_is_the_oldest_and_whole_turns(calls: int) -> None:
    talk = Talk()
    for _ in range(60):
        talk.turn(300, calls=calls)
        shown = fit(talk.session, 3000)
        assert shown[0].role == "user"
        assert shown[-1].text.startswith("z")
        assert sum(weigh(message) for message in shown) <= 3000 * FULL or len(shown) <= 2 + 2 * bool(calls)
        open_calls: set[str] = set()
        for message in shown:
            open_calls |= {call.id for call in message.calls}
            open_calls -= {part.call_id for part in message.parts if isinstance(part, ToolResult)}
        assert open_calls == set(), "every call that is shown has its result"
    assert talk.session.message_count == 60 * (4 if calls else 2), "the session itself has lost nothing"


def test_between_two_moves_every_request_begins_with_the_same_messages() -> None:
    talk, firsts, moves = Talk(), [], 0
    for _ in range(200):
        talk.turn(300)
        first = fit(talk.session, 6000)[0].id
        moves += bool(firsts) and first != firsts[-1]
        firsts.append(first)
    per_turn = weigh(talk.session.messages[-1]) + weigh(talk.session.messages[-2])
    between = 6000 * (FULL - RELIEVED) / per_turn
    assert moves <= 200 / between + 1
    assert moves >= 5


def test_the_newest_turn_is_shown_even_if_it_alone_is_too_large() -> None:
    talk = Talk()
    talk.turn(100)
    talk.turn(100_000)
    shown = fit(talk.session, 1000)
    assert [message.role for message in shown] == ["user", "assistant"]
    assert shown[0].text.startswith("2 ")


def test_weights_count_what_is_sent() -> None:
    def weight(*parts: object) -> int:
        return weigh(Message(1, "user", parts))  # type: ignore[arg-type]

    assert weight(Text("x" * 1000)) == 304
    assert weight(Text("é" * 1000)) == 604, "bytes, not characters"
    assert weight(Thinking("x" * 1000)) == 304
    assert weight(ToolCall("c", "n" * 10, "x" * 970)) == 304
    assert weight(ToolResult("c", "n", "x" * 980)) == 304
    assert weight(Binary("image/png", b"x" * 10_000_000)) == 1604


def test_instructions_come_first_then_the_summary_then_the_recent() -> None:
    talk = Talk()
    talk.turn(10)
    talk.add(Folded(talk.session.head, "They talked about x."))
    talk.turn(10)
    model = ModelInfo(name="m")
    context = compile_context(talk.session, instructions="Be kind.", tools=(), model=model)
    assert context.system == "Be kind.\n\n# The conversation so far\n\nThey talked about x."
    assert [message.text[:2] for message in context.messages] == ["2 ", "zz"]
    plain = compile_context(Talk().session, instructions="Be kind.", tools=(), model=model)
    assert (plain.system, list(plain.messages)) == ("Be kind.", [])
