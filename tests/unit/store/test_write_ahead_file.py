"""The write-ahead file: appends that survive the process without waiting for the database."""

from __future__ import annotations

import asyncio
import os
import shutil
from pathlib import Path

import apsw
import msgspec
import pytest

from mainstay.core.errors import DuplicateInput, StoreFailed, StoreFull
from mainstay.core.events import Event, Received, Reserved
from mainstay.core.journal import encode_event
from mainstay.core.messages import Text
from mainstay.core.ports import IdempotencyKey
from mainstay.core.session import Session
from mainstay.store.sqlite.journal_append import JournalAppend
from mainstay.store.sqlite.store import SqliteStore

RESERVED = Reserved("1.1", "gpt-9", 10, 20, 30, turn=1, step=1)


class SessionWriter:
    """One session's only writer."""

    def __init__(self, store: SqliteStore, session: Session) -> None:
        self.store = store
        self.session = session

    async def add(self, event: Event, *, synced: bool = True) -> None:
        expected = self.session.head
        self.session.apply(expected + 1, 1000 + expected, event)
        await self.store.append(self.session.to_info(), expected, [encode_event(event)], synced=synced)


async def opened(folder: Path) -> SqliteStore:
    store = SqliteStore(str(folder / "workspace.db"))
    await store.open()
    return store


async def kinds(store: SqliteStore) -> list[str]:
    return [type(record.event).__name__ for record in await store.read_records("s")]


def taken(folder: Path, to: Path) -> Path:
    """As a process that is killed now would leave it: what the kernel has."""
    return Path(shutil.copytree(folder, to))


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "home").mkdir()
    return tmp_path / "home"


async def test_unsynced_records_are_there_after_the_process_was_killed(home: Path, tmp_path: Path) -> None:
    store = await opened(home)
    life = SessionWriter(store, Session("s"))
    await life.add(Received((Text("hello"),)))
    await life.add(RESERVED, synced=False)
    assert await kinds(store) == ["Received"], "nobody has written it to the database yet"
    left = taken(home, tmp_path / "left")
    await store.close()
    again = await opened(left)
    assert await kinds(again) == ["Received", "Reserved"]
    standing = await again.get_session("s")
    assert standing is not None
    assert standing.head == 2
    await again.close()
    assert not (left / "workspace.db-ahead").exists()


async def test_it_enters_the_database_with_the_next_append_and_in_its_place(home: Path) -> None:
    store = await opened(home)
    life, other = SessionWriter(store, Session("s")), SessionWriter(store, Session("t"))
    await life.add(Received((Text("hello"),)))
    await life.add(RESERVED, synced=False)
    await other.add(Received((Text("from another session"),)))
    assert await kinds(store) == ["Received", "Reserved"]
    await life.add(Received((Text("more"),)))
    assert await kinds(store) == ["Received", "Reserved", "Received"]
    await store.close()


async def test_imported_records_are_not_imported_again(home: Path, tmp_path: Path) -> None:
    store = await opened(home)
    life = SessionWriter(store, Session("s"))
    await life.add(Received((Text("hello"),)))
    await life.add(RESERVED, synced=False)
    line = (home / "workspace.db-ahead").read_bytes()
    await life.add(Received((Text("more"),)))
    left = taken(home, tmp_path / "left")
    await store.close()
    (left / "workspace.db-ahead").write_bytes(line * 2 + line[: len(line) // 2])  # killed before it was emptied
    again = await opened(left)
    assert await kinds(again) == ["Received", "Reserved", "Received"]
    await again.close()


async def test_it_is_made_together_with_what_follows_it_at_its_own_time(home: Path) -> None:
    store = await opened(home)
    life = SessionWriter(store, Session("s"))
    await life.add(Received((Text("hello"),)))
    await life.add(RESERVED, synced=False)
    await life.add(Reserved("1.2", "gpt-9", 10, 20, 30, turn=1, step=2), synced=False)
    await life.add(Received((Text("more"),)))
    found = await store.read_records("s")
    assert [(one.seq, one.at, type(one.event).__name__) for one in found] == [
        (1, 1000, "Received"),
        (2, 1001, "Reserved"),
        (3, 1002, "Reserved"),
        (4, 1003, "Received"),
    ]
    standing = await store.get_session("s")
    assert standing is not None
    assert standing.head == 4
    await store.close()


async def test_an_input_that_came_before_is_refused_alone(home: Path) -> None:
    store = await opened(home)
    life, once = SessionWriter(store, Session("s")), IdempotencyKey("id", "digest")
    first = Received((Text("hello"),))
    life.session.apply(1, 1000, first)
    await store.append(life.session.to_info(), 0, [encode_event(first)], once)
    await life.add(RESERVED, synced=False)
    with pytest.raises(DuplicateInput):
        await store.append(msgspec.structs.replace(life.session.to_info(), head=3), 2, [encode_event(first)], once)
    assert await kinds(store) == ["Received", "Reserved"]
    await store.close()


async def test_two_that_follow_one_another_in_one_batch_stand_where_they_belong(home: Path) -> None:
    store = await opened(home)
    lives = [SessionWriter(store, Session(key)) for key in "st"]
    for life in lives:
        await life.add(Received((Text("hello"),)))
    for life in lives:
        await life.add(RESERVED, synced=False)
    await asyncio.gather(*(life.add(Received((Text("more"),))) for life in lives))
    for key in "st":
        found = [(one.seq, type(one.event).__name__) for one in await store.read_records(key)]
        assert found == [(1, "Received"), (2, "Reserved"), (3, "Received")]
    await store.close()


async def test_records_in_the_database_leave_the_file_soon_and_at_once_if_something_is_erased(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    beside = home / "workspace.db-ahead"
    store = await opened(home)
    life = SessionWriter(store, Session("s"))
    await life.add(Received((Text("hello"),)))
    await life.add(RESERVED, synced=False)
    await life.add(Received((Text("more"),)))
    assert beside.stat().st_size > 0
    await store.redact_records("s", [1])
    assert beside.stat().st_size == 0
    monkeypatch.setattr("mainstay.store.sqlite.write_ahead_log.FILE_BYTES_MAX", 100)
    await life.add(RESERVED, synced=False)
    await life.add(Received((Text("more"),)))
    assert beside.stat().st_size == 0
    await store.close()


async def test_records_not_yet_in_the_database_stay_when_something_is_erased(home: Path, tmp_path: Path) -> None:
    store = await opened(home)
    life = SessionWriter(store, Session("s"))
    await life.add(Received((Text("hello"),)))
    ahead = store._writer.write_ahead_file  # type: ignore[union-attr]
    await life.add(RESERVED, synced=False)
    ahead.request_truncation()
    again = await opened(taken(home, tmp_path / "left"))
    assert await kinds(again) == ["Received", "Reserved"]
    await again.close()
    await life.add(Received((Text("more"),)))
    assert (home / "workspace.db-ahead").stat().st_size == 0, "as soon as it is"
    await store.close()


async def test_closing_brings_it_in_and_leaves_nothing_beside(home: Path) -> None:
    store = await opened(home)
    life = SessionWriter(store, Session("s"))
    await life.add(Received((Text("hello"),)))
    await life.add(RESERVED, synced=False)
    await store.close()
    assert not (home / "workspace.db-ahead").exists()
    store = await opened(home)
    assert await kinds(store) == ["Received", "Reserved"]
    await store.close()


async def test_where_nothing_can_be_written_beside_it_is_waited_for(home: Path) -> None:
    (home / "workspace.db-ahead").mkdir()
    store = await opened(home)
    life = SessionWriter(store, Session("s"))
    await life.add(Received((Text("hello"),)))
    await life.add(RESERVED, synced=False)
    assert await kinds(store) == ["Received", "Reserved"]
    await store.close()


async def test_only_its_owner_can_read_it(home: Path) -> None:
    store = await opened(home)
    life = SessionWriter(store, Session("s"))
    await life.add(Received((Text("hello"),)))
    await life.add(RESERVED, synced=False)
    assert (home / "workspace.db-ahead").stat().st_mode & 0o777 == 0o600
    await store.close()


async def test_an_invalid_line_hides_no_other(home: Path, tmp_path: Path) -> None:
    store = await opened(home)
    life = SessionWriter(store, Session("s"))
    await life.add(Received((Text("hello"),)))
    await life.add(RESERVED, synced=False)
    line = (home / "workspace.db-ahead").read_bytes()
    left = taken(home, tmp_path / "left")
    await store.close()
    odd = line.replace(b'"type":"Reserved"', b'"type":"Nonsense"')
    assert odd != line
    (left / "workspace.db-ahead").write_bytes(line[:20] + b"\n" + odd + line + line[:30])
    again = await opened(left)
    assert await kinds(again) == ["Received", "Reserved"]
    assert not (left / "workspace.db-ahead").exists(), "and nothing is added behind half a line"
    await again.close()


async def test_a_line_that_the_disk_took_only_in_part_is_waited_for(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = await opened(home)
    life = SessionWriter(store, Session("s"))
    await life.add(Received((Text("hello"),)))
    write = os.write
    with monkeypatch.context() as full:
        full.setattr("mainstay.store.sqlite.write_ahead_log.os.write", lambda file, line: write(file, line[:40]))
        await life.add(RESERVED, synced=False)
    assert await kinds(store) == ["Received", "Reserved"]
    await life.add(Reserved("1.2", "gpt-9", 10, 20, 30, turn=1, step=2), synced=False)
    left = taken(home, tmp_path / "left")
    await store.close()
    again = await opened(left)
    assert await kinds(again) == ["Received", "Reserved", "Reserved"]
    await again.close()


async def test_f4_records_that_the_database_refused_are_written_before_anything_else(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = await opened(home)
    life, other = SessionWriter(store, Session("s")), SessionWriter(store, Session("t"))
    await life.add(Received((Text("hello"),)))
    await life.add(RESERVED, synced=False)
    make = JournalAppend.execute
    with monkeypatch.context() as full:
        full.setattr(JournalAppend, "execute", _full)
        with pytest.raises(StoreFull):
            await other.add(Received((Text("nobody hears this"),)))
        with pytest.raises(StoreFailed):
            await store.redact_records("s", [1])  # it may be about what is not there yet
    assert JournalAppend.execute is make
    tail = await store.load_tail("s", 1000)
    assert tail is not None
    assert tail.info.head == 2, "whoever reads it again goes on from there"
    await life.add(Received((Text("more"),)))
    assert await kinds(store) == ["Received", "Reserved", "Received"]
    await store.redact_records("s", [1])
    assert (home / "workspace.db-ahead").stat().st_size == 0
    await store.close()
    assert not (home / "workspace.db-ahead").exists()


def _full(append: JournalAppend, db: apsw.Connection) -> None:
    raise apsw.FullError("database or disk is full")


async def test_a_link_is_not_followed(home: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_text("precious")
    store = await opened(home)
    (home / "workspace.db-ahead").symlink_to(elsewhere)
    life = SessionWriter(store, Session("s"))
    await life.add(Received((Text("hello"),)))
    await life.add(RESERVED, synced=False)
    assert await kinds(store) == ["Received", "Reserved"]
    await store.redact_records("s", [1])
    await store.close()
    assert elsewhere.read_text() == "precious"
