"""What the tests of people share: time that they move, and people on a store of their choice."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from mainstay.core.people import GatewayStore, Identity, Person
from mainstay.gateway.people import People
from mainstay.testing.memory_gateway import MemoryGateway

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
    store: GatewayStore | None = None,
    clock: HandClock | None = None,
    declared: Sequence[Person] = (),
    accounts: Sequence[Identity] = (),
) -> AsyncIterator[People]:
    people = People(store or MemoryGateway(), clock or HandClock(), declared, accounts)
    await people.open()
    try:
        yield people
    finally:
        await people.close()
