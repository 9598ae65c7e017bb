"""What every Store must do about forgetting, and about values too large to be remembered whole."""

from __future__ import annotations

from pathlib import Path

from mainstay.core.errors import SessionUnknown
from mainstay.core.events import Folded, Forked, MessageAdded, Received, ToolFinished, TurnEnded, TurnStarted
from mainstay.core.journal import encode
from mainstay.core.messages import Binary, Text, Thinking, ToolCall, ToolResult
from mainstay.core.outcome import Failed
from mainstay.core.ports import Store
from mainstay.core.session import Session
from mainstay.testing.writing import Writing, expect


class ForgettingSuite:
    async def make(self, where: Path) -> Store:
        raise NotImplementedError("say how to make your store")

    async def test_redacting_takes_the_words_and_leaves_the_shape(self, tmp_path: Path) -> None:
        store = await self.make(tmp_path)
        writing = Writing(store, "a")
        await writing.turn("before")
        await writing.add(Received((Text("secret"), Binary("image/png", b"secret", "/secret"))))
        call = ToolCall("c1", "look", '{"at": "secret"}')
        await writing.add(
            TurnStarted((5,), turn=2),
            MessageAdded("assistant", (Thinking("secret", "secret"), Text("secret"), call), turn=2, step=1),
            ToolFinished(ToolResult("c1", "look", "secret", origin="untrusted:look"), turn=2, step=1),
            TurnEnded(Failed("it failed", "secret"), turn=2),
        )
        before = await store.read("a")
        await store.redact("a", [5, 7, 8, 9, 9, 99, 0])
        after = await store.read("a")
        assert b"secret" not in b"".join(encode(record.event) for record in after)
        assert [(one.seq, one.at, type(one.event)) for one in after] == [(o.seq, o.at, type(o.event)) for o in before]
        assert after[:4] == before[:4]
        assert after[6].event.parts[2] == ToolCall("c1", "look", "{}")  # type: ignore[attr-defined]
        assert after[7].event.result.origin == "untrusted:look"  # type: ignore[attr-defined]
        assert await store.get("a") == writing.view.standing()
        await writing.turn("it goes on")
        await expect(SessionUnknown, store.redact("nobody", [1]))
        await store.close()

    async def test_redacting_undoes_the_folds_that_saw_it_and_no_others(self, tmp_path: Path) -> None:
        store = await self.make(tmp_path)
        writing = Writing(store, "a")
        for number in range(6):
            await writing.turn(f"message {number}")
        first = writing.view.head + 1
        await writing.add(Folded(8, "the first two", through=2))
        await writing.turn("between")
        await writing.add(Folded(16, "four, one of them secret", through=4, version=2))
        await writing.add(Folded(20, "five, one of them secret", through=5, version=3))
        await writing.turn("after")
        await store.redact("a", [13])
        kinds = [type(record.event).__name__ for record in await store.read("a")]
        assert kinds.count("Folded") == 1
        assert kinds.count("Blanked") == 2
        tail = await store.load("a", 1)
        assert tail is not None
        assert tail.standing.fold == first
        assert tail.records[0].seq == 9
        assert Session.of(tail).summary == "the first two"
        await store.redact("a", [1])
        tail = await store.load("a", 10**9)
        assert tail is not None
        assert (tail.standing.fold, tail.records[0].seq) == (0, 1)
        assert "Folded" not in [type(record.event).__name__ for record in await store.read("a")]
        await store.close()

    async def test_a_writer_who_still_believes_in_an_undone_fold_does_no_harm(self, tmp_path: Path) -> None:
        store = await self.make(tmp_path)
        writing = Writing(store, "a")
        for number in range(4):
            await writing.turn(f"message {number}")
        await writing.add(Folded(8, "the first two", through=2))
        await store.redact("a", [1])
        await writing.turn("from a view that was made before")
        tail = await store.load("a", 10**9)
        assert tail is not None
        assert (tail.standing.fold, tail.records[0].seq) == (0, 1)
        await store.close()

    async def test_large_values_are_kept_and_paged_through(self, tmp_path: Path) -> None:
        store = await self.make(tmp_path)
        writing = Writing(store, "a")
        await writing.turn("one")
        large = "".join(chr(0x20 + n * 7919 % 0x2000) for n in range(300_000)) + "\0\n🧵"
        await store.keep("a", "call_1", large)
        await store.keep("a", "empty", "")
        assert await store.kept("a", "call_1", 0, 10**9) == (large, len(large))
        for offset, limit in ((0, 10), (16_380, 10), (123_456, 50_000), (len(large) - 1, 5), (len(large), 5)):
            assert await store.kept("a", "call_1", offset, limit) == (large[offset : offset + limit], len(large))
        assert await store.kept("a", "call_1", -5, 3) == (large[:3], len(large))
        assert await store.kept("a", "empty", 0, 5) == ("", 0)
        await store.keep("a", "call_1", "again")
        assert await store.kept("a", "call_1", 0, 100) == ("again", 5)
        assert await store.kept("a", "call_2", 0, 5) is None
        assert await store.kept("nobody", "call_1", 0, 5) is None
        await expect(SessionUnknown, store.keep("nobody", "call_1", "x"))
        await store.blank("a", 5_000)
        assert await store.kept("a", "call_1", 0, 5) is None
        await store.close()

    async def test_a_kept_value_goes_with_its_result_and_along_with_a_fork(self, tmp_path: Path) -> None:
        store = await self.make(tmp_path)
        writing = Writing(store, "a")
        await writing.add(Received((Text("go"),)))
        for name in ("c1", "c2"):
            await writing.add(ToolFinished(ToolResult(name, "look", "a stub")))
            await store.keep("a", name, f"all of {name}")
        view = Session("b")
        for record in (await store.read("a"))[:2]:
            view.apply(record.seq, record.at, record.event)
        view.apply(3, 9_000, Forked("a", 2))
        await store.fork("a", 2, view.standing(), encode(Forked("a", 2)))
        assert await store.kept("b", "c1", 0, 99) == ("all of c1", 9)
        assert await store.kept("b", "c2", 0, 99) is None
        await store.redact("a", [2])
        assert await store.kept("a", "c1", 0, 99) is None
        assert await store.kept("a", "c2", 0, 99) == ("all of c2", 9)
        assert await store.kept("b", "c1", 0, 99) == ("all of c1", 9)
        await store.close()
