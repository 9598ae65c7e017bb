"""The Store port on SQLite."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

import apsw
import msgspec

from mainstay.core.errors import InputRefused, SessionUnknown, StoreCorrupt, StoreFailed
from mainstay.core.events import Folded
from mainstay.core.journal import BLANK, Record, decode, decode_all
from mainstay.core.limits import Limits
from mainstay.core.ports import Once, Standing, Tail
from mainstay.core.workers import Workers
from mainstay.store.sqlite.database import connect, named
from mainstay.store.sqlite.writer import EVENT, INSERT, SEEN, Append, Job, Settings, Writer, settings_of

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
        self._reader: apsw.Connection | None = None
        self._readers = Workers(threads_max=1, abandon=False)  # one connection, one thread

    async def open(self) -> None:
        self._loop = asyncio.get_running_loop()
        if not self._read_only:
            writer = Writer(
                self.path,
                busy_s=self._limits.store_busy_s,
                batch_max=self._limits.commit_batch_max,
                vfs=self._vfs,
            )
            await self._readers.run(writer.open, {})
            writer.start()
            self._writer = writer
        await self._reading(lambda db: None)

    async def close(self) -> None:
        if self._reader is not None:  # before the writer, who as the last to go brings the log into the file
            await self._readers.run(self._reader.close, {})
            self._reader = None
        if self._writer is not None:
            self._writer.queue.put(None)
            await self._readers.run(self._writer.join, {})
            self._writer = None

    # --- writing ---------------------------------------------------------------------------------

    def append(
        self, standing: Standing, expected: int, events: Sequence[bytes], once: Once | None = None
    ) -> Awaitable[None]:
        done: asyncio.Future[None] = self._loop.create_future()
        self._queue().put(Append(standing, expected, events, once, done))
        return done

    async def fork(self, source: str, upto: int, standing: Standing, event: bytes) -> None:
        def work(db: apsw.Connection) -> None:
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

        await self._job(work)

    async def blank(self, key: str, at: int) -> None:
        def work(db: apsw.Connection) -> None:
            row = db.execute("SELECT id FROM sessions WHERE key=?", (key,)).fetchone()
            if row is None:
                raise SessionUnknown(f"there is no session {key!r}")
            low = row[0] << 32
            db.execute("UPDATE events SET body=? WHERE id > ? AND id < ?", (BLANK.decode(), low, low + (1 << 32)))
            db.execute("DELETE FROM inputs WHERE session=?", (row[0],))
            db.execute(
                "UPDATE sessions SET status='deleted', unfinished=0, fold=0, floor=0, messages=0, settings='{}', "
                "updated=? WHERE id=?",
                (at, row[0]),
            )

        await self._job(work)
        if self._writer is not None:
            self._writer.forgotten = True

    # --- reading ---------------------------------------------------------------------------------

    async def load(self, key: str, bytes_max: int) -> Tail | None:
        return await self._reading(lambda db: _load(db, key, bytes_max))

    async def read(self, key: str, after: int = 0, limit: int = 1000) -> list[Record]:
        def work(db: apsw.Connection) -> list[Record]:
            row = db.execute("SELECT id FROM sessions WHERE key=?", (key,)).fetchone()
            if row is None:
                return []
            low = row[0] << 32
            rows: Rows = db.execute(  # type: ignore[assignment]
                "SELECT id, at, body FROM events WHERE id > ? AND id < ? ORDER BY id LIMIT ?",
                (low + after, low + (1 << 32), limit),
            ).fetchall()
            return _records(rows)

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

    # --- the two threads -------------------------------------------------------------------------

    def _queue(self) -> Any:
        if self._writer is None:
            raise StoreFailed(f"{self.path} is not open for writing")
        return self._writer.queue

    async def _job(self, work: Callable[[apsw.Connection], T]) -> T:
        done: asyncio.Future[T] = self._loop.create_future()
        self._queue().put(Job(work, done))
        return await done

    async def _reading(self, work: Callable[[apsw.Connection], T]) -> T:
        result: T = await self._readers.run(self._read_on, {"work": work})
        return result

    def _read_on(self, work: Callable[[apsw.Connection], T]) -> T:
        if self._reader is None:
            self._reader = connect(self.path, busy_s=self._limits.store_busy_s, vfs=self._vfs, read_only=True)
        try:
            with named(self.path):
                return work(self._reader)
        except StoreFailed:  # an I/O error: the handle is not believed any more
            broken, self._reader = self._reader, None
            broken.close(True)
            raise
        except UnicodeEncodeError:
            raise InputRefused("a session's name must be text that can be kept; this one is not UTF-8") from None
        except (ValueError, TypeError, IndexError) as error:  # what was read is not what was written
            raise StoreCorrupt(f"{self.path} is damaged ({error}); it was left as it is. Restore a backup") from error


def _load(db: apsw.Connection, key: str, bytes_max: int) -> Tail | None:
    row = db.execute(f"SELECT {COLUMNS} FROM sessions WHERE key=?", (key,)).fetchone()
    if row is None:
        return None
    standing, low = _standing(row), row[0] << 32
    bottom = low
    if standing.fold:
        body: Any = db.execute("SELECT body FROM events WHERE id=?", (low + standing.fold,)).fetchone()
        fold = decode(body[0])
        assert isinstance(fold, Folded)
        bottom = low + fold.upto
    rows: Rows = []
    size, top = 0, low + standing.head + 1
    while size < bytes_max or top > low + standing.floor:
        page: Rows = db.execute(  # type: ignore[assignment]
            "SELECT id, at, body FROM events WHERE id > ? AND id < ? ORDER BY id DESC LIMIT ?", (bottom, top, PAGE)
        ).fetchall()
        rows += page
        size += sum(len(body) for _, _, body in page)
        if len(page) < PAGE:
            return Tail(standing, _records(rows[::-1]), complete=True)
        top = page[-1][0]
    return Tail(standing, _records(rows[::-1]), complete=False)


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
        instructions=settings.instructions,
        metadata=settings.metadata,
    )
