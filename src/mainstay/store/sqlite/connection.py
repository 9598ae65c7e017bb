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

LOG_HEADER_BYTES, FRAME_HEADER_BYTES = 32, 24  # of SQLite's write-ahead log
FULL_DISK_BYTES = 64 * 1024  # free space below which the disk is the reason for a failed write
PAGE_CACHE_KB = 1000  # page cache per connection; the kernel's own cache holds the rest of the file


class DatabaseFiles:
    """The files of an open database: itself, its log (`-wal`) and the log's index (`-shm`). If one of them is removed
    or replaced, or the log is cut, writes succeed and are lost."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.log_path = f"{path}-wal"
        self._inodes = {path: _read_inode(path)}
        self._log_bytes = 0  # known size of the log

    def refresh_log(self) -> None:
        """Call it with each new connection, which may have created the log."""
        self._inodes |= {name: _read_inode(name) for name in (self.log_path, f"{self.path}-shm")}
        self._log_bytes = 0

    def note_log_size(self) -> None:
        """Call it after a commit: from then on the log is expected to have at least this size."""
        try:
            self._log_bytes = max(self._log_bytes, os.stat(self.log_path).st_size)
        except OSError:
            pass  # it was removed, which the next check finds

    def accept_shorter_log(self) -> None:
        """Call it when the log became shorter without a loss."""
        self._log_bytes = 0

    def find_removed(self) -> str:
        """Return the path of a file that was removed or replaced, or of a log that is shorter than it was; "" if all
        are in place."""
        for name, inode in self._inodes.items():
            try:
                status = os.stat(name)
                is_cut = name == self.log_path and status.st_size < self._log_bytes
                if inode is None or (status.st_ino == inode and not is_cut):
                    continue
            except OSError:
                pass
            return name
        return ""

    def has_inode(self, name: str) -> bool:
        """Return whether the file with this path is still the one that was opened."""
        return self._inodes[name] is not None and _read_inode(name) == self._inodes[name]


def rewrite_header(db: apsw.Connection) -> None:
    """Write a page without a change, which shows whether the database can be written."""
    db.execute(f"PRAGMA user_version = {db.pragma('user_version')}")


def _read_inode(path: str) -> int | None:
    try:
        return os.stat(path).st_ino
    except OSError:
        return None


def find_removal(db: apsw.Connection, files: DatabaseFiles) -> StoreCorrupt | None:
    """Return the error for a file that was removed, replaced or cut; None if all are in place."""
    if not (removed := files.find_removed()):
        return None
    if removed != files.log_path or not files.has_inode(removed):
        return save_removed_log(db, files, removed)
    try:
        ((_, frames, _),) = db.execute("PRAGMA wal_checkpoint(NOOP)").fetchall()  # the number of pages in the log
        needed = LOG_HEADER_BYTES + frames * (FRAME_HEADER_BYTES + db.pragma("page_size")) if frames else 0
        if os.stat(removed).st_size >= needed:
            files.accept_shorter_log()  # another program moved its contents into the database
            return None
    except (apsw.Error, OSError):
        pass
    return StoreCorrupt(f"{removed} was cut while it was in use, and what it held is lost: restore a backup")


def save_removed_log(db: apsw.Connection, files: DatabaseFiles, removed: str) -> StoreCorrupt:
    """Return the error for a removed or replaced file. The connection still has a removed log: what it holds is written
    to the database file, so that nothing committed is lost when the process ends."""
    what = f"{removed} was removed or replaced while it was in use"
    if removed == files.path:
        return StoreCorrupt(f"{what}; put it back and start again")
    try:
        rows: list[tuple[int, int, int]] = list(db.execute("PRAGMA wal_checkpoint(PASSIVE)"))
    except apsw.Error as error:
        return StoreCorrupt(f"{what}, and what it held cannot be saved ({error}): stop Mainstay and restore a backup")
    if any(saved < frames for _, frames, saved in rows):
        return StoreCorrupt(f"{what}; a part of what it held is not saved yet. Stop Mainstay to save it")
    return StoreCorrupt(f"{what}; all that it held is in {files.path}. Restart Mainstay")


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


def _concerns_shared_memory(error: apsw.IOError) -> bool:
    """Return whether the index of the log, which readers need too, could not be created."""
    codes = (apsw.SQLITE_IOERR_SHMSIZE, apsw.SQLITE_IOERR_SHMOPEN, apsw.SQLITE_IOERR_SHMMAP)
    return getattr(error, "extendedresult", 0) in codes


def _describe_full_disk(path: str) -> str:
    """Say which disk is full: that of the database, or that of SQLite's temporary files."""
    temporary = os.environ.get("SQLITE_TMPDIR") or os.environ.get("TMPDIR") or "/var/tmp"
    is_temporary = not has_full_disk(os.path.dirname(path)) and has_full_disk(temporary)
    where = f"temporary files in {temporary}, which {path} needs" if is_temporary else path
    return f"no space left for {where}: nothing was changed; free some and writing resumes by itself"


def has_full_disk(folder: str) -> bool:
    """Return whether the disk of a folder has no room for even a few pages or one more file."""
    try:
        disk = os.statvfs(folder or ".")
    except OSError:
        return False
    return disk.f_bavail * disk.f_frsize < FULL_DISK_BYTES or bool(disk.f_files and not disk.f_favail)


def is_damage(error: apsw.Error) -> bool:
    """Return whether SQLite found that the file is damaged, and not only an index that is derived from it."""
    if isinstance(error, apsw.CorruptError):
        return bool(getattr(error, "extendedresult", 0) != apsw.SQLITE_CORRUPT_VTAB)
    return isinstance(error, apsw.NotADBError)


def translate_error(error: apsw.Error, path: str) -> StoreError | HomeUnusable:
    match error:
        case apsw.FullError():
            return StoreFull(_describe_full_disk(path))
        case apsw.IOError() if _concerns_shared_memory(error) and has_full_disk(os.path.dirname(path)):
            return StoreFull(_describe_full_disk(path))
        case apsw.NoMemError():
            return StoreFailed(f"{path}: out of memory; free some, or raise the memory limit of this process")
        case apsw.BusyError() | apsw.LockedError():
            return StoreBusy(
                f"another program holds {path}: nothing was changed; close that program and writing resumes by itself"
            )
        case apsw.CorruptError() | apsw.NotADBError():
            return StoreCorrupt(
                f"{path} is damaged ({error}); it was left as it is. Stop Mainstay and restore a backup (`mainstay "
                f"restore FOLDER`), or try: sqlite3 {path} .recover"
            )
        case apsw.ReadOnlyError() | apsw.CantOpenError() | apsw.PermissionsError():
            return HomeUnusable(f"cannot write {path} ({error}): check its permissions, owner, disk and open files")
        case _:
            return StoreFailed(f"{path}: {type(error).__name__}: {error}")
