"""Polling an iterator, and the queue of waiting connections."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mainstay.server.connection_limits import ConnectionLimiter, ConnectionLimits
from mainstay.server.pollable_iterator import PollableIterator


class Source:
    """Gives what it was handed; what is None has to be waited for."""

    def __init__(self) -> None:
        self.queue: asyncio.Queue[int] = asyncio.Queue()
        self.ended = False

    async def items(self) -> AsyncIterator[int]:
        try:
            while True:
                yield await self.queue.get() if self.queue.empty() else self.queue.get_nowait()
        finally:
            await asyncio.sleep(0)  # it has something to tidy up
            self.ended = True


async def test_available_items_are_taken_and_the_rest_is_waited_for() -> None:
    source = Source()
    ready = PollableIterator(source.items())
    for number in (1, 2, 3):
        source.queue.put_nowait(number)
    assert [ready.poll() for _ in range(5)] == [1, 2, 3, None, None]
    waiting = asyncio.ensure_future(_waited(ready))
    await asyncio.sleep(0)
    source.queue.put_nowait(4)
    assert await waiting == 4
    source.queue.put_nowait(5)
    assert ready.poll() == 5
    await ready.aclose()
    assert source.ended


async def _waited(ready: PollableIterator[int]) -> int:
    return await ready.wait_next()


async def test_a_step_that_was_begun_can_be_left() -> None:
    source = Source()
    ready = PollableIterator(source.items())
    assert ready.poll() is None
    await ready.aclose()
    assert source.ended


async def test_a_cancelled_waiter_stops_the_source() -> None:
    source = Source()
    ready = PollableIterator(source.items())
    assert ready.poll() is None
    waiting = asyncio.ensure_future(_waited(ready))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert source.ended
    with pytest.raises(StopAsyncIteration):
        ready.poll()


async def test_an_end_and_an_error_come_through() -> None:
    async def short() -> AsyncIterator[int]:
        yield 1
        await asyncio.sleep(0)
        raise KeyError("x")

    ready = PollableIterator(short())
    assert ready.poll() == 1
    assert ready.poll() is None
    with pytest.raises(KeyError):
        await ready.wait_next()
    with pytest.raises(StopAsyncIteration):
        ready.poll()


class One:
    def __init__(self) -> None:
        self.gone = False

    def evict(self) -> None:
        self.gone = True


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.sampled_from("awcl"), st.integers(0, 9), st.sampled_from("xyz")), max_size=80))
def test_many_connections_are_counted_exactly_and_only_waiting_ones_are_closed(
    steps: list[tuple[str, int, str]],
) -> None:
    bounds = ConnectionLimits(connections_max=6, connections_per_address_max=3)
    crowd = ConnectionLimiter(bounds)
    inside: dict[int, tuple[One, str]] = {}
    waiting: list[int] = []
    for what, number, address in steps:
        before = {key: one for key, (one, _) in inside.items()}
        if what == "a" and number not in inside:
            one = One()
            admitted = crowd.admit(one, address)
            inside[number] = (one, address)
            if not admitted:  # it is told so, and leaves
                crowd.remove(one)
                del inside[number]
        elif what == "w" and number in inside:
            crowd.mark_waiting(inside[number][0])
            waiting = [*waiting, number] if number not in waiting else waiting
        elif what == "c" and number in inside:
            crowd.unmark_waiting(inside[number][0])
            waiting = [key for key in waiting if key != number]
        elif what == "l" and number in inside:
            crowd.remove(inside.pop(number)[0])
            waiting = [key for key in waiting if key != number]
        gone = [key for key, one in before.items() if one.gone and key in inside]
        assert all(key in waiting for key in gone)
        for key in gone:
            del inside[key]
            waiting.remove(key)
        assert len(crowd) == len(inside) <= bounds.connections_max
        for where in "xyz":
            assert sum(at == where for _, at in inside.values()) <= bounds.connections_per_address_max


def test_the_longest_waiting_goes_first() -> None:
    crowd = ConnectionLimiter(ConnectionLimits(connections_max=2, connections_per_address_max=2))
    first, second, third = One(), One(), One()
    for one in (first, second):
        assert crowd.admit(one, "x")
    crowd.mark_waiting(second)
    crowd.mark_waiting(first)
    assert crowd.admit(third, "y")
    assert (first.gone, second.gone) == (False, True)
