"""Where something happens, for whoever has something to say."""

from __future__ import annotations

import asyncio

from mainstay.core.where import Spot, Where, here
from mainstay.core.workers import in_thread


async def test_it_is_known_within_the_block_and_in_what_is_begun_there() -> None:
    steps = iter(range(1, 10))
    with Spot(lambda: Where("s", 1, next(steps))):
        assert here() == Where("s", 1, 1)
        assert await asyncio.create_task(_asked()) == Where("s", 1, 2), "as it is when somebody asks"
        assert await in_thread(here) == Where("s", 1, 3)
    assert here() is None


async def test_what_outlives_the_block_is_nowhere_afterwards() -> None:
    over = asyncio.Event()

    async def connection() -> Where | None:
        await over.wait()
        return here()

    with Spot(lambda: Where("s", 1)):
        task = asyncio.create_task(connection())
    over.set()
    assert await task is None


async def test_a_block_within_another_counts_until_it_ends() -> None:
    with Spot(lambda: Where("parent")):
        with Spot(lambda: Where("child")):
            assert here() == Where("child")
        assert here() == Where("parent")


def test_nothing_is_worked_out_until_somebody_asks() -> None:
    def look() -> Where:
        raise AssertionError("nobody asked")

    with Spot(look):
        pass


async def _asked() -> Where | None:
    return here()
