"""SQLite connections with safe settings, schema migrations, and the mapping of SQLite's errors to StoreErrors."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import apsw

from mainstay.core.errors import (
    HomeUnusable,
    StoreBusy,
    StoreCorrupt,
    StoreError,
    StoreFailed,
    StoreFull,
    StoreTooNew,
)

SqliteValue = int | float | str | bytes | None

PAGE_CACHE_KB = 1000  # page cache per connection; the kernel's own cache holds the rest of the file


def check_file_identity(path: str, inode: int) -> None:
    """Raise StoreCorrupt if the file was removed or replaced: writes to it would succeed and be lost."""
    try:
        found = os.stat(path).st_ino
    except OSError:
        found = -1
    if found != inode:
        raise StoreCorrupt(f"{path} was removed or replaced while it was in use; put it back and start again")


def connect(path: str, *, busy_s: float, vfs: str | None = None, read_only: bool = False) -> apsw.Connection:
    """Open a connection in WAL mode with full sync; raises StoreError or HomeUnusable."""
    flags = apsw.SQLITE_OPEN_READONLY if read_only else apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE
    with map_sqlite_errors(path):
        db = apsw.Connection(path, flags=flags, vfs=vfs)
        try:
            db.set_busy_timeout(int(busy_s * 1000))
            db.pragma("cache_size", -PAGE_CACHE_KB)
            if not read_only:
                db.pragma("journal_mode", "wal")
                db.pragma("synchronous", "full")
                db.pragma("secure_delete", True)  # overwrite deleted content with zeros
            db.pragma("user_version")  # reads the header, and so fails here if the file is not a database
        except BaseException:
            db.close()
            raise
    return db


def migrate(db: apsw.Connection, path: str) -> None:
    """Apply the missing migrations, each in its own transaction; raises StoreTooNew for a newer release's file."""
    steps = load_migrations()
    with map_sqlite_errors(path):
        version = db.pragma("user_version")
        if version > len(steps):
            raise StoreTooNew(
                f"{path} was written by a newer release (schema {version}, this one supports {len(steps)}); "
                "use that release, or another home"
            )
        for number, sql in enumerate(steps[version:], start=version + 1):
            db.execute("BEGIN IMMEDIATE")
            try:
                if db.pragma("user_version") < number:  # another process may have applied it meanwhile
                    db.execute(sql)
                    db.execute(f"PRAGMA user_version = {number}")
                db.execute("COMMIT")
            except BaseException:
                if db.in_transaction:
                    db.execute("ROLLBACK")
                raise


def load_migrations() -> list[str]:
    folder = Path(__file__).with_name("migrations")
    names = sorted(entry.name for entry in folder.iterdir() if re.fullmatch(r"\d{4}\.sql", entry.name))
    return [(folder / name).read_text() for name in names]


@contextmanager
def map_sqlite_errors(path: str) -> Iterator[None]:
    """Raise SQLite's errors as StoreError or HomeUnusable."""
    try:
        yield
    except apsw.Error as error:
        raise translate_error(error, path) from error


def translate_error(error: apsw.Error, path: str) -> StoreError | HomeUnusable:
    match error:
        case apsw.FullError():
            return StoreFull(f"no space left for {path}: nothing was changed; free some and writing resumes by itself")
        case apsw.BusyError() | apsw.LockedError():
            return StoreBusy(
                f"another program holds {path}: nothing was changed; close that program and writing resumes by itself"
            )
        case apsw.CorruptError() | apsw.NotADBError():
            return StoreCorrupt(
                f"{path} is damaged ({error}); it was left as it is. Restore a backup, or try: sqlite3 {path} .recover"
            )
        case apsw.ReadOnlyError() | apsw.CantOpenError() | apsw.PermissionsError():
            return HomeUnusable(f"cannot write {path} ({error}): check its permissions, owner, disk and open files")
        case _:
            return StoreFailed(f"{path}: {type(error).__name__}: {error}")
