"""Conformance tests of a Store for redaction of records and for large values; part of `store_suite`."""

from __future__ import annotations

from pathlib import Path

from mainstay.core.errors import SessionUnknown
from mainstay.core.events import Folded, Forked, MessageAdded, Received, ToolFinished, TurnEnded, TurnStarted
from mainstay.core.journal import encode_event
from mainstay.core.messages import Binary, Text, Thinking, ToolCall, ToolResult
from mainstay.core.outcome import Failed
from mainstay.core.ports import Store
from mainstay.core.session import Session
from mainstay.testing.store_writer import SessionWriter, expect_error


class StoreErasureSuite:
    """Tests of redaction and large values."""

    async def make(self, folder: Path) -> Store:
        raise NotImplementedError("override `make`: it returns an open store")

    async def test_redaction_removes_contents_and_keeps_the_structure(self, tmp_path: Path) -> None:
        store = await self.make(tmp_path)
        writer = SessionWriter(store, "a")
        await writer.write_turn("before")
        await writer.append(Received((Text("secret"), Binary("image/png", b"secret", "/secret"))))
        call = ToolCall("c1", "look", '{"at": "secret"}')
        await writer.append(
            TurnStarted((5,), turn=2),
            MessageAdded("assistant", (Thinking("secret", "secret"), Text("secret"), call), turn=2, step=1),
            ToolFinished(ToolResult("c1", "look", "secret", origin="untrusted:look"), turn=2, step=1),
            TurnEnded(Failed("it failed", "secret"), turn=2),
        )
        before = await store.read_records("a")
        await store.redact_records("a", [5, 7, 8, 9, 9, 99, 0])
        after = await store.read_records("a")
        assert b"secret" not in b"".join(encode_event(record.event) for record in after)
        assert [(record.seq, record.at, type(record.event)) for record in after] == [
            (o.seq, o.at, type(o.event)) for o in before
        ]
        assert after[:4] == before[:4]
        assert after[6].event.parts[2] == ToolCall("c1", "look", "{}")  # type: ignore[attr-defined]
        assert after[7].event.result.origin == "untrusted:look"  # type: ignore[attr-defined]
        assert await store.get_session("a") == writer.session.to_info()
        await writer.write_turn("it goes on")
        await expect_error(SessionUnknown, store.redact_records("nobody", [1]))
        await store.close()

    async def test_redaction_removes_the_folds_of_the_record_and_no_others(self, tmp_path: Path) -> None:
        store = await self.make(tmp_path)
        writer = SessionWriter(store, "a")
        for number in range(6):
            await writer.write_turn(f"message {number}")
        first = writer.session.head + 1
        await writer.append(Folded(8, "the first two", through=2))
        await writer.write_turn("between")
        await writer.append(Folded(16, "four, one of them secret", through=4, version=2))
        await writer.append(Folded(20, "five, one of them secret", through=5, version=3))
        await writer.write_turn("after")
        await store.redact_records("a", [13])
        kinds = [type(record.event).__name__ for record in await store.read_records("a")]
        assert kinds.count("Folded") == 1
        assert kinds.count("Blanked") == 2
        tail = await store.load_tail("a", 1)
        assert tail is not None
        assert tail.info.fold == first
        assert tail.records[0].seq == 9
        assert Session.from_tail(tail).summary == "the first two"
        await store.redact_records("a", [1])
        tail = await store.load_tail("a", 10**9)
        assert tail is not None
        assert (tail.info.fold, tail.records[0].seq) == (0, 1)
        assert "Folded" not in [type(record.event).__name__ for record in await store.read_records("a")]
        await store.close()

    async def test_a_writer_with_a_stale_fold_does_not_restore_it(self, tmp_path: Path) -> None:
        store = await self.make(tmp_path)
        writer = SessionWriter(store, "a")
        for number in range(4):
            await writer.write_turn(f"message {number}")
        await writer.append(Folded(8, "the first two", through=2))
        await store.redact_records("a", [1])
        await writer.write_turn("from a view that was made before")
        tail = await store.load_tail("a", 10**9)
        assert tail is not None
        assert (tail.info.fold, tail.records[0].seq) == (0, 1)
        await store.close()

    async def test_large_values_are_stored_and_read_in_pages(self, tmp_path: Path) -> None:
        store = await self.make(tmp_path)
        writer = SessionWriter(store, "a")
        await writer.write_turn("one")
        large = "".join(chr(0x20 + n * 7919 % 0x2000) for n in range(300_000)) + "\0\n🧵"
        await store.save_value("a", "call_1", large)
        await store.save_value("a", "empty", "")
        assert await store.read_value("a", "call_1", 0, 10**9) == (large, len(large))
        for offset, limit in ((0, 10), (16_380, 10), (123_456, 50_000), (len(large) - 1, 5), (len(large), 5)):
            assert await store.read_value("a", "call_1", offset, limit) == (large[offset : offset + limit], len(large))
        assert await store.read_value("a", "call_1", -5, 3) == (large[:3], len(large))
        assert await store.read_value("a", "empty", 0, 5) == ("", 0)
        await store.save_value("a", "call_1", "again")
        assert await store.read_value("a", "call_1", 0, 100) == ("again", 5)
        assert await store.read_value("a", "call_2", 0, 5) is None
        assert await store.read_value("nobody", "call_1", 0, 5) is None
        await expect_error(SessionUnknown, store.save_value("nobody", "call_1", "x"))
        await store.blank_session("a", 5_000)
        assert await store.read_value("a", "call_1", 0, 5) is None
        await store.close()

    async def test_a_large_value_is_deleted_with_its_result_and_copied_by_a_fork(self, tmp_path: Path) -> None:
        store = await self.make(tmp_path)
        writer = SessionWriter(store, "a")
        await writer.append(Received((Text("go"),)))
        for name in ("c1", "c2"):
            await writer.append(ToolFinished(ToolResult(name, "look", "a stub")))
            await store.save_value("a", name, f"all of {name}")
        session = Session("b")
        for record in (await store.read_records("a"))[:2]:
            session.apply(record.seq, record.at, record.event)
        session.apply(3, 9_000, Forked("a", 2))
        await store.fork_session("a", 2, session.to_info(), encode_event(Forked("a", 2)))
        assert await store.read_value("b", "c1", 0, 99) == ("all of c1", 9)
        assert await store.read_value("b", "c2", 0, 99) is None
        await store.redact_records("a", [2])
        assert await store.read_value("a", "c1", 0, 99) is None
        assert await store.read_value("a", "c2", 0, 99) == ("all of c2", 9)
        assert await store.read_value("b", "c1", 0, 99) == ("all of c1", 9)
        await store.close()
