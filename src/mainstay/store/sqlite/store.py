"""The Store port on SQLite."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

import apsw
import msgspec

from mainstay.core.errors import SessionUnknown, StoreFailed
from mainstay.core.following import Glimpse
from mainstay.core.journal import Record, decode_all
from mainstay.core.limits import Limits
from mainstay.core.ports import Once, Standing, Tail
from mainstay.core.recall import Fact, Tiers
from mainstay.store.sqlite.appends import EVENT, INSERT, SEEN, Append, Settings, settings_of
from mainstay.store.sqlite.desk import Beside
from mainstay.store.sqlite.files import SqliteLabels
from mainstay.store.sqlite.forget import blank, newest_fold, redact, unlearn
from mainstay.store.sqlite.kept import copy_kept, keeping, kept
from mainstay.store.sqlite.mail import SqliteMail
from mainstay.store.sqlite.plugin_state import SqlitePluginState
from mainstay.store.sqlite.reader import Reader
from mainstay.store.sqlite.slices import purging
from mainstay.store.sqlite.tiers import make_tiers
from mainstay.store.sqlite.triggers import SqliteTriggerLog
from mainstay.store.sqlite.writer import Job, Slices, Writer

T = TypeVar("T")
Rows = list[tuple[int, int, str]]  # id, at, body

COLUMNS = """id, key, head, fold, floor, unfinished, status, turns, messages, prompt_tokens, completion_tokens,
    cost, created, updated, settings"""
PAGE = 256

_settings = msgspec.json.Decoder(Settings).decode


class SqliteStore:
    """Appends go to one writing thread, reads to another with a connection of its own."""

    def __init__(self, path: str, *, limits: Limits | None = None, vfs: str | None = None, read_only: bool = False):
        self.path = path
        self._limits = limits or Limits()
        self._vfs = vfs
        self._read_only = read_only
        self._writer: Writer | None = None
        self._reader = self._new_reader()
        self._searcher: Reader | None = None
        self._behind: list[Append] = []  # kept ahead of the database, and not on their way to it yet

    async def open(self) -> None:
        self._loop = asyncio.get_running_loop()
        if not self._read_only:
            writer = Writer(
                self.path,
                busy_s=self._limits.store_busy_s,
                batch_max=self._limits.commit_batch_max,
                vfs=self._vfs,
            )
            await self._reader.aside(writer.open)
            writer.start()
            self._writer = writer
        await self._reading(lambda db: None)

    async def close(self) -> None:
        for reader in (self._searcher, self._reader):
            if reader is not None:  # before the writer, who as the last to go brings the log into the file
                await reader.close()
        if self._writer is not None:
            self._catch_up(self._writer)
            self._writer.queue.put(None)
            await self._reader.aside(self._writer.join)
            self._writer = None

    def tiers(self, *, vectors: bool = True) -> Tiers:
        """What can be recalled of this workspace, in the same file."""
        return make_tiers(self._beside(), vectors=vectors)

    def plugin_state(self) -> SqlitePluginState:
        """What the plugins of this workspace keep."""
        return SqlitePluginState(self._beside())

    def triggers(self) -> SqliteTriggerLog:
        """What triggers did in this workspace."""
        return SqliteTriggerLog(self._beside())

    def mail(self) -> SqliteMail:
        """What came from chat platforms into this workspace, and what goes there."""
        return SqliteMail(self._beside())

    async def labels(self) -> SqliteLabels:
        """What is known of the files of this workspace."""
        labels = SqliteLabels(self._beside())
        await labels.open()
        return labels

    # --- writing ---------------------------------------------------------------------------------

    def append(
        self,
        standing: Standing,
        expected: int,
        events: Sequence[bytes],
        once: Once | None = None,
        *,
        synced: bool = True,
    ) -> Awaitable[None]:
        done: asyncio.Future[None] = self._loop.create_future()
        append = Append(standing, expected, events, once, done)
        if not synced and self._writer is not None and self._writer.ahead.write(standing, expected, events):
            append.ahead = True
            self._behind.append(append)
            done.set_result(None)
        else:
            self._put(append)
        return done

    async def fork(self, source: str, upto: int, standing: Standing, event: bytes) -> None:
        await self._job(lambda db: _fork(db, source, upto, standing, event))

    async def blank(self, key: str, at: int) -> None:
        await self._forget(lambda db: blank(db, key, at))

    async def redact(self, key: str, seqs: Sequence[int]) -> None:
        await self._forget(lambda db: redact(db, key, seqs))

    async def unlearn(self, key: str, facts: Sequence[Fact]) -> None:
        await self._forget(lambda db: unlearn(db, key, facts))

    async def _forget(self, work: Callable[[apsw.Connection], None]) -> None:
        await self._job(work)
        if self._writer is not None:
            self._writer.forgotten = True
            self._writer.ahead.forget()
            done: asyncio.Future[None] = self._loop.create_future()
            done.add_done_callback(lambda done: done.cancelled() or done.exception())  # nobody waits for it
            self._writer.queue.put(Slices(purging(), done))

    async def keep(self, key: str, ref: str, body: str) -> None:
        for work in keeping(key, ref, body):
            await self._job(work)

    # --- reading ---------------------------------------------------------------------------------

    async def load(self, key: str, bytes_max: int) -> Tail | None:
        if self._writer is not None and (self._behind or self._writer.unmade):
            with contextlib.suppress(StoreFailed):  # whoever goes on from here should build upon it
                await self._job(lambda db: None)
        return await self._reading(lambda db: _load(db, key, bytes_max))

    async def read(self, key: str, after: int = 0, limit: int = 1000) -> list[Record]:
        def work(db: apsw.Connection) -> list[Record]:
            row = db.execute("SELECT id FROM sessions WHERE key=?", (key,)).fetchone()
            return _page(db, row[0] << 32, after, limit) if row is not None else []

        return await self._reading(work)

    async def seen(self, key: str, id: str) -> tuple[int, str] | None:
        return await self._reading(lambda db: db.execute(SEEN, (key, id)).fetchone())

    async def unfinished(self) -> list[str]:
        return await self._reading(
            lambda db: [row[0] for row in db.execute("SELECT key FROM sessions WHERE unfinished ORDER BY id")]
        )

    async def sessions(self, *, limit: int = 100, offset: int = 0, include_deleted: bool = False) -> list[Standing]:
        where = "" if include_deleted else "WHERE status != 'deleted'"
        sql = f"SELECT {COLUMNS} FROM sessions {where} ORDER BY updated DESC, id DESC LIMIT ? OFFSET ?"
        return await self._reading(lambda db: [_standing(row) for row in db.execute(sql, (limit, offset))])

    async def get(self, key: str) -> Standing | None:
        def work(db: apsw.Connection) -> Standing | None:
            row = db.execute(f"SELECT {COLUMNS} FROM sessions WHERE key=?", (key,)).fetchone()
            return _standing(row) if row else None

        return await self._reading(work)

    async def heads(self) -> dict[str, int]:
        def work(db: apsw.Connection) -> dict[str, int]:
            rows: Any = db.execute("SELECT key, head FROM sessions WHERE status != 'deleted'")
            return dict(rows)

        return await self._reading(work)

    async def glance(self, wanted: Sequence[tuple[str, int]], limit: int) -> list[Glimpse | None]:
        return await self._reading(lambda db: [_glimpse(db, key, after, limit) for key, after in wanted])

    async def kept(self, key: str, ref: str, offset: int, limit: int) -> tuple[str, int] | None:
        return await self._reading(lambda db: kept(db, key, ref, offset, limit))

    # --- the threads -----------------------------------------------------------------------------

    def _new_reader(self) -> Reader:
        return Reader(self.path, busy_s=self._limits.store_busy_s, vfs=self._vfs)

    def _beside(self) -> Beside:
        if self._searcher is None:
            self._searcher = self._new_reader()
        return Beside(self._searcher, self._put)

    def _put(self, item: Append | Job | Slices) -> None:
        if self._writer is None:
            raise StoreFailed(f"{self.path} is not open for writing")
        self._catch_up(self._writer)
        self._writer.queue.put(item)

    def _catch_up(self, writer: Writer) -> None:
        """What was written ahead goes before whatever comes now."""
        for append in self._behind:
            writer.queue.put(append)
        self._behind.clear()

    async def _job(self, work: Callable[[apsw.Connection], T]) -> T:
        done: asyncio.Future[T] = self._loop.create_future()
        self._put(Job(work, done))
        return await done

    async def _reading(self, work: Callable[[apsw.Connection], T]) -> T:
        return await self._reader.run(work)


def _glimpse(db: apsw.Connection, key: str, after: int, limit: int) -> Glimpse | None:
    row = db.execute(f"SELECT {COLUMNS} FROM sessions WHERE key=?", (key,)).fetchone()
    return Glimpse(_standing(row), after, _page(db, row[0] << 32, after, limit)) if row is not None else None


def _page(db: apsw.Connection, low: int, after: int, limit: int) -> list[Record]:
    rows: Rows = db.execute(  # type: ignore[assignment]
        "SELECT id, at, body FROM events WHERE id > ? AND id < ? ORDER BY id LIMIT ?",
        (low + after, low + (1 << 32), limit),
    ).fetchall()
    return _records(rows)


def _load(db: apsw.Connection, key: str, bytes_max: int) -> Tail | None:
    row = db.execute(f"SELECT {COLUMNS} FROM sessions WHERE key=?", (key,)).fetchone()
    if row is None:
        return None
    standing, low = _standing(row), row[0] << 32
    bottom, lowest = low, low + standing.floor
    if standing.fold:
        fold, upto = newest_fold(db, low, standing.fold)
        standing = msgspec.structs.replace(standing, fold=fold)
        bottom, lowest = low + upto, low if fold else lowest  # after a fold, all of it
    rows: Rows = []
    size, top, complete = 0, low + standing.head + 1, False
    while not complete and (size < bytes_max or top > lowest):
        page: Rows = db.execute(  # type: ignore[assignment]
            "SELECT id, at, body FROM events WHERE id > ? AND id < ? ORDER BY id DESC LIMIT ?", (bottom, top, PAGE)
        ).fetchall()
        rows += page
        size += sum(len(body) for _, _, body in page)
        complete = len(page) < PAGE
        top = page[-1][0] if page else bottom
    return Tail(standing, _records(rows[::-1]), complete, _landmarks(db, low, standing, top))


def _landmarks(db: apsw.Connection, low: int, standing: Standing, before: int) -> list[Record]:
    """The records that hold the fixed section, where they stand before what was loaded."""
    ids = sorted(
        low + seq for seq in (standing.fixed, standing.amended, standing.guested) if seq and low + seq < before
    )
    if not ids:
        return []
    rows: Any = db.execute(
        "SELECT id, at, body FROM events WHERE id IN (?,?) ORDER BY id", (ids[0], ids[-1])
    ).fetchall()
    return _records(rows)


def _fork(db: apsw.Connection, source: str, upto: int, standing: Standing, event: bytes) -> None:
    row = db.execute("SELECT id FROM sessions WHERE key=?", (source,)).fetchone()
    if row is None:
        raise SessionUnknown(f"there is no session {source!r}")
    values = (
        *(standing.head, standing.fold, standing.floor, standing.unfinished, standing.status),
        *(standing.turns, standing.messages, standing.prompt_tokens, standing.completion_tokens),
        *(standing.cost, standing.updated, settings_of(standing), standing.key, standing.created),
    )
    made = db.execute(INSERT, values).fetchone()
    if made is None:
        raise StoreFailed(f"there is a session {standing.key!r} already")
    old, new = row[0] << 32, made[0] << 32
    db.execute(
        "INSERT INTO events (id, at, body) SELECT id - ? + ?, at, body FROM events WHERE id > ? AND id <= ?",
        (old, new, old, old + upto),
    )
    db.execute(EVENT, (new + upto + 1, standing.updated, event.decode()))
    copy_kept(db, row[0], made[0], upto)


def _records(rows: Rows) -> list[Record]:
    events = decode_all([body for _, _, body in rows])
    return [Record(id & 0xFFFFFFFF, at, event) for (id, at, _), event in zip(rows, events, strict=True)]


def _standing(row: Any) -> Standing:
    settings = _settings(row[14])
    return Standing(
        key=row[1],
        head=row[2],
        fold=row[3],
        floor=row[4],
        unfinished=bool(row[5]),
        status=row[6],
        turns=row[7],
        messages=row[8],
        prompt_tokens=row[9],
        completion_tokens=row[10],
        cost=row[11],
        created=row[12],
        updated=row[13],
        title=settings.title,
        parent=settings.parent,
        model=settings.model,
        fixed=settings.fixed,
        amended=settings.amended,
        untrusted=settings.untrusted,
        profile=settings.profile,
        metadata=settings.metadata,
        weighed=settings.weighed,
        private=settings.private,
        approval=settings.approval,
        errand=settings.errand,
        delivered=settings.delivered,
        guested=settings.guested,
        person=settings.person,
        calls=settings.calls,
    )
