"""Conformance suite of the Store port. Subclass it and override `make`:

class TestMyStore(StoreSuite):
    async def make(self, folder: Path) -> Store: ...
"""

from __future__ import annotations

import asyncio
import itertools
from pathlib import Path

from mainstay.core.client_tools import ClientTool
from mainstay.core.errors import DuplicateInput, SessionUnknown, StaleWriter, StoreError
from mainstay.core.events import Folded, Forked, MessageAdded, Received, SessionChanged, TurnStarted
from mainstay.core.journal import encode_event
from mainstay.core.messages import Text
from mainstay.core.ports import IdempotencyKey, Store
from mainstay.core.session import Session
from mainstay.testing.store_erasure_suite import StoreErasureSuite
from mainstay.testing.store_writer import SessionWriter as SessionWriter
from mainstay.testing.store_writer import expect_error


class StoreSuite(StoreErasureSuite):
    """All tests of a store; a subclass overrides `make`, which returns an open store."""

    async def test_appended_events_are_read_back_in_order(self, tmp_path: Path) -> None:
        store = await self.make(tmp_path)
        writer = SessionWriter(store, "a")
        await writer.write_turn("one")
        await writer.write_turn("two")
        records = await store.read_records("a")
        assert [record.seq for record in records] == list(range(1, 9))
        assert [type(record.event).__name__ for record in records[:4]] == [
            "Received",
            "TurnStarted",
            "MessageAdded",
            "TurnEnded",
        ]
        assert [record.seq for record in await store.read_records("a", after=6)] == [7, 8]
        assert [record.seq for record in await store.read_records("a", after=2, limit=3)] == [3, 4, 5]
        await store.close()

    async def test_a_stale_writer_is_refused_and_changes_nothing(self, tmp_path: Path) -> None:
        store = await self.make(tmp_path)
        await SessionWriter(store, "a").append(Received((Text("mine"),)))
        for _ in range(2):
            await expect_error(StaleWriter, SessionWriter(store, "a").append(Received((Text("yours"),))))
        assert len(await store.read_records("a")) == 1
        gap = Session("a")
        gap.head = 7
        await expect_error(StaleWriter, _append_prompt(store, gap, 6))
        assert len(await store.read_records("a")) == 1
        await store.close()

    async def test_an_input_with_an_id_is_accepted_once(self, tmp_path: Path) -> None:
        store = await self.make(tmp_path)
        writer = SessionWriter(store, "a")
        await writer.append(Received((Text("hi"),), id="m1"), idempotency_key=IdempotencyKey("m1", "digest"))
        assert await store.find_input("a", "m1") == (1, "digest")
        assert await store.find_input("a", "m2") is None
        assert await store.find_input("b", "m1") is None
        again = SessionWriter(store, "a")
        again.session.head = 1
        error = await expect_error(
            DuplicateInput,
            again.append(Received((Text("hi"),), id="m1"), idempotency_key=IdempotencyKey("m1", "digest")),
        )
        assert error.sequence == 1  # type: ignore[attr-defined]
        assert error.same  # type: ignore[attr-defined]
        again.session.head = 1
        other = await expect_error(
            DuplicateInput,
            again.append(Received((Text("yo"),), id="m1"), idempotency_key=IdempotencyKey("m1", "other")),
        )
        assert not other.same  # type: ignore[attr-defined]
        assert len(await store.read_records("a")) == 1
        await store.close()

    async def test_one_failed_append_does_not_harm_its_neighbours(self, tmp_path: Path) -> None:
        store = await self.make(tmp_path)
        writers = [SessionWriter(store, f"s{number}") for number in range(20)]
        await writers[7].write_turn("ahead")
        stale = SessionWriter(store, "s7")
        writers[7] = stale
        results = await asyncio.gather(
            *(writer.append(Received((Text("x"),))) for writer in writers), return_exceptions=True
        )
        assert [type(result) for result in results if result is not None] == [StaleWriter]
        assert len(await store.list_unfinished()) == 19
        await store.close()

    async def test_loading_returns_the_newest_records_and_whether_there_are_more(self, tmp_path: Path) -> None:
        store = await self.make(tmp_path)
        writer = SessionWriter(store, "a")
        for number in range(400):
            await writer.write_turn(f"message {number}")
        whole = await store.load_tail("a", 10**9)
        assert whole is not None
        assert whole.complete
        assert len(whole.records) == 1600
        partial = await store.load_tail("a", 1000)
        assert partial is not None
        assert not partial.complete
        assert partial.records[-1].seq == 1600
        assert len(partial.records) < 600
        assert [r.seq for r in partial.records] == list(range(partial.records[0].seq, 1601))
        session = Session.from_tail(partial)
        assert session.messages[0].role == "user"
        assert session.message_count == 800
        assert await store.load_tail("nobody", 1000) is None
        await store.close()

    async def test_loading_reads_from_the_last_fold(self, tmp_path: Path) -> None:
        store = await self.make(tmp_path)
        writer = SessionWriter(store, "a")
        for number in range(10):
            await writer.write_turn(f"message {number}")
        await writer.append(Folded(20, "the first five", through=5))
        await writer.write_turn("after")
        tail = await store.load_tail("a", 10**9)
        assert tail is not None
        assert tail.records[0].seq == 21
        session = Session.from_tail(tail)
        assert session.summary == "the first five"
        assert [message.text for message in session.messages[1:3]] == ["message 5", "re: message 5"]
        await store.close()

    async def test_after_a_fold_everything_is_loaded_however_large(self, tmp_path: Path) -> None:
        store = await self.make(tmp_path)
        writer = SessionWriter(store, "a")
        await writer.write_turn("folded")
        await writer.append(Folded(4, "the first", through=1))
        for number in range(200):
            await writer.write_turn(f"message {number} " + "x" * 200)
        tail = await store.load_tail("a", 1_000)
        assert tail is not None
        assert tail.complete
        assert [record.seq for record in tail.records] == list(range(5, writer.session.head + 1))
        await store.close()

    async def test_the_fixed_section_is_loaded_wherever_it_is_in_the_journal(self, tmp_path: Path) -> None:
        store = await self.make(tmp_path)
        writer = SessionWriter(store, "a")
        await writer.write_turn("before")
        await writer.append(SessionChanged(instructions="be kind", profile={"name": "Ana"}))
        for number in range(300):
            await writer.write_turn(f"message {number} " + "x" * 50)
        await writer.append(SessionChanged(amended="be kinder"))
        short = await store.load_tail("a", 1_000)
        assert short is not None
        assert [record.seq for record in short.pinned_records] == [5]
        assert isinstance(short.pinned_records[0].event, SessionChanged)
        whole = await store.load_tail("a", 10**9)
        assert whole is not None
        assert whole.pinned_records == []
        for tail in (short, whole):
            session = Session.from_tail(tail)
            assert (session.instructions, session.amendment, session.fixed_seq) == ("be kind", "be kinder", 5)
            assert session.profile == {"name": "Ana"}
        for number in range(300):
            await writer.write_turn(f"message {number} " + "x" * 50)
        later = await store.load_tail("a", 1_000)
        assert later is not None
        assert [record.seq for record in later.pinned_records] == [5, writer.session.amended_seq]
        info = await store.get_session("a")
        assert info is not None
        assert info == writer.session.to_info()
        await store.close()

    async def test_the_fixed_section_its_amendment_and_the_clients_tools_are_all_loaded(self, tmp_path: Path) -> None:
        store = await self.make(tmp_path)
        fixed = SessionChanged(instructions="be kind")
        amended = SessionChanged(amended="be kinder")
        client_tools = SessionChanged(guests=(ClientTool("dial", "Call a number.", {"type": "object"}),))
        for number, changes in enumerate(itertools.permutations((fixed, amended, client_tools))):
            if changes.index(amended) < changes.index(fixed):  # a new fixed section replaces an amendment
                continue
            writer = SessionWriter(store, f"s{number}")
            for change in changes:
                await writer.append(change)
                await writer.write_turn("between")
            for turn in range(150):
                await writer.write_turn(f"message {turn} " + "x" * 50)
            tail = await store.load_tail(writer.session.key, 1_000)
            assert tail is not None
            assert tail.records[0].seq > 15
            assert [(record.seq, record.event) for record in tail.pinned_records] == [
                (1, changes[0]),
                (6, changes[1]),
                (11, changes[2]),
            ]
            session = Session.from_tail(tail)
            assert (session.instructions, session.amendment) == ("be kind", "be kinder")
            assert session.client_tools == client_tools.guests
            assert session.to_info() == writer.session.to_info()
        await store.close()

    async def test_a_fixed_section_that_is_the_last_folded_record_is_loaded(self, tmp_path: Path) -> None:
        store = await self.make(tmp_path)
        for rows in (1, 255, 256, 257, 512):  # records after the folded ones, around the size of a page
            writer = SessionWriter(store, f"s{rows}")
            await writer.append(SessionChanged(instructions="be kind"))
            await writer.append(Folded(1, "nothing yet", through=0))
            for number in range(rows - 1):
                await writer.append(SessionChanged(title=f"title {number}"))
            tail = await store.load_tail(writer.session.key, 1_000)
            assert tail is not None
            assert [record.seq for record in tail.records] == list(range(2, rows + 2))
            assert [record.seq for record in tail.pinned_records] == [1], rows
            assert Session.from_tail(tail).instructions == "be kind"
        await store.close()

    async def test_unfinished_sessions_are_listed(self, tmp_path: Path) -> None:
        store = await self.make(tmp_path)
        done, waiting, running = (
            SessionWriter(store, "done"),
            SessionWriter(store, "waiting"),
            SessionWriter(store, "running"),
        )
        await done.write_turn("x")
        await waiting.append(Received((Text("x"),)))
        await running.append(Received((Text("x"),)), TurnStarted((1,), turn=1))
        assert sorted(await store.list_unfinished()) == ["running", "waiting"]
        await store.close()

    async def test_an_unfinished_turn_is_loaded_whole_however_long(self, tmp_path: Path) -> None:
        store = await self.make(tmp_path)
        writer = SessionWriter(store, "a")
        for number in range(300):
            await writer.write_turn(f"before {number}")
        await writer.append(Received((Text("the long one"),)))
        await writer.append(TurnStarted((writer.session.head,), turn=301))
        for step in range(1, 600):
            await writer.append(MessageAdded("assistant", (Text("y" * 50),), turn=301, step=step))
        tail = await store.load_tail("a", 100)
        assert tail is not None
        session = Session.from_tail(tail)
        assert session.open_turn is not None
        assert session.open_turn.step == 599
        assert any(message.text == "the long one" for message in session.messages)
        await store.close()

    async def test_sessions_are_listed_newest_first(self, tmp_path: Path) -> None:
        store = await self.make(tmp_path)
        for number, key in enumerate(("a", "b", "c")):
            writer = SessionWriter(store, key)
            for _ in range(number + 1):
                await writer.write_turn("x")
        assert [info.key for info in await store.list_sessions()] == ["c", "b", "a"]
        assert [info.key for info in await store.list_sessions(limit=1, offset=1)] == ["b"]
        info = await store.get_session("b")
        assert info is not None
        assert (info.turns, info.messages, info.head) == (2, 4, 8)
        assert await store.get_session("nobody") is None
        await store.close()

    async def test_a_fork_shares_earlier_records_and_nothing_else(self, tmp_path: Path) -> None:
        store = await self.make(tmp_path)
        writer = SessionWriter(store, "a")
        await writer.write_turn("one")
        await writer.write_turn("two")
        session = Session("b")
        for record in (await store.read_records("a"))[:4]:
            session.apply(record.seq, record.at, record.event)
        session.apply(5, 9_000, Forked("a", 4))
        await store.fork_session("a", 4, session.to_info(), encode_event(Forked("a", 4)))
        copied = await store.read_records("b")
        assert [record.event for record in copied[:4]] == [
            record.event for record in (await store.read_records("a"))[:4]
        ]
        assert isinstance(copied[4].event, Forked)
        branch = SessionWriter(store, "b")
        branch.session = session
        await branch.write_turn("three")
        assert len(await store.read_records("a")) == 8
        await expect_error(StoreError, store.fork_session("a", 4, session.to_info(), encode_event(Forked("a", 4))))
        await expect_error(
            SessionUnknown, store.fork_session("nobody", 1, Session("c").to_info(), encode_event(Forked("x", 1)))
        )
        await store.close()

    async def test_blanking_deletes_the_contents_and_keeps_the_sequence(self, tmp_path: Path) -> None:
        store = await self.make(tmp_path)
        writer = SessionWriter(store, "a")
        await writer.append(Received((Text("secret"),), id="m1"), idempotency_key=IdempotencyKey("m1", "d"))
        await store.blank_session("a", 5_000)
        records = await store.read_records("a")
        assert [type(record.event).__name__ for record in records] == ["Blanked"]
        assert await store.find_input("a", "m1") is None
        assert await store.list_unfinished() == []
        assert await store.list_sessions() == []
        assert [info.key for info in await store.list_sessions(include_deleted=True)] == ["a"]
        tail = await store.load_tail("a", 10**6)
        assert tail is not None
        again = SessionWriter(store, "a")
        again.session = Session.from_tail(tail)
        await again.write_turn("anew")
        assert [record.seq for record in await store.read_records("a")] == [1, 2, 3, 4, 5]
        assert (await store.list_sessions())[0].status == "active"
        await expect_error(SessionUnknown, store.blank_session("nobody", 1))
        await store.close()

    async def test_heads_are_listed_for_all_sessions_that_are_not_deleted(self, tmp_path: Path) -> None:
        store = await self.make(tmp_path)
        assert await store.list_heads() == {}
        for key, turns in (("a", 1), ("b", 3), ("c", 1)):
            writer = SessionWriter(store, key)
            for _ in range(turns):
                await writer.write_turn("x")
        await store.blank_session("c", 5_000)
        assert await store.list_heads() == {"a": 4, "b": 12}
        await store.close()

    async def test_any_text_survives(self, tmp_path: Path) -> None:
        store = await self.make(tmp_path)
        writer = SessionWriter(store, "ключ:🗝:a'b\"c")
        texts = ["", "\0", "'; DROP TABLE events; --", "🧵 \u202e \ufeff", "\n" * 100, "x" * 300_000]
        for text in texts:
            await writer.append(Received((Text(text),)))
        read = await store.read_records("ключ:🗝:a'b\"c")
        assert [record.event.parts[0].text for record in read] == texts  # type: ignore[attr-defined]
        await store.close()


async def _append_prompt(store: Store, session: Session, expected: int) -> None:
    await store.append(session.to_info(), expected, [encode_event(Received((Text("x"),)))])
