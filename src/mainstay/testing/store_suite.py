"""What every Store must do. Subclass it, say how to make one, and let your test runner find the tests.

class TestMyStore(StoreSuite):
    async def make(self, where: Path) -> Store: ...
"""

from __future__ import annotations

import asyncio
from pathlib import Path

from mainstay.core.errors import DuplicateInput, SessionUnknown, StaleWriter, StoreError
from mainstay.core.events import Folded, Forked, MessageAdded, Received, SessionChanged, TurnStarted
from mainstay.core.journal import encode
from mainstay.core.messages import Text
from mainstay.core.ports import Once, Store
from mainstay.core.session import Session
from mainstay.testing.forgetting_suite import ForgettingSuite
from mainstay.testing.writing import Writing as Writing
from mainstay.testing.writing import expect


class StoreSuite(ForgettingSuite):
    """Everything that a store promises; `make` is the one thing a subclass must say."""

    async def test_what_was_appended_is_read_back_in_order(self, tmp_path: Path) -> None:
        store = await self.make(tmp_path)
        writing = Writing(store, "a")
        await writing.turn("one")
        await writing.turn("two")
        records = await store.read("a")
        assert [record.seq for record in records] == list(range(1, 9))
        assert [type(record.event).__name__ for record in records[:4]] == [
            "Received",
            "TurnStarted",
            "MessageAdded",
            "TurnEnded",
        ]
        assert [record.seq for record in await store.read("a", after=6)] == [7, 8]
        assert [record.seq for record in await store.read("a", after=2, limit=3)] == [3, 4, 5]
        await store.close()

    async def test_a_stale_writer_is_refused_and_changes_nothing(self, tmp_path: Path) -> None:
        store = await self.make(tmp_path)
        await Writing(store, "a").add(Received((Text("mine"),)))
        for _ in range(2):
            await expect(StaleWriter, Writing(store, "a").add(Received((Text("yours"),))))
        assert len(await store.read("a")) == 1
        gap = Session("a")
        gap.head = 7
        await expect(StaleWriter, _awaitable(store, gap, 6))
        assert len(await store.read("a")) == 1
        await store.close()

    async def test_an_input_with_an_id_is_accepted_once(self, tmp_path: Path) -> None:
        store = await self.make(tmp_path)
        writing = Writing(store, "a")
        await writing.add(Received((Text("hi"),), id="m1"), once=Once("m1", "digest"))
        assert await store.seen("a", "m1") == (1, "digest")
        assert await store.seen("a", "m2") is None
        assert await store.seen("b", "m1") is None
        again = Writing(store, "a")
        again.view.head = 1
        error = await expect(DuplicateInput, again.add(Received((Text("hi"),), id="m1"), once=Once("m1", "digest")))
        assert error.sequence == 1  # type: ignore[attr-defined]
        assert error.same  # type: ignore[attr-defined]
        again.view.head = 1
        other = await expect(DuplicateInput, again.add(Received((Text("yo"),), id="m1"), once=Once("m1", "other")))
        assert not other.same  # type: ignore[attr-defined]
        assert len(await store.read("a")) == 1
        await store.close()

    async def test_one_failed_append_does_not_harm_its_neighbours(self, tmp_path: Path) -> None:
        store = await self.make(tmp_path)
        writers = [Writing(store, f"s{number}") for number in range(20)]
        await writers[7].turn("ahead")
        stale = Writing(store, "s7")
        writers[7] = stale
        results = await asyncio.gather(
            *(writer.add(Received((Text("x"),))) for writer in writers), return_exceptions=True
        )
        assert [type(result) for result in results if result is not None] == [StaleWriter]
        assert len(await store.unfinished()) == 19
        await store.close()

    async def test_loading_brings_the_newest_whole_and_says_if_there_is_more(self, tmp_path: Path) -> None:
        store = await self.make(tmp_path)
        writing = Writing(store, "a")
        for number in range(400):
            await writing.turn(f"message {number}")
        whole = await store.load("a", 10**9)
        assert whole is not None
        assert whole.complete
        assert len(whole.records) == 1600
        part = await store.load("a", 1000)
        assert part is not None
        assert not part.complete
        assert part.records[-1].seq == 1600
        assert len(part.records) < 600
        assert [r.seq for r in part.records] == list(range(part.records[0].seq, 1601))
        view = Session.of(part)
        assert view.messages[0].role == "user"
        assert view.message_count == 800
        assert await store.load("nobody", 1000) is None
        await store.close()

    async def test_loading_reads_from_the_last_fold(self, tmp_path: Path) -> None:
        store = await self.make(tmp_path)
        writing = Writing(store, "a")
        for number in range(10):
            await writing.turn(f"message {number}")
        await writing.add(Folded(20, "the first five", through=5))
        await writing.turn("after")
        tail = await store.load("a", 10**9)
        assert tail is not None
        assert tail.records[0].seq == 21
        view = Session.of(tail)
        assert view.summary == "the first five"
        assert [message.text for message in view.messages[1:3]] == ["message 5", "re: message 5"]
        await store.close()

    async def test_after_a_fold_everything_is_loaded_however_large(self, tmp_path: Path) -> None:
        store = await self.make(tmp_path)
        writing = Writing(store, "a")
        await writing.turn("folded")
        await writing.add(Folded(4, "the first", through=1))
        for number in range(200):
            await writing.turn(f"message {number} " + "x" * 200)
        tail = await store.load("a", 1_000)
        assert tail is not None
        assert tail.complete
        assert [record.seq for record in tail.records] == list(range(5, writing.view.head + 1))
        await store.close()

    async def test_the_fixed_section_is_found_wherever_it_stands(self, tmp_path: Path) -> None:
        store = await self.make(tmp_path)
        writing = Writing(store, "a")
        await writing.turn("before")
        await writing.add(SessionChanged(instructions="be kind", profile={"name": "Ana"}))
        for number in range(300):
            await writing.turn(f"message {number} " + "x" * 50)
        await writing.add(SessionChanged(amended="be kinder"))
        short = await store.load("a", 1_000)
        assert short is not None
        assert [record.seq for record in short.landmarks] == [5]
        assert isinstance(short.landmarks[0].event, SessionChanged)
        whole = await store.load("a", 10**9)
        assert whole is not None
        assert whole.landmarks == []
        for tail in (short, whole):
            view = Session.of(tail)
            assert (view.instructions, view.amendment, view.fixed) == ("be kind", "be kinder", 5)
            assert view.profile == {"name": "Ana"}
        for number in range(300):
            await writing.turn(f"message {number} " + "x" * 50)
        later = await store.load("a", 1_000)
        assert later is not None
        assert [record.seq for record in later.landmarks] == [5, writing.view.amended]
        found = await store.get("a")
        assert found is not None
        assert found == writing.view.standing()
        await store.close()

    async def test_unfinished_work_is_found(self, tmp_path: Path) -> None:
        store = await self.make(tmp_path)
        done, waiting, running = Writing(store, "done"), Writing(store, "waiting"), Writing(store, "running")
        await done.turn("x")
        await waiting.add(Received((Text("x"),)))
        await running.add(Received((Text("x"),)), TurnStarted((1,), turn=1))
        assert sorted(await store.unfinished()) == ["running", "waiting"]
        await store.close()

    async def test_an_unfinished_turn_is_loaded_whole_however_long(self, tmp_path: Path) -> None:
        store = await self.make(tmp_path)
        writing = Writing(store, "a")
        for number in range(300):
            await writing.turn(f"before {number}")
        await writing.add(Received((Text("the long one"),)))
        await writing.add(TurnStarted((writing.view.head,), turn=301))
        for step in range(1, 600):
            await writing.add(MessageAdded("assistant", (Text("y" * 50),), turn=301, step=step))
        tail = await store.load("a", 100)
        assert tail is not None
        view = Session.of(tail)
        assert view.open is not None
        assert view.open.step == 599
        assert any(message.text == "the long one" for message in view.messages)
        await store.close()

    async def test_sessions_are_listed_newest_first(self, tmp_path: Path) -> None:
        store = await self.make(tmp_path)
        for number, key in enumerate(("a", "b", "c")):
            writing = Writing(store, key)
            for _ in range(number + 1):
                await writing.turn("x")
        assert [standing.key for standing in await store.sessions()] == ["c", "b", "a"]
        assert [standing.key for standing in await store.sessions(limit=1, offset=1)] == ["b"]
        found = await store.get("b")
        assert found is not None
        assert (found.turns, found.messages, found.head) == (2, 4, 8)
        assert await store.get("nobody") is None
        await store.close()

    async def test_a_fork_shares_the_past_and_nothing_else(self, tmp_path: Path) -> None:
        store = await self.make(tmp_path)
        writing = Writing(store, "a")
        await writing.turn("one")
        await writing.turn("two")
        view = Session("b")
        for record in (await store.read("a"))[:4]:
            view.apply(record.seq, record.at, record.event)
        view.apply(5, 9_000, Forked("a", 4))
        await store.fork("a", 4, view.standing(), encode(Forked("a", 4)))
        copied = await store.read("b")
        assert [record.event for record in copied[:4]] == [record.event for record in (await store.read("a"))[:4]]
        assert isinstance(copied[4].event, Forked)
        branch = Writing(store, "b")
        branch.view = view
        await branch.turn("three")
        assert len(await store.read("a")) == 8
        await expect(StoreError, store.fork("a", 4, view.standing(), encode(Forked("a", 4))))
        await expect(SessionUnknown, store.fork("nobody", 1, Session("c").standing(), encode(Forked("x", 1))))
        await store.close()

    async def test_blanking_forgets_the_contents_and_keeps_the_sequence(self, tmp_path: Path) -> None:
        store = await self.make(tmp_path)
        writing = Writing(store, "a")
        await writing.add(Received((Text("secret"),), id="m1"), once=Once("m1", "d"))
        await store.blank("a", 5_000)
        records = await store.read("a")
        assert [type(record.event).__name__ for record in records] == ["Blanked"]
        assert await store.seen("a", "m1") is None
        assert await store.unfinished() == []
        assert await store.sessions() == []
        assert [standing.key for standing in await store.sessions(include_deleted=True)] == ["a"]
        tail = await store.load("a", 10**6)
        assert tail is not None
        again = Writing(store, "a")
        again.view = Session.of(tail)
        await again.turn("anew")
        assert [record.seq for record in await store.read("a")] == [1, 2, 3, 4, 5]
        assert (await store.sessions())[0].status == "active"
        await expect(SessionUnknown, store.blank("nobody", 1))
        await store.close()

    async def test_the_heads_are_those_of_all_sessions_that_hold_something(self, tmp_path: Path) -> None:
        store = await self.make(tmp_path)
        assert await store.heads() == {}
        for key, turns in (("a", 1), ("b", 3), ("c", 1)):
            writing = Writing(store, key)
            for _ in range(turns):
                await writing.turn("x")
        await store.blank("c", 5_000)
        assert await store.heads() == {"a": 4, "b": 12}
        await store.close()

    async def test_any_text_survives(self, tmp_path: Path) -> None:
        store = await self.make(tmp_path)
        writing = Writing(store, "ключ:🗝:a'b\"c")
        texts = ["", "\0", "'; DROP TABLE events; --", "🧵 \u202e \ufeff", "\n" * 100, "x" * 300_000]
        for text in texts:
            await writing.add(Received((Text(text),)))
        read = await store.read("ключ:🗝:a'b\"c")
        assert [record.event.parts[0].text for record in read] == texts  # type: ignore[attr-defined]
        await store.close()


async def _awaitable(store: Store, view: Session, expected: int) -> None:
    await store.append(view.standing(), expected, [encode(Received((Text("x"),)))])
