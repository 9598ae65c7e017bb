"""Shared by the tests of people: a clock that tests move, and people on any store."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from mainstay.core.people import ChannelIdentity, PeopleStore, Person
from mainstay.gateway.people import People
from mainstay.store.memory.people_store import InMemoryPeopleStore

START_MS = 1_767_225_600_000
MINUTE_MS = 60_000


class HandClock:
    """Stands still until it is moved."""

    def __init__(self) -> None:
        self.ms = START_MS

    def now_ms(self) -> int:
        return self.ms

    def monotonic(self) -> float:
        return self.ms / 1000

    async def sleep(self, seconds: float) -> None:
        raise AssertionError("nobody sleeps here")

    def pass_minutes(self, minutes: float) -> None:
        self.ms += int(minutes * MINUTE_MS)


@asynccontextmanager
async def opened(
    store: PeopleStore | None = None,
    clock: HandClock | None = None,
    declared: Sequence[Person] = (),
    accounts: Sequence[ChannelIdentity] = (),
) -> AsyncIterator[People]:
    people = People(store or InMemoryPeopleStore(), clock or HandClock(), declared, accounts)
    await people.open()
    try:
        yield people
    finally:
        await people.close()
