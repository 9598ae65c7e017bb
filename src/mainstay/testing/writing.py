"""What the suites write with: a session and a store in step."""

from __future__ import annotations

from mainstay.core.events import Event, MessageAdded, Received, TurnEnded, TurnStarted
from mainstay.core.journal import encode
from mainstay.core.messages import Text
from mainstay.core.outcome import Answered
from mainstay.core.ports import Once, Store
from mainstay.core.session import Session


class Writing:
    """A session and a store, kept in step the way a lane does it."""

    def __init__(self, store: Store, key: str) -> None:
        self.store = store
        self.view = Session(key)

    async def add(self, *events: Event, once: Once | None = None) -> None:
        expected = self.view.head
        for event in events:
            self.view.apply(self.view.head + 1, 1_000 + self.view.head, event)
        await self.store.append(self.view.standing(), expected, [encode(event) for event in events], once)

    async def turn(self, text: str) -> None:
        number = self.view.turns + 1
        await self.add(Received((Text(text),)))
        await self.add(
            TurnStarted((self.view.head,), turn=number),
            MessageAdded("assistant", (Text(f"re: {text}"),), turn=number, step=1),
            TurnEnded(Answered(), turn=number),
        )


async def expect(kind: type[Exception], work: object) -> Exception:
    try:
        await work  # type: ignore[misc]
    except kind as error:
        return error
    raise AssertionError(f"{kind.__name__} was expected")
