"""The location (session, turn, step) of the running code, for logs and errors."""

from __future__ import annotations

import asyncio

from mainstay.core.turn_location import TurnLocation, TurnLocationContext, current_location
from mainstay.core.worker_threads import run_in_thread


async def test_it_is_known_within_the_block_and_in_what_is_begun_there() -> None:
    steps = iter(range(1, 10))
    with TurnLocationContext(lambda: TurnLocation("s", 1, next(steps))):
        assert current_location() == TurnLocation("s", 1, 1)
        assert await asyncio.create_task(_asked()) == TurnLocation("s", 1, 2), "as it is when somebody asks"
        assert await run_in_thread(current_location) == TurnLocation("s", 1, 3)
    assert current_location() is None


async def test_a_task_that_outlives_the_block_has_no_location_afterwards() -> None:
    over = asyncio.Event()

    async def connection() -> TurnLocation | None:
        await over.wait()
        return current_location()

    with TurnLocationContext(lambda: TurnLocation("s", 1)):
        task = asyncio.create_task(connection())
    over.set()
    assert await task is None


async def test_a_block_within_another_counts_until_it_ends() -> None:
    with TurnLocationContext(lambda: TurnLocation("parent")):
        with TurnLocationContext(lambda: TurnLocation("child")):
            assert current_location() == TurnLocation("child")
        assert current_location() == TurnLocation("parent")


def test_nothing_is_computed_before_a_read() -> None:
    def look() -> TurnLocation:
        raise AssertionError("nobody asked")

    with TurnLocationContext(look):
        pass


async def _asked() -> TurnLocation | None:
    return current_location()
