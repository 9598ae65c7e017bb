"""Copies a SQLite database while other connections write to it, and verifies the copy."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path

import apsw
import msgspec

from mainstay.core.errors import StoreCorrupt, StoreFull, StoreLost
from mainstay.store.sqlite.connection import connect, map_sqlite_errors

BUSY_S = 30.0
# Tables of which the rows are counted, where they exist: those that no other data can replace.
COUNTED_TABLES: Sequence[str] = ("sessions", "events", "memories", "people", "keys", "audit", "ledger")


class DatabaseCopy(msgspec.Struct, frozen=True):
    """What a copy of a database contains."""

    digest: str  # SHA-256 of the file
    rows: dict[str, int]  # by table


def copy_database(source: Path, target: Path) -> DatabaseCopy:
    """Copy a database with SQLite's backup API, as of one moment and without blocking writers, and verify the copy.
    Raises StoreError."""
    try:
        os.close(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    except OSError as error:
        raise StoreFull(f"{target} cannot be written: {error.strerror or error}") from error
    with map_sqlite_errors(str(source)):
        reading = connect(str(source), busy_s=BUSY_S, read_only=True)
        try:
            with map_sqlite_errors(str(target)):
                writing = apsw.Connection(str(target))
                try:
                    with writing.backup("main", reading, "main") as backup:
                        backup.step(-1)
                    writing.pragma("journal_mode", "delete")  # a copy is one file
                finally:
                    writing.close()
        finally:
            reading.close()
    _sync_file(target)
    return inspect_copy(target)


def inspect_copy(path: Path, shown: Path | None = None) -> DatabaseCopy:
    """Read a copy completely and return what it contains. Raises StoreCorrupt if it is damaged; `shown` is the file
    that the error names."""
    shown = shown or path
    if not path.is_file():
        raise StoreLost(f"{shown} is missing")
    with map_sqlite_errors(str(shown)):
        db = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
        try:
            problem = str(db.execute("PRAGMA integrity_check(1)").get)
            if problem != "ok":
                raise StoreCorrupt(f"{shown} is damaged: {problem}")
            tables = {name for (name,) in db.execute("SELECT name FROM sqlite_schema WHERE type='table'")}
            rows = {
                table: int(db.execute(f"SELECT count(*) FROM {table}").get)
                for table in COUNTED_TABLES
                if table in tables
            }
        finally:
            db.close()
    with open(path, "rb") as file:
        return DatabaseCopy(hashlib.file_digest(file, "sha256").hexdigest(), rows)


def _sync_file(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
