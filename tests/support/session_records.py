"""Sessions made of short messages, for the tests of contexts and exports."""

from __future__ import annotations

from mainstay.core.events import Event, MessageAdded, Received, ToolFinished, TurnEnded, TurnStarted
from mainstay.core.messages import Text, ToolCall, ToolResult
from mainstay.core.outcome import Answered
from mainstay.core.session import Session


class Talk:
    def __init__(self) -> None:
        self.session = Session("s")
        self.records: list[tuple[int, Event]] = []

    def add(self, *events: Event) -> None:
        for event in events:
            seq = self.session.head + 1
            self.records.append((seq, event))
            self.session.apply(seq, 0, event)

    def ask(self, text: str) -> int:
        """A turn begins; its number."""
        number = self.session.turns + 1
        self.add(Received((Text(text),)))
        self.add(TurnStarted((self.session.head,), turn=number))
        return number

    def call(self, *contents: str, input: str = "{}") -> None:
        """A step that calls tools, and their results."""
        turn = self.session.open_turn
        assert turn is not None
        step = turn.step + 1
        calls = tuple(ToolCall(f"call_{turn.turn}_{step}_{n}", "look", input) for n in range(len(contents)))
        self.add(MessageAdded("assistant", calls, turn=turn.turn, step=step))
        for call, content in zip(calls, contents, strict=True):
            self.add(ToolFinished(ToolResult(call.id, "look", content), turn=turn.turn, step=step))

    def answer(self, text: str) -> None:
        turn = self.session.open_turn
        assert turn is not None
        self.add(
            MessageAdded("assistant", (Text(text),), turn=turn.turn, step=turn.step + 1),
            TurnEnded(Answered(), turn=turn.turn),
        )

    def turn(self, text: str, *results: str, answer: str = "done") -> None:
        self.ask(text)
        if results:
            self.call(*results)
        self.answer(answer)

    def again(self) -> Session:
        """The same session, read back."""
        session = Session("s")
        for seq, event in self.records:
            session.apply(seq, 0, event)
        return session
