"""The store fails during a turn: waiting callers are told, and the work goes on when the store does."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import apsw
import pytest
from support.kernel_world import World, virtual

from mainstay.core.errors import HomeUnusable, MainstayError, StaleWriter, StoreCorrupt, StoreFailed, StoreFull
from mainstay.core.events import Waiting
from mainstay.core.limits import Limits
from mainstay.core.outcome import Aborted, Answered, Failed
from mainstay.core.ports import Context, Options
from mainstay.core.tools import tool
from mainstay.store.sqlite.journal_append import JournalAppend
from mainstay.store.sqlite.store import SqliteStore
from mainstay.testing import Call, MemoryStore, Stall


def gate() -> tuple[Any, asyncio.Event, asyncio.Event, list[int]]:
    began, go, ran = asyncio.Event(), asyncio.Event(), []

    @tool(timeout_s=10_000, untrusted=False, sink=False)
    async def act() -> str:
        ran.append(1)
        began.set()
        await go.wait()
        return "acted"

    return act, began, go, ran


@pytest.mark.parametrize(
    "error", [StoreFull("no space"), StoreFailed("I/O error"), HomeUnusable("read-only")], ids=repr
)
def test_f4_a_store_that_fails_in_mid_turn_notifies_waiting_callers_and_the_turn_finishes_later(
    error: Exception,
) -> None:
    @virtual
    async def check() -> None:
        act, began, go, ran = gate()
        store = MemoryStore()

        def step(context: Context, options: Options) -> Any:
            return Call("act") if context.messages[-1].role == "user" else "done"

        async with World(step, [act], store=store) as world:
            ticket = await world.send("go", id="m1")
            await began.wait()
            store.fail = error
            go.set()
            with pytest.raises(MainstayError):
                await asyncio.wait_for(asyncio.shield(ticket.reply), 60)
            await asyncio.sleep(10)
            store.fail = None
            await asyncio.wait_for(world.lanes.wait_until_settled(), 100)
            assert (await world.kinds())[-1] == "TurnEnded", "by itself, without another message"
            assert ran == [1], "no tool ran twice"
            reply = await world.ask("go", id="m1")
            assert (reply.text, reply.outcome) == ("done", Answered())
            assert (await world.kinds()).count("TurnEnded") == 1
            await world.check_replay()

    check()


@virtual
async def test_f4_a_prompt_that_cannot_be_stored_is_refused_and_not_answered() -> None:
    store = MemoryStore()
    async with World(["hello"], store=store) as world:
        store.fail = StoreFull("no space left")
        with pytest.raises(StoreFull):
            await world.ask("hi")
        assert world.provider.asked == []
        store.fail = None
        assert (await world.ask("hi")).text == "hello"
        assert (await world.kinds()).count("Received") == 1


@virtual
async def test_f4_other_sessions_are_told_too_and_all_of_them_recover() -> None:
    stalls = [Stall(f"answer {n}") for n in range(5)]

    def step(context: Context, options: Options) -> Any:
        return stalls[int(context.messages[-1].text)]

    store = MemoryStore()
    async with World(step, store=store) as world:
        tickets = [await world.send(str(n), f"s{n}") for n in range(5)]
        for stall in stalls:
            await stall.reached.wait()
        store.fail = StoreFailed("gone")
        for stall in stalls:
            stall.release()
        outcomes = await asyncio.gather(*(ticket.reply for ticket in tickets), return_exceptions=True)
        assert {type(outcome) for outcome in outcomes} == {StoreFailed}
        store.fail = None
        await world.lanes.wait_until_settled()
        for n in range(5):
            assert (await world.history(f"s{n}"))[-1].text == f"answer {n}"


@virtual
async def test_store_retry_max_s_bounds_the_wait_between_two_tries() -> None:
    store = MemoryStore()
    async with World(lambda context, options: "hello", store=store, limits=Limits(store_retry_max_s=7)) as world:
        watcher = world.watch()
        await world.send("hi")
        store.fail = StoreFailed("gone")
        await watcher.see(Waiting, 9)
        assert [event.seconds for event in watcher.of(Waiting)][:6] == [0.5, 1, 2, 4, 7, 7]
        assert watcher.of(Waiting)[0].reason == "gone"
        await asyncio.sleep(10_000)  # for very long
        store.fail = None
        await asyncio.wait_for(world.lanes.wait_until_settled(), 8)
        assert (await world.history())[-1].text == "hello"
        assert len(world.provider.asked) <= 2, "nothing is asked of a model while its answer could not be kept"


@virtual
async def test_f9_a_damaged_session_is_reported_once_and_others_keep_serving() -> None:
    class Damaged(MemoryStore):
        async def load_tail(self, key: str, bytes_max: int) -> Any:
            if key == "bad":
                raise StoreCorrupt("bad is damaged; it was left as it is")
            return await super().load_tail(key, bytes_max)

    async with World(lambda context, options: "fine", store=Damaged()) as world:
        with pytest.raises(StoreCorrupt, match="left as it is"):
            await world.ask("hi", "bad")
        assert (await world.ask("hi", "good")).text == "fine"
        await asyncio.wait_for(world.lanes.wait_until_settled(), 10)


@virtual
async def test_u18_a_session_that_another_process_wrote_to_is_read_again_and_nothing_is_overwritten() -> None:
    stall = Stall("mine")
    store = MemoryStore()
    async with World([stall, "mine again"], store=store) as world, World(["theirs"], store=store) as other:
        ticket = await world.send("one", id="m1")
        await stall.reached.wait()
        assert (await other.ask("two")).turn in (1, 2)  # takes the unfinished turn up, then its own
        stall.release()
        with pytest.raises(StaleWriter):
            await ticket.reply
        await world.lanes.wait_until_settled()
        await other.lanes.wait_until_settled()
        sequences = [record.seq for record in await world.records()]
        assert sequences == list(range(1, len(sequences) + 1))
        ended = (await world.kinds()).count("TurnEnded")
        assert ended == (await world.kinds()).count("TurnStarted")


@pytest.mark.parametrize("when", ["running", "waiting for the store"])
def test_u9_an_abort_while_the_store_fails_stops_the_turn_for_good(when: str) -> None:
    @virtual
    async def check() -> None:
        act, began, go, ran = gate()
        store = MemoryStore()
        async with World(lambda context, options: Call("act"), [act], store=store) as world:
            ticket = await world.send("go")
            await began.wait()
            store.fail = StoreFull("no space")
            if when == "running":
                with pytest.raises(StoreFailed, match="cannot be stored yet"):
                    await world.abort()
            else:
                go.set()
                with pytest.raises(StoreFull):
                    await ticket.reply
                assert await world.abort()
            asked = len(world.provider.asked)
            await asyncio.sleep(100)
            store.fail = None
            await world.lanes.wait_until_settled()
            assert len(world.provider.asked) == asked, "the model was not asked again"
            assert ran == [1]
            assert (await world.journal())[-1].outcome == Aborted()
            (result,) = await world.results()
            assert result.is_error
            await world.check_replay()

    check()


async def test_f56_a_turn_whose_usage_cannot_be_stored_ends_as_failed_and_the_session_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No retry helps: with one, the model would be called and paid again and again."""
    execute = JournalAppend.execute

    def overflow(append: JournalAppend, db: apsw.Connection) -> None:
        if any(b'"absurd"' in body for body in append.events):
            raise OverflowError
        execute(append, db)

    monkeypatch.setattr(JournalAppend, "execute", overflow)
    async with World(["absurd", "fine"], store=SqliteStore(str(tmp_path / "workspace.db"))) as world:
        reply = await asyncio.wait_for(world.ask("go", id="m1"), 60)
        assert isinstance(reply.outcome, Failed)
        assert "64 bits" in reply.text
        assert (await asyncio.wait_for(world.ask("and now?"), 60)).text == "fine"
        assert len(world.provider.asked) == 2
