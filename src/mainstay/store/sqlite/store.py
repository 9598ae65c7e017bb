"""Journal store on SQLite (the Store port), and access to everything else in the workspace's database file."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import apsw
import msgspec

from mainstay.core.errors import HomeUnusable, SessionUnknown, StoreCorrupt, StoreError, StoreFailed
from mainstay.core.journal import Record, decode_events
from mainstay.core.limits import Limits
from mainstay.core.memory_tiers import Fact, WorkspaceTiers
from mainstay.core.ports import IdempotencyKey, SessionInfo, SessionStatus, SessionTail
from mainstay.core.projection_ports import JournalPage
from mainstay.store.sqlite.connection import rewrite_header
from mainstay.store.sqlite.erasure import blank_session, find_newest_fold, redact_records, remove_facts_from_folds
from mainstay.store.sqlite.file_labels import SqliteFileLabels
from mainstay.store.sqlite.index_maintenance import purge_steps
from mainstay.store.sqlite.journal_append import (
    INSERT_EVENT,
    INSERT_SESSION,
    SELECT_INPUT,
    JournalAppend,
    SessionRowSettings,
    encode_settings,
)
from mainstay.store.sqlite.journal_loss import check_for_loss
from mainstay.store.sqlite.large_values import copy_values, read_value, save_value_steps
from mainstay.store.sqlite.reader_thread import ReaderThread
from mainstay.store.sqlite.tier_cursors import to_json_array
from mainstay.store.sqlite.workspace_database import JournalDatabase
from mainstay.store.sqlite.workspace_tiers import build_tiers
from mainstay.store.sqlite.writer_thread import BackgroundJob, WriteJob, WriterThread

if TYPE_CHECKING:  # each is loaded on first use
    from mainstay.core.health import HealthCheck
    from mainstay.store.sqlite.channel_queue import SqliteChannelQueue
    from mainstay.store.sqlite.plugin_state import SqlitePluginState
    from mainstay.store.sqlite.trigger_log import SqliteTriggerLog

log = logging.getLogger("mainstay.store")

T = TypeVar("T")
# see SESSION_COLUMNS
SessionRow = tuple[int, str, int, int, int, int, SessionStatus, int, int, int, int, float, int, int, str]
EventRows = list[tuple[int, int, str]]  # id, at, body

SESSION_COLUMNS = """id, key, head, fold, floor, unfinished, status, turns, messages, prompt_tokens, completion_tokens,
    cost, created, updated, settings"""
PAGE_ROWS = 256

_decode_settings = msgspec.json.Decoder(SessionRowSettings).decode


class SqliteStore:
    """Appends go to one writer thread (group commit), reads to a reader thread with its own connection."""

    def __init__(
        self,
        path: str,
        *,
        limits: Limits | None = None,
        vfs: str | None = None,
        read_only: bool = False,
        home_database: Path | None = None,
    ) -> None:
        self.path = path
        self._home_database = home_database
        self._health_checks: Sequence[HealthCheck] = ()  # created when they are first asked for
        self._limits = limits or Limits()
        self._vfs = vfs
        self._read_only = read_only
        self._writer: WriterThread | None = None
        self._reader = self._new_reader()
        self._tier_reader: ReaderThread | None = None
        # in the write-ahead file, but not yet queued for the writer thread
        self._unqueued_appends: list[JournalAppend] = []

    async def open(self) -> None:
        self._loop = asyncio.get_running_loop()
        if not self._read_only:
            writer = WriterThread(
                self.path,
                busy_s=self._limits.store_busy_s,
                batch_max=self._limits.commit_batch_max,
                vfs=self._vfs,
            )
            await self._reader.run_without_connection(partial(check_for_loss, Path(self.path), self._home_database))
            await self._reader.run_without_connection(writer.open)
            writer.start()
            self._writer = writer
        await self._run_read(lambda db: None)

    async def close(self) -> None:
        for reader in (self._tier_reader, self._reader):
            if reader is not None:  # before the writer: SQLite checkpoints the WAL when the last connection closes
                await reader.close()
        if self._writer is not None:
            self._submit_unqueued(self._writer)
            self._writer.queue.put(None)
            await self._reader.run_without_connection(self._writer.join)
            self._writer = None

    def tiers(self, *, vectors: bool = True) -> WorkspaceTiers:
        """Return the memory tiers of this workspace, in the same file."""
        return build_tiers(self._workspace_database(), vectors=vectors)

    @asynccontextmanager
    async def open_tiers(self, *, vectors: bool) -> AsyncIterator[WorkspaceTiers]:
        yield self.tiers(vectors=vectors)  # they are closed with the store

    def plugin_state(self) -> SqlitePluginState:
        """Return the key-value state of this workspace's plugins."""
        from mainstay.store.sqlite.plugin_state import SqlitePluginState

        return SqlitePluginState(self._workspace_database())

    def trigger_log(self) -> SqliteTriggerLog:
        """Return the trigger log of this workspace."""
        from mainstay.store.sqlite.trigger_log import SqliteTriggerLog

        return SqliteTriggerLog(self._workspace_database())

    def channel_queue(self) -> SqliteChannelQueue:
        """Return the queues of messages from and deliveries to chat platforms."""
        from mainstay.store.sqlite.channel_queue import SqliteChannelQueue

        return SqliteChannelQueue(self._workspace_database())

    async def load_file_labels(self) -> SqliteFileLabels:
        """Load and return the labels of this workspace's files."""
        labels = SqliteFileLabels(self._workspace_database())
        await labels.open()
        return labels

    # --- health ----------------------------------------------------------------------------------

    def health_checks(self) -> Sequence[HealthCheck]:
        from mainstay.store.sqlite.open_database_health import OpenDatabaseCheck  # for servers only

        self._health_checks = self._health_checks or (
            OpenDatabaseCheck(f"workspace {Path(self.path).parent.name}", self),
        )
        return self._health_checks

    def report_damage(self, damage: StoreCorrupt) -> None:
        """Stop writing: the file is damaged, and accepts no input until it is restored."""
        if self._writer is not None and self._writer.damage is None:
            log.error("nothing is written to %s any more: %s", self.path, damage)
            self._writer.damage = damage

    async def find_problem(self) -> str:
        """Return why nothing can be written; "" if nothing is known to prevent it. After a failed write, and if a file
        was removed, it tries to write."""
        writer = self._writer
        if writer is None or not (writer.damage or writer.write_error or writer.find_removed_file()):
            return ""
        try:
            await self._run_job(rewrite_header)
        except (StoreError, HomeUnusable) as error:
            return str(error)
        return ""

    # --- writing ---------------------------------------------------------------------------------

    def append(
        self,
        info: SessionInfo,
        expected: int,
        events: Sequence[bytes],
        idempotency_key: IdempotencyKey | None = None,
        *,
        synced: bool = True,
    ) -> Awaitable[None]:
        done: asyncio.Future[None] = self._loop.create_future()
        append = JournalAppend(info, expected, events, idempotency_key, done)
        if (
            not synced
            and self._writer is not None
            and self._writer.write_ahead_file.append_entry(info, expected, events)
        ):
            append.is_written_ahead = True
            self._unqueued_appends.append(append)
            done.set_result(None)
        else:
            self._submit(append)
        return done

    async def fork_session(self, source: str, upto: int, info: SessionInfo, event: bytes) -> None:
        await self._run_job(lambda db: _copy_session(db, source, upto, info, event))

    async def blank_session(self, key: str, at: int) -> None:
        await self._erase(lambda db: blank_session(db, key, at))

    async def redact_records(self, key: str, seqs: Sequence[int]) -> None:
        await self._erase(lambda db: redact_records(db, key, seqs))

    async def remove_facts(self, key: str, facts: Sequence[Fact]) -> None:
        await self._erase(lambda db: remove_facts_from_folds(db, key, facts))

    async def _erase(self, work: Callable[[apsw.Connection], None]) -> None:
        """Erase contents; purge the full-text indexes in the background and the file's free space on close."""
        await self._run_job(work)
        if self._writer is not None:
            self._writer.needs_purge = True
            self._writer.write_ahead_file.request_truncation()
            done: asyncio.Future[None] = self._loop.create_future()
            done.add_done_callback(lambda done: done.cancelled() or done.exception())  # not awaited
            self._writer.queue.put(BackgroundJob(purge_steps(), done))

    async def save_value(self, key: str, ref: str, body: str) -> None:
        for work in save_value_steps(key, ref, body):
            await self._run_job(work)

    # --- reading ---------------------------------------------------------------------------------

    async def load_tail(self, key: str, bytes_max: int) -> SessionTail | None:
        if self._writer is not None and (self._unqueued_appends or self._writer.unstored_appends):
            with contextlib.suppress(StoreFailed):  # store appends that were written ahead, so that they are loaded too
                await self._run_job(lambda db: None)
        return await self._run_read(lambda db: _load_tail(db, key, bytes_max))

    async def read_records(self, key: str, after: int = 0, limit: int = 1000) -> list[Record]:
        def work(db: apsw.Connection) -> list[Record]:
            row = db.execute("SELECT id FROM sessions WHERE key=?", (key,)).fetchone()
            return _read_records(db, row[0] << 32, after, limit) if row is not None else []

        return await self._run_read(work)

    async def find_input(self, key: str, id: str) -> tuple[int, str] | None:
        return await self._run_read(lambda db: db.execute(SELECT_INPUT, (key, id)).fetchone())

    async def list_unfinished(self) -> list[str]:
        return await self._run_read(
            lambda db: [row[0] for row in db.execute("SELECT key FROM sessions WHERE unfinished ORDER BY id")]
        )

    async def list_sessions(
        self, *, limit: int = 100, offset: int = 0, include_deleted: bool = False
    ) -> list[SessionInfo]:
        where = "" if include_deleted else "WHERE status != 'deleted'"
        sql = f"SELECT {SESSION_COLUMNS} FROM sessions {where} ORDER BY updated DESC, id DESC LIMIT ? OFFSET ?"
        return await self._run_read(lambda db: [_row_to_info(row) for row in db.execute(sql, (limit, offset))])

    async def get_session(self, key: str) -> SessionInfo | None:
        def work(db: apsw.Connection) -> SessionInfo | None:
            row = db.execute(f"SELECT {SESSION_COLUMNS} FROM sessions WHERE key=?", (key,)).fetchone()
            return _row_to_info(row) if row else None

        return await self._run_read(work)

    async def list_heads(self) -> dict[str, int]:
        def work(db: apsw.Connection) -> dict[str, int]:
            rows: Iterable[tuple[str, int]] = db.execute("SELECT key, head FROM sessions WHERE status != 'deleted'")
            return dict(rows)

        return await self._run_read(work)

    async def read_many(self, wanted: Sequence[tuple[str, int]], limit: int) -> list[JournalPage | None]:
        return await self._run_read(lambda db: [_read_journal_page(db, key, after, limit) for key, after in wanted])

    async def read_value(self, key: str, ref: str, offset: int, limit: int) -> tuple[str, int] | None:
        return await self._run_read(lambda db: read_value(db, key, ref, offset, limit))

    # --- the threads -----------------------------------------------------------------------------

    def _new_reader(self) -> ReaderThread:
        return ReaderThread(self.path, busy_s=self._limits.store_busy_s, vfs=self._vfs, on_damage=self.report_damage)

    def _workspace_database(self) -> JournalDatabase:
        if self._tier_reader is None:
            self._tier_reader = self._new_reader()
        return JournalDatabase(self._tier_reader, self._submit)

    def _submit(self, item: JournalAppend | WriteJob | BackgroundJob) -> None:
        if self._writer is None:
            raise StoreFailed(f"{self.path} is not open for writing")
        self._submit_unqueued(self._writer)
        self._writer.queue.put(item)

    def _submit_unqueued(self, writer: WriterThread) -> None:
        """Queue the appends that were written ahead, before anything newer."""
        for append in self._unqueued_appends:
            writer.queue.put(append)
        self._unqueued_appends.clear()

    async def _run_job(self, work: Callable[[apsw.Connection], T]) -> T:
        done: asyncio.Future[T] = self._loop.create_future()
        self._submit(WriteJob(work, done))
        return await done

    async def _run_read(self, work: Callable[[apsw.Connection], T]) -> T:
        return await self._reader.run(work)


def _read_journal_page(db: apsw.Connection, key: str, after: int, limit: int) -> JournalPage | None:
    row = db.execute(f"SELECT {SESSION_COLUMNS} FROM sessions WHERE key=?", (key,)).fetchone()
    return (
        JournalPage(_row_to_info(row), after, _read_records(db, row[0] << 32, after, limit))
        if row is not None
        else None
    )


def _read_records(db: apsw.Connection, low: int, after: int, limit: int) -> list[Record]:
    rows = db.execute(
        "SELECT id, at, body FROM events WHERE id > ? AND id < ? ORDER BY id LIMIT ?",
        (low + after, low + (1 << 32), limit),
    )
    return _rows_to_records(list(rows))


def _load_tail(db: apsw.Connection, key: str, bytes_max: int) -> SessionTail | None:
    row = db.execute(f"SELECT {SESSION_COLUMNS} FROM sessions WHERE key=?", (key,)).fetchone()
    if row is None:
        return None
    info, low = _row_to_info(row), row[0] << 32
    bottom, lowest = low, low + info.floor
    if info.fold:
        fold, upto = find_newest_fold(db, low, info.fold)
        info = msgspec.structs.replace(info, fold=fold)
        bottom, lowest = low + upto, low if fold else lowest  # after a fold, load all records
    rows: EventRows = []
    size, top, complete = 0, low + info.head + 1, False
    while not complete and (size < bytes_max or top > lowest):
        sql = "SELECT id, at, body FROM events WHERE id > ? AND id < ? ORDER BY id DESC LIMIT ?"
        page: EventRows = list(db.execute(sql, (bottom, top, PAGE_ROWS)))
        rows += page
        size += sum(len(body) for _, _, body in page)
        complete = len(page) < PAGE_ROWS
        top = page[-1][0] if page else top
    return SessionTail(info, _rows_to_records(rows[::-1]), complete, _load_pinned_records(db, low, info, top))


def _load_pinned_records(db: apsw.Connection, low: int, info: SessionInfo, before: int) -> list[Record]:
    """Return the records that hold the fixed section and the client's tools, if they are older than those loaded."""
    ids = [low + seq for seq in (info.fixed, info.amended, info.client_tools_seq) if seq and low + seq < before]
    if not ids:
        return []
    sql = "SELECT id, at, body FROM events WHERE id IN (SELECT value FROM json_each(?)) ORDER BY id"
    return _rows_to_records(list(db.execute(sql, (to_json_array(ids),))))


def _copy_session(db: apsw.Connection, source: str, upto: int, info: SessionInfo, event: bytes) -> None:
    row = db.execute("SELECT id FROM sessions WHERE key=?", (source,)).fetchone()
    if row is None:
        raise SessionUnknown(f"there is no session {source!r}")
    values = (
        *(info.head, info.fold, info.floor, info.unfinished, info.status),
        *(info.turns, info.messages, info.prompt_tokens, info.completion_tokens),
        *(info.cost, info.updated, encode_settings(info), info.key, info.created),
    )
    inserted = db.execute(INSERT_SESSION, values).fetchone()
    if inserted is None:
        raise StoreFailed(f"there is a session {info.key!r} already")
    old, new = row[0] << 32, inserted[0] << 32
    db.execute(
        "INSERT INTO events (id, at, body) SELECT id - ? + ?, at, body FROM events WHERE id > ? AND id <= ?",
        (old, new, old, old + upto),
    )
    db.execute(INSERT_EVENT, (new + upto + 1, info.updated, event.decode()))
    copy_values(db, row[0], inserted[0], upto)


def _rows_to_records(rows: EventRows) -> list[Record]:
    events = decode_events([body for _, _, body in rows])
    return [Record(id & 0xFFFFFFFF, at, event) for (id, at, _), event in zip(rows, events, strict=True)]


def _row_to_info(row: SessionRow) -> SessionInfo:
    settings = _decode_settings(row[14])
    return SessionInfo(
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
        window_tokens=settings.window_tokens,
        private=settings.private,
        approval=settings.approval,
        spawned=settings.spawned,
        delivered=settings.delivered,
        client_tools_seq=settings.client_tools_seq,
        person=settings.person,
        calls=settings.calls,
        stopped_turn=settings.stopped_turn,
        set_aside=settings.set_aside,
        budget=settings.budget,
        compacted=settings.compacted,
    )
