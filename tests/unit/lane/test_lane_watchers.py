"""Watchers get every event in order, or the number of missed ones; a turn never waits for them."""

from __future__ import annotations

import asyncio
from typing import Any

from support.kernel_world import World, virtual

from mainstay.core.events import Lagged, MessageAdded, TextDelta, TurnEnded
from mainstay.core.limits import Limits
from mainstay.core.messages import FinishReason
from mainstay.core.outcome import Answered
from mainstay.core.ports import Context, ModelInfo, Options, StreamFinished, TextPiece
from mainstay.core.tools import tool
from mainstay.lane.event_hub import EventHub
from mainstay.testing import Call, MemoryStore, Pieces, Stall


def words(count: int) -> Pieces:
    return Pieces([*(TextPiece(f"{n} ") for n in range(count)), StreamFinished(FinishReason.END)])


@virtual
async def test_a_watcher_that_does_not_read_never_delays_the_turn_and_is_told_how_much_it_missed() -> None:
    async with World([words(1000)]) as world:
        assert world.limits.watcher_buffer_max == 64
        watcher = world.hub.watch("s")
        await world.ask("count")
        total = 1000 + len(await world.records())
        watcher.close()
        heard = [event async for event in watcher]
        lagged = [event for event in heard if isinstance(event, Lagged)]
        others = [event for event in heard if not isinstance(event, Lagged)]
        assert len(others) == 64
        assert sum(event.missed for event in lagged) == total - 64
        assert isinstance(heard[-1], TurnEnded), "the end always arrives"
        assert any(isinstance(event, MessageAdded) for event in heard), "what is durable is kept before what is partial"


@virtual
async def test_a_watcher_within_its_buffer_misses_nothing() -> None:
    async with World([words(1000)], limits=Limits(watcher_buffer_max=2000)) as world:
        watcher = world.hub.watch("s")
        await world.ask("count")
        watcher.close()
        heard = [event async for event in watcher]
        assert [event.text for event in heard if isinstance(event, TextDelta)] == [f"{n} " for n in range(1000)]
        assert not any(isinstance(event, Lagged) for event in heard)


@virtual
async def test_lagged_comes_where_the_gap_is_and_what_follows_is_whole_again() -> None:
    hub = EventHub(buffer_max=4)
    watcher = hub.watch("s")
    for n in range(10):
        hub.emit("s", TextDelta(str(n)))
    reading = aiter(watcher)
    first = await anext(reading)
    assert isinstance(first, Lagged)
    assert first.missed == 6
    assert [(await anext(reading)).text for _ in range(4)] == ["0", "1", "2", "3"]  # type: ignore[attr-defined]
    hub.emit("s", TextDelta("later"))
    assert (await anext(reading)).text == "later"  # type: ignore[attr-defined]


@virtual
async def test_a_durable_event_takes_the_place_of_the_oldest() -> None:
    hub = EventHub(buffer_max=3)
    watcher = hub.watch(None)
    for n in range(3):
        hub.emit("s", TextDelta(str(n)))
    hub.emit("s", TurnEnded(Answered(), session="s", sequence=9))
    watcher.close()
    lagged, *rest = [event async for event in watcher]
    assert lagged == Lagged(1)
    assert [type(event) for event in rest] == [TextDelta, TextDelta, TurnEnded]


@virtual
async def test_one_slow_watcher_does_not_cost_another_anything() -> None:

    class Steady:
        """A word each time the loop comes round, so that a watcher who reads keeps up."""

        def model(self) -> ModelInfo:
            return ModelInfo(name="steady")

        async def close(self) -> None: ...

        async def stream(self, context: Context, options: Options) -> Any:
            for n in range(500):
                yield TextPiece(f"{n} ")
                await asyncio.sleep(0.01)
            yield StreamFinished(FinishReason.END)

    async with World(Steady()) as world:
        world.hub.watch("s")
        world.hub.watch(None)
        fast = world.watch()
        await world.ask("count")
        await fast.see(TurnEnded)
        assert [event.text for event in fast.of(TextDelta)] == [f"{n} " for n in range(500)]
        assert fast.of(Lagged) == []


@virtual
async def test_a_watcher_of_one_session_gets_that_one_and_a_watcher_of_all_gets_all() -> None:
    async with World(lambda context, options: "ok") as world:
        one, every = world.watch("a"), world.watch(None)
        await world.ask("hi", "a")
        await world.ask("hi", "b")
        await every.see(TurnEnded, 2)
        assert {event.session for event in one.events} == {"a"}
        assert {event.session for event in every.events} == {"a", "b"}


@virtual
async def test_a_watcher_that_leaves_is_forgotten() -> None:
    async with World(lambda context, options: "ok") as world:
        watchers = [world.watch("a"), world.watch("a"), world.watch(None)]
        await world.ask("hi", "a")
        for watcher in watchers:
            await watcher.leave()
        assert not world.hub.has_watchers("a")
        assert not world.hub.has_watchers("b")
        heard = len(watchers[0].events)
        await world.ask("again", "a")
        assert len(watchers[0].events) == heard
        assert world.hub._session_watchers == {}


@virtual
async def test_watchers_get_durable_events_only_after_the_commit() -> None:
    """Write, then speak: a store that takes a second for each append, and a watcher that looks into it."""

    class Slow(MemoryStore):
        def __init__(self) -> None:
            super().__init__()
            self._disk = asyncio.Lock()

        def append(self, *order: Any, synced: bool = True) -> Any:
            return asyncio.ensure_future(self._slowly(*order))

        async def _slowly(self, *order: Any) -> None:
            async with self._disk:
                await asyncio.sleep(1)
                await super().append(*order)

    @tool(untrusted=False, sink=False)
    async def act() -> str:
        return "acted"

    store = Slow()
    async with World([Call("act"), "hello", "again"], [act], store=store) as world:
        kept: list[tuple[int, int]] = []
        watcher = world.watch()
        put = watcher._watcher.push_event

        def look(event: Any) -> None:
            kept.append((event.sequence, len(store._sessions["s"].bodies) if "s" in store._sessions else 0))
            put(event)

        watcher._watcher.push_event = look  # type: ignore[method-assign]
        await world.ask("hi")
        await world.ask("hi again")
        await watcher.see(TurnEnded, 2)
        assert all(sequence <= stored for sequence, stored in kept)
        sequences = [sequence for sequence, _ in kept if sequence]
        assert sequences == sorted(sequences)
        assert sequences == [record.seq for record in await world.records()]


@virtual
async def test_a_turn_without_watchers_makes_no_partial_events() -> None:
    made: list[str] = []

    def step(context: Context, options: Options) -> Any:
        return words(100)

    async with World(step) as world:
        emit = world.hub.emit
        world.hub.emit = lambda session, event: (made.append(type(event).__name__), emit(session, event))  # type: ignore[method-assign]
        await world.ask("count")
        assert made == []


@virtual
async def test_a_late_watcher_gets_the_rest() -> None:
    stall = Stall()
    script = [Pieces([TextPiece("early "), stall, TextPiece("late"), StreamFinished(FinishReason.END)])]
    async with World(script) as world:
        ticket = await world.send("go")
        await stall.reached.wait()
        watcher = world.watch()
        stall.release()
        await ticket.reply
        await watcher.see(TurnEnded)
        assert [event.text for event in watcher.of(TextDelta)] == ["late"]
        assert watcher.of(MessageAdded)[0].parts[0].text == "early late"
