"""Helpers of the conformance suites: writes sessions to a store, and expects exceptions."""

from __future__ import annotations

from mainstay.core.events import Event, MessageAdded, Received, TurnEnded, TurnStarted
from mainstay.core.journal import encode_event
from mainstay.core.messages import Text
from mainstay.core.outcome import Answered
from mainstay.core.ports import IdempotencyKey, Store
from mainstay.core.session import Session


class SessionWriter:
    """Writes events of a session to a store and applies them to the session's view, as a lane does."""

    def __init__(self, store: Store, key: str) -> None:
        self.store = store
        self.session = Session(key)

    async def append(self, *events: Event, idempotency_key: IdempotencyKey | None = None) -> None:
        expected = self.session.head
        for event in events:
            self.session.apply(self.session.head + 1, 1_000 + self.session.head, event)
        await self.store.append(
            self.session.to_info(), expected, [encode_event(event) for event in events], idempotency_key
        )

    async def write_turn(self, text: str) -> None:
        turn = self.session.turns + 1
        await self.append(Received((Text(text),)))
        await self.append(
            TurnStarted((self.session.head,), turn=turn),
            MessageAdded("assistant", (Text(f"re: {text}"),), turn=turn, step=1),
            TurnEnded(Answered(), turn=turn),
        )


async def expect_error(error_type: type[Exception], awaitable: object) -> Exception:
    """Await and return the exception of this type; raises AssertionError if there was none."""
    try:
        await awaitable  # type: ignore[misc]
    except error_type as error:
        return error
    raise AssertionError(f"{error_type.__name__} was expected")
