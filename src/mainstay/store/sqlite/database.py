"""One SQLite file: opening it safely, moving its schema forward, naming what is wrong with it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.resources import files

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

CACHE_KB = 1000  # of pages a connection keeps; the kernel's own cache holds the rest of the file


def connect(path: str, *, busy_s: float, vfs: str | None = None, read_only: bool = False) -> apsw.Connection:
    flags = apsw.SQLITE_OPEN_READONLY if read_only else apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE
    with named(path):
        db = apsw.Connection(path, flags=flags, vfs=vfs)
        try:
            db.set_busy_timeout(int(busy_s * 1000))
            db.pragma("cache_size", -CACHE_KB)
            if not read_only:
                db.pragma("journal_mode", "wal")
                db.pragma("synchronous", "full")
                db.pragma("secure_delete", True)  # what is forgotten is overwritten, not only left unused
            db.pragma("user_version")  # reads the header: a file that is no database shows itself here
        except BaseException:
            db.close()
            raise
    return db


def migrate(db: apsw.Connection, path: str) -> None:
    """Forward only, each step in its own transaction; a file of a newer release is left alone."""
    steps = migrations()
    with named(path):
        have = db.pragma("user_version")
        if have > len(steps):
            raise StoreTooNew(
                f"{path} was written by a newer release (schema {have}, this one knows {len(steps)}); "
                "use that release, or another home"
            )
        for number, sql in enumerate(steps[have:], start=have + 1):
            db.execute("BEGIN IMMEDIATE")
            try:
                if db.pragma("user_version") < number:  # somebody else may have been quicker
                    db.execute(sql)
                    db.execute(f"PRAGMA user_version = {number}")
                db.execute("COMMIT")
            except BaseException:
                if db.in_transaction:
                    db.execute("ROLLBACK")
                raise


def migrations() -> list[str]:
    folder = files("mainstay.store.sqlite") / "migrations"
    found = sorted(entry.name for entry in folder.iterdir() if re.fullmatch(r"\d{4}\.sql", entry.name))
    return [(folder / name).read_text() for name in found]


@contextmanager
def named(path: str) -> Iterator[None]:
    """Maps SQLite's errors to ours; the only place that does."""
    try:
        yield
    except apsw.Error as error:
        raise translate(error, path) from error


def translate(error: apsw.Error, path: str) -> StoreError | HomeUnusable:
    match error:
        case apsw.FullError():
            return StoreFull(f"no space left for {path}: nothing was changed; free some and it goes on by itself")
        case apsw.BusyError() | apsw.LockedError():
            return StoreBusy(f"another program holds {path}: nothing was changed; close it and it goes on by itself")
        case apsw.CorruptError() | apsw.NotADBError():
            return StoreCorrupt(
                f"{path} is damaged ({error}); it was left as it is. Restore a backup, or try: sqlite3 {path} .recover"
            )
        case apsw.ReadOnlyError() | apsw.CantOpenError() | apsw.PermissionsError():
            return HomeUnusable(f"cannot write {path} ({error}): check its permissions, owner, disk and open files")
        case _:
            return StoreFailed(f"{path}: {type(error).__name__}: {error}")
