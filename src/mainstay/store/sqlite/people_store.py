"""PeopleStore on SQLite: people, channel accounts, pairings and API keys, in a private file of the home.

Writes are small and rare, so there is one connection behind a lock, used from worker threads.
"""

from __future__ import annotations

import os
import re
import stat
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

import apsw
import msgspec

from mainstay.core.errors import HomeUnusable, InputRefused, StoreCorrupt, StoreFailed, StoreTooNew
from mainstay.core.people import (
    REVOKED_KEYS_MAX,
    AccessScope,
    ApiKey,
    ChannelIdentity,
    PendingPairing,
    Person,
    PersonRole,
)
from mainstay.core.worker_threads import run_in_thread
from mainstay.store.sqlite.connection import DatabaseFiles, connect, map_sqlite_errors, save_removed_log

T = TypeVar("T")

BUSY_S = 5.0

_PERSON_COLUMNS = "name, called, roles, created"
_UPSERT_PERSON = f"""
INSERT INTO people ({_PERSON_COLUMNS}) VALUES (?,?,?,?)
ON CONFLICT (name) DO UPDATE SET called=excluded.called, roles=excluded.roles, created=excluded.created"""
_UPSERT_IDENTITY = """
INSERT INTO identities (channel, user, person) VALUES (?,?,?)
ON CONFLICT (channel, user) DO UPDATE SET person=excluded.person"""
_PAIRING_COLUMNS = "digest, channel, user, called, created, expires"
_REPLACE_PAIRING = f"INSERT OR REPLACE INTO pairings ({_PAIRING_COLUMNS}) VALUES (?,?,?,?,?,?)"
_CONSUME_PAIRING = "DELETE FROM pairings WHERE digest=? AND channel=? AND user=? AND expires>? RETURNING 1"
_KEY_COLUMNS = "id, digest, person, workspace, scopes, note, rate_per_min, streams_max, created, expires, revoked"
_REPLACE_KEY = f"INSERT OR REPLACE INTO keys ({_KEY_COLUMNS}) VALUES (?,?,?,?,?,?,?,?,?,?,?)"
_DELETE_OLD_REVOKED_KEYS = """
DELETE FROM keys WHERE revoked > 0
AND id NOT IN (SELECT id FROM keys WHERE revoked > 0 ORDER BY revoked DESC, id DESC LIMIT ?)"""

_encode = msgspec.json.Encoder().encode
_decode_roles = msgspec.json.Decoder(dict[str, PersonRole]).decode
_decode_scopes = msgspec.json.Decoder(tuple[AccessScope, ...]).decode


class SqlitePeopleStore:
    """`path` is created, readable only by its owner, if it does not exist."""

    def __init__(self, path: str, *, busy_s: float = BUSY_S, vfs: str | None = None) -> None:
        self.path = path
        self._busy_s = busy_s
        self._vfs = vfs
        self._lock = threading.Lock()
        self._db: apsw.Connection | None = None
        self._files: DatabaseFiles | None = None  # None: it was not opened yet
        self._is_open = False

    async def open(self) -> None:
        def work() -> None:
            with self._lock:
                create_private_file(self.path)
                self._files = None
                self._connection()
                self._is_open = True

        await run_in_thread(work)

    async def close(self) -> None:
        def work() -> None:
            with self._lock:
                self._is_open = False
                db, self._db = self._db, None
                if db is not None:
                    db.close()

        await run_in_thread(work)

    # --- people and their accounts ---------------------------------------------------------------

    async def list_people(self) -> list[Person]:
        def work(db: apsw.Connection) -> list[Person]:
            return [_row_to_person(row) for row in db.execute(f"SELECT {_PERSON_COLUMNS} FROM people ORDER BY name")]

        return await self._read(work)

    async def put_person(self, person: Person) -> None:
        await self._write(lambda db: _upsert_person(db, person))

    async def remove_person(self, name: str) -> bool:
        now = time.time_ns() // 1_000_000

        def work(db: apsw.Connection) -> bool:
            before = db.total_changes()
            db.execute("DELETE FROM people WHERE name=?", (name,))
            db.execute("DELETE FROM identities WHERE person=?", (name,))
            db.execute("UPDATE keys SET revoked=? WHERE person=? AND revoked=0", (now, name))
            changed = db.total_changes() > before
            db.execute(_DELETE_OLD_REVOKED_KEYS, (REVOKED_KEYS_MAX,))
            return changed

        return await self._write(work)

    async def list_identities(self) -> list[ChannelIdentity]:
        def work(db: apsw.Connection) -> list[ChannelIdentity]:
            rows: Iterable[tuple[str, str, str]] = db.execute(
                "SELECT channel, user, person FROM identities ORDER BY channel, user"
            )
            return [ChannelIdentity(channel=channel, user=user, person=person) for channel, user, person in rows]

        return await self._read(work)

    async def put_identity(self, identity: ChannelIdentity) -> None:
        await self._write(lambda db: _upsert_identity(db, identity))

    async def remove_identity(self, channel: str, user: str) -> bool:
        sql = "DELETE FROM identities WHERE channel=? AND user=? RETURNING 1"
        return await self._write(lambda db: db.execute(sql, (channel, user)).fetchone() is not None)

    # --- pairings --------------------------------------------------------------------------------

    async def list_pairings(self) -> list[PendingPairing]:
        def work(db: apsw.Connection) -> list[PendingPairing]:
            sql = f"SELECT {_PAIRING_COLUMNS} FROM pairings ORDER BY created, digest"
            return [_row_to_pairing(row) for row in db.execute(sql)]

        return await self._read(work)

    async def put_pairing(self, pairing: PendingPairing) -> None:
        row = (pairing.digest, pairing.channel, pairing.user, pairing.display_name, pairing.created, pairing.expires)

        def work(db: apsw.Connection) -> None:
            db.execute(_REPLACE_PAIRING, row)

        await self._write(work)

    async def complete_pairing(self, digest: str, identity: ChannelIdentity, person: Person, now: int) -> bool:
        def work(db: apsw.Connection) -> bool:
            if db.execute(_CONSUME_PAIRING, (digest, identity.channel, identity.user, now)).fetchone() is None:
                return False
            _upsert_person(db, person)
            _upsert_identity(db, identity)
            return True

        return await self._write(work)

    async def delete_expired_pairings(self, before_ms: int) -> None:
        def work(db: apsw.Connection) -> None:
            db.execute("DELETE FROM pairings WHERE expires<=?", (before_ms,))

        await self._write(work)

    # --- API keys --------------------------------------------------------------------------------

    async def list_keys(self) -> list[ApiKey]:
        def work(db: apsw.Connection) -> list[ApiKey]:
            return [_row_to_key(row) for row in db.execute(f"SELECT {_KEY_COLUMNS} FROM keys ORDER BY created, id")]

        return await self._read(work)

    async def put_key(self, key: ApiKey) -> None:
        def work(db: apsw.Connection) -> None:
            db.execute(_REPLACE_KEY, _key_row(key))

        await self._write(work)

    async def revoke_key(self, id: str, at: int) -> bool:
        def work(db: apsw.Connection) -> bool:
            sql = "UPDATE keys SET revoked=? WHERE id=? AND revoked=0 RETURNING 1"
            revoked = db.execute(sql, (at, id)).fetchone() is not None
            db.execute(_DELETE_OLD_REVOKED_KEYS, (REVOKED_KEYS_MAX,))
            return revoked

        return await self._write(work)

    # --- the connection --------------------------------------------------------------------------

    async def _read(self, work: Callable[[apsw.Connection], T]) -> T:
        return await run_in_thread(lambda: self._run_locked(work))

    async def _write(self, work: Callable[[apsw.Connection], T]) -> T:
        """Run a function in one transaction; on disk when this returns."""

        def transaction(db: apsw.Connection) -> T:
            if self._files is not None and (removed := self._files.find_removed()):
                raise save_removed_log(db, self._files, removed)
            db.execute("BEGIN IMMEDIATE")
            try:
                result = work(db)
                db.execute("COMMIT")
            except BaseException:
                if db.in_transaction:
                    db.execute("ROLLBACK")
                raise
            return result

        return await self._read(transaction)

    def _run_locked(self, work: Callable[[apsw.Connection], T]) -> T:
        with self._lock:
            if not self._is_open:
                raise StoreFailed(f"{self.path} is not open")
            db = self._connection()
            try:
                with map_sqlite_errors(self.path):
                    return work(db)
            except StoreFailed:  # after an I/O error the connection cannot be trusted
                self._db = None
                db.close(True)
                raise
            except (UnicodeEncodeError, OverflowError):
                raise InputRefused("this cannot be stored: it is not valid text or not a 64-bit number") from None
            except (msgspec.DecodeError, TypeError) as error:  # stored data is not in the format that was written
                raise StoreCorrupt(
                    f"{self.path} is damaged ({error}); it was left as it is. Restore a backup"
                ) from error

    def _connection(self) -> apsw.Connection:
        if self._db is None:
            db = connect(self.path, busy_s=self._busy_s, vfs=self._vfs)
            try:
                migrate_gateway(db, self.path)
            except BaseException:
                db.close()
                raise
            self._db = db
            self._files = self._files or DatabaseFiles(self.path)
            self._files.refresh_log()
        return self._db


def create_private_file(path: str) -> None:
    """Create the file if it does not exist, and make it private; raises HomeUnusable.

    SQLite gives the WAL file the same permissions. An existing file is not opened here: closing it would release the
    POSIX locks that SQLite holds on it in this process.
    """
    try:
        with suppress(FileExistsError):
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        status = os.lstat(path)
        if stat.S_ISLNK(status.st_mode):
            raise HomeUnusable(f"{path} is a symbolic link; put the file itself in its place")
        if not stat.S_ISREG(status.st_mode):
            raise HomeUnusable(f"{path} is not a file; move it away")
        if status.st_uid != os.geteuid():
            raise HomeUnusable(f"{path} belongs to another user; change its owner, or choose another --home")
        if status.st_mode & 0o077:
            os.chmod(path, 0o600)
    except OSError as error:
        raise HomeUnusable(f"{path} cannot be used: {error.strerror or error}") from error


def migrate_gateway(db: apsw.Connection, path: str) -> None:
    """Apply the missing migrations, all in one transaction; raises StoreTooNew for a newer release's file."""
    steps = load_gateway_migrations()
    with map_sqlite_errors(path):
        version = db.pragma("user_version")
        if version > len(steps):
            raise StoreTooNew(
                f"{path} was written by a newer release (schema {version}, this one supports {len(steps)}); "
                "use that release, or another home"
            )
        if version == len(steps):
            return
        db.execute("BEGIN IMMEDIATE")
        try:
            for sql in steps[db.pragma("user_version") :]:  # another process may have applied some meanwhile
                db.execute(sql)
            db.execute(f"PRAGMA user_version = {len(steps)}")
            db.execute("COMMIT")
        except BaseException:
            if db.in_transaction:
                db.execute("ROLLBACK")
            raise


def load_gateway_migrations() -> list[str]:
    folder = Path(__file__).with_name("gateway_migrations")
    names = sorted(entry.name for entry in folder.iterdir() if re.fullmatch(r"\d{4}\.sql", entry.name))
    return [(folder / name).read_text() for name in names]


def _upsert_person(db: apsw.Connection, person: Person) -> None:
    db.execute(_UPSERT_PERSON, (person.name, person.display_name, _encode(person.roles).decode(), person.created))


def _upsert_identity(db: apsw.Connection, identity: ChannelIdentity) -> None:
    db.execute(_UPSERT_IDENTITY, (identity.channel, identity.user, identity.person))


def _row_to_person(row: tuple[str, str, str, int]) -> Person:
    name, called, roles, created = row
    return Person(name=name, display_name=called, roles=_decode_roles(roles), created=created)


def _row_to_pairing(row: tuple[str, str, str, str, int, int]) -> PendingPairing:
    digest, channel, user, called, created, expires = row
    return PendingPairing(
        digest=digest, channel=channel, user=user, display_name=called, created=created, expires=expires
    )


def _key_row(key: ApiKey) -> Sequence[str | int]:
    scopes = _encode(key.scopes).decode()
    bounds = (key.rate_per_min, key.streams_max)
    times = (key.created, key.expires, key.revoked)
    return (key.id, key.digest, key.person, key.workspace, scopes, key.note, *bounds, *times)


def _row_to_key(row: tuple[str, str, str, str, str, str, int, int, int, int, int]) -> ApiKey:
    id, digest, person, workspace, scopes, note, rate_per_min, streams_max, created, expires, revoked = row
    return ApiKey(
        id=id,
        digest=digest,
        person=person,
        workspace=workspace,
        scopes=_decode_scopes(scopes),
        note=note,
        rate_per_min=rate_per_min,
        streams_max=streams_max,
        created=created,
        expires=expires,
        revoked=revoked,
    )
