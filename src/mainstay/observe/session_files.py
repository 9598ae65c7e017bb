"""Keeps `log.jsonl` and `context.jsonl` of each session as files beside its other files, up to date with the journal.

The journal is the truth: the files are derived from it, and written again where they differ. A file's time is that of
the session's last record, which is how the next process finds the files that are behind.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterable
from pathlib import Path

from mainstay.core.errors import HomeUnusable
from mainstay.core.journal import Record
from mainstay.core.ports import SessionInfo, Store
from mainstay.core.projection_ports import JournalBatch
from mainstay.core.worker_threads import run_in_thread
from mainstay.observe.session_export import ExportFile, ExportOptions, export_lines

FILES: tuple[ExportFile, ...] = ("log", "context")
PAGE_SESSIONS = 500
NS_PER_MS = 1_000_000


class SessionFileProjection:
    """`folder_of` returns a session's folder, `options_of` how it is exported."""

    name = "session files"

    def __init__(
        self, store: Store, folder_of: Callable[[str], Path], options_of: Callable[[str], ExportOptions]
    ) -> None:
        self._store = store
        self._folder_of = folder_of
        self._options_of = options_of
        self._lock = asyncio.Lock()  # one writer of the files at a time

    async def positions(self) -> dict[str, int]:
        """Return the heads of the sessions whose files are up to date."""
        found: dict[str, int] = {}
        offset = 0
        while page := await self._store.list_sessions(limit=PAGE_SESSIONS, offset=offset):
            found |= {info.key: info.head for info in page if self._is_current(info)}
            offset += len(page)
        return found

    def _is_current(self, info: SessionInfo) -> bool:
        try:
            times = [os.stat(path).st_mtime_ns // NS_PER_MS for path in _list_paths(self._folder_of(info.key))]
        except OSError:
            return False
        return all(time == info.updated for time in times)

    async def apply(self, batch: JournalBatch) -> None:
        if batch.records[-1].seq >= batch.info.head:  # else another batch follows
            await self.refresh(batch.info.key)

    async def refresh(self, session: str) -> None:
        """Write a session's files as its journal is now; remove them if it is deleted."""
        async with self._lock:
            await self._refresh(session)

    async def _refresh(self, session: str) -> None:
        records: list[Record] = []
        while page := await self._store.read_records(session, records[-1].seq if records else 0):
            records += page
        folder = self._folder_of(session)
        if (info := await self._find_session(session)) is not None:
            updated, options = info.updated, self._options_of(session)
            await run_in_thread(lambda: _write_files(folder, records, options, updated))
            info = await self._find_session(session)  # it may have been deleted meanwhile
        if info is None:
            await run_in_thread(lambda: _remove_files(folder))

    async def _find_session(self, session: str) -> SessionInfo | None:
        info = await self._store.get_session(session)
        return info if info is not None and info.status != "deleted" else None


def _list_paths(folder: Path) -> list[Path]:
    return [folder / f"{file}.jsonl" for file in FILES]


def _write_files(folder: Path, records: list[Record], options: ExportOptions, updated: int) -> None:
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        for file, path in zip(FILES, _list_paths(folder), strict=True):
            update_lines(path, export_lines(records, file, options))
            os.utime(path, ns=(updated * NS_PER_MS, updated * NS_PER_MS))
    except OSError as error:
        raise HomeUnusable(f"{folder}: {error.strerror or error}") from error


def _remove_files(folder: Path) -> None:
    for path in _list_paths(folder):
        path.unlink(missing_ok=True)


def update_lines(path: Path, lines: Iterable[bytes]) -> None:
    """Bring a file up to date in place. What is right in it is left, so that `tail -f` shows what is new."""
    with open(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600), "r+b") as file:
        kept, is_same = 0, True
        for line in lines:
            whole = line + b"\n"
            if is_same and file.read(len(whole)) == whole:
                kept += len(whole)
                continue
            if is_same:
                is_same = False
                file.seek(kept)
            file.write(whole)
        if is_same:
            file.seek(kept)
        file.truncate()
