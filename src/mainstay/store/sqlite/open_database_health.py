"""Health check of a database that this process has open for writing."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from mainstay.core.errors import MainstayError, StoreCorrupt
from mainstay.core.health import CheckFinding
from mainstay.core.supervision import log_task_exception
from mainstay.core.worker_threads import run_in_thread
from mainstay.store.sqlite.connection import connect, map_sqlite_errors

BUSY_S = 5.0
INTEGRITY_INTERVAL_S = 60.0  # at least, between two complete readings
INTEGRITY_TIME_FACTOR = 100  # and so many times as long as the last one took
INTEGRITY_BYTES_MAX = 1 << 30  # larger files are read completely by `doctor` only


class OpenDatabase(Protocol):
    """A database that is open for writing."""

    path: str

    async def find_problem(self) -> str:
        """Return why nothing can be written; "" if nothing is known to prevent it."""
        ...

    def report_damage(self, damage: StoreCorrupt) -> None: ...


class OpenDatabaseCheck:
    """Checks that the database can be written to, that its files are in place and, now and then and in the background,
    that the whole file is intact."""

    def __init__(self, subject: str, database: OpenDatabase) -> None:
        self.subject = subject
        self._database = database
        self._integrity_task: asyncio.Task[None] | None = None
        self._next_integrity = 0.0  # monotonic time

    async def run(self) -> Sequence[CheckFinding]:
        if problem := await self._database.find_problem():
            return [CheckFinding("Database", "FAIL", problem, "mainstay doctor")]
        if self._integrity_task is None and time.monotonic() >= self._next_integrity:
            self._integrity_task = asyncio.get_running_loop().create_task(self._check_integrity())
            self._integrity_task.add_done_callback(log_task_exception)
        return [CheckFinding("Database", "ok", f"{self._database.path} can be written")]

    async def _check_integrity(self) -> None:
        path, began = Path(self._database.path), time.monotonic()
        try:
            damage: str = await run_in_thread(lambda: find_damage(path, bytes_max=INTEGRITY_BYTES_MAX))
            if damage:
                fix = "Stop Mainstay and restore a backup (`mainstay restore FOLDER`)"
                self._database.report_damage(StoreCorrupt(f"{path} is damaged ({damage}); it was left as it is. {fix}"))
        except (MainstayError, OSError):
            pass  # it cannot be read now; a write or the next reading shows why
        finally:
            took_s = time.monotonic() - began
            self._next_integrity = time.monotonic() + max(INTEGRITY_INTERVAL_S, INTEGRITY_TIME_FACTOR * took_s)
            self._integrity_task = None


def find_damage(path: Path, *, bytes_max: int | None = None) -> str:
    """Read a whole database and return the first damage that SQLite finds; "" if it is intact, or larger than
    `bytes_max`. Raises StoreError or HomeUnusable if it cannot be read."""
    if bytes_max is not None and os.stat(path).st_size > bytes_max:
        return ""
    try:
        with map_sqlite_errors(str(path)):
            db = connect(str(path), busy_s=BUSY_S, read_only=True)
            try:
                verdict = str(db.execute("PRAGMA quick_check(1)").get)
            finally:
                db.close()
    except StoreCorrupt as error:
        return str(error.__cause__)
    return "" if verdict == "ok" else verdict
