"""Writes to a session that is changed outside its lane, or whose lane becomes idle meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence
from typing import Any

import pytest
from support.kernel_world import World, envelope, virtual

from mainstay.core.errors import SessionUnknown, StaleWriter
from mainstay.core.events import SessionChanged
from mainstay.core.limits import Limits
from mainstay.core.ports import IdempotencyKey, SessionInfo
from mainstay.testing import MemoryStore


class SlowStore(MemoryStore):
    """A store whose appends wait until they are let through."""

    def __init__(self) -> None:
        super().__init__()
        self.open_gate = asyncio.Event()
        self.open_gate.set()
        self.waiting = asyncio.Event()

    def append(
        self,
        info: SessionInfo,
        expected: int,
        events: Sequence[bytes],
        idempotency_key: IdempotencyKey | None = None,
        *,
        synced: bool = True,
    ) -> Awaitable[None]:
        parts = (info, expected, events, idempotency_key)
        if self.open_gate.is_set():
            return super().append(*parts, synced=synced)
        return asyncio.ensure_future(self._append_later(*parts))

    async def _append_later(self, *parts: Any) -> None:
        self.waiting.set()
        await self.open_gate.wait()
        self._append(*parts)


@virtual
async def test_a_lane_is_not_dropped_while_a_change_is_being_stored() -> None:
    store = SlowStore()
    async with World(lambda context, options: "fine", store=store, limits=Limits(lane_idle_s=1.0)) as world:
        await world.ask("hi")
        store.open_gate.clear()
        change = asyncio.ensure_future(world.lanes.get("s").record_changes(SessionChanged(model="m")))
        await store.waiting.wait()
        await asyncio.sleep(100)  # much longer than an idle lane is kept
        assert len(world.lanes) == 1
        prompt = asyncio.ensure_future(world.ask("and now?"))
        await asyncio.sleep(1)
        store.open_gate.set()
        await change
        assert (await prompt).text == "fine"
        await asyncio.sleep(100)
        assert len(world.lanes) == 0
        assert (await world.lanes.get("s").load_session()).model == "m"


@virtual
async def test_a_lane_in_use_is_not_idle() -> None:
    async with World(lambda context, options: "fine", limits=Limits(lane_idle_s=10.0)) as world:
        await world.ask("hi")
        for _ in range(20):
            await asyncio.sleep(4)
            lane = world.lanes.get("s")
        assert world.lanes.get("s") is lane


@pytest.mark.parametrize("kind", ["change", "prompt", "overheard"])
def test_a_conflicting_write_is_read_and_the_own_write_repeated(kind: str) -> None:
    @virtual
    async def check() -> None:
        store = MemoryStore()
        async with World(lambda c, o: "mine", store=store) as world, World(lambda c, o: "theirs", store=store) as other:
            assert (await world.ask("one")).text == "mine"
            assert (await other.ask("two")).text == "theirs"
            if kind == "change":
                await world.lanes.get("s").record_changes(SessionChanged(title="a name"))
            elif kind == "prompt":
                assert (await world.ask("three")).turn == 3
            else:
                assert await world.lanes.get("s").overhear(envelope("three", id="m3"))
            sequences = [record.seq for record in await world.records()]
            assert sequences == list(range(1, len(sequences) + 1))
            texts = [message.text for message in (await world.lanes.get("s").load_session()).messages]
            assert texts[:4] == ["one", "mine", "two", "theirs"]

    check()


@virtual
async def test_a_session_that_is_refreshed_just_when_it_was_loaded_keeps_the_change() -> None:
    store = MemoryStore()
    async with World(lambda context, options: "fine", store=store) as before:
        await before.ask("hi")
    async with World([], store=store) as world:
        lane = world.lanes.get("s")
        change = asyncio.ensure_future(lane.record_changes(SessionChanged(title="a name")))
        await asyncio.sleep(0)
        assert lane._loading is not None
        lane._loading.add_done_callback(lambda loading: lane.refresh())  # called before the change goes on
        await change
        assert (await lane.load_session()).title == "a name"


@virtual
async def test_an_endless_race_is_given_up_after_some_attempts() -> None:
    class Contended(MemoryStore):
        attempts = 0

        def _append(self, *parts: Any) -> None:
            self.attempts += 1
            raise StaleWriter("another writer was faster")

    store = Contended()
    async with World([], store=store) as world:
        with pytest.raises(StaleWriter):
            await world.lanes.get("s").record_changes(SessionChanged(title="a name"))
        assert store.attempts == 5


@virtual
async def test_an_ended_lane_says_why_it_ended() -> None:
    async with World(lambda context, options: "fine") as world:
        await world.ask("hi")
        lane = world.lanes.get("s")
        await lane.end(SessionUnknown("session 's' was deleted"))
        for _ in range(2):
            with pytest.raises(SessionUnknown, match="was deleted"):
                await lane.record_changes(SessionChanged(title="a name"))
        assert world.lanes.get("s") is lane
        world.lanes.drop("s")
        assert world.lanes.get("s") is not lane
        world.lanes.drop("s")  # the new one is not closed, so it stays
        assert len(world.lanes) == 1
