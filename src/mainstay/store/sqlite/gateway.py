"""Who may come in: the GatewayStore port on SQLite, in a file of the home that nobody else can read.

Little is written here and seldom, so there is one connection, and whoever needs it waits for it in a thread.
"""

from __future__ import annotations

import os
import re
import stat
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib.resources import files
from typing import Any, TypeVar

import apsw
import msgspec

from mainstay.core.errors import HomeUnusable, InputRefused, StoreCorrupt, StoreFailed, StoreTooNew
from mainstay.core.people import REVOKED_MAX, Identity, Key, Pairing, Person, Role, Scope
from mainstay.core.workers import in_thread
from mainstay.store.sqlite.database import connect, named

T = TypeVar("T")

BUSY_S = 5.0

_PERSON = "name, called, roles, created"
_PUT_PERSON = f"""
INSERT INTO people ({_PERSON}) VALUES (?,?,?,?)
ON CONFLICT (name) DO UPDATE SET called=excluded.called, roles=excluded.roles, created=excluded.created"""
_PUT_IDENTITY = """
INSERT INTO identities (channel, user, person) VALUES (?,?,?)
ON CONFLICT (channel, user) DO UPDATE SET person=excluded.person"""
_PAIRING = "digest, channel, user, called, created, expires"
_PUT_PAIRING = f"INSERT OR REPLACE INTO pairings ({_PAIRING}) VALUES (?,?,?,?,?,?)"
_USE_UP = "DELETE FROM pairings WHERE digest=? AND channel=? AND user=? AND expires>? RETURNING 1"
_KEY = "id, digest, person, workspace, scopes, note, rate_per_min, streams_max, created, expires, revoked"
_PUT_KEY = f"INSERT OR REPLACE INTO keys ({_KEY}) VALUES (?,?,?,?,?,?,?,?,?,?,?)"
_TRIM_KEYS = """
DELETE FROM keys WHERE revoked > 0
AND id NOT IN (SELECT id FROM keys WHERE revoked > 0 ORDER BY revoked DESC, id DESC LIMIT ?)"""

_encode = msgspec.json.Encoder().encode
_roles = msgspec.json.Decoder(dict[str, Role]).decode
_scopes = msgspec.json.Decoder(tuple[Scope, ...]).decode


class SqliteGateway:
    """`path` is made, for its owner alone, if it is not there."""

    def __init__(self, path: str, *, busy_s: float = BUSY_S, vfs: str | None = None) -> None:
        self.path = path
        self._busy_s = busy_s
        self._vfs = vfs
        self._lock = threading.Lock()
        self._db: apsw.Connection | None = None
        self._inode = -1
        self._is_open = False

    async def open(self) -> None:
        def work() -> None:
            with self._lock:
                self._inode = make_private(self.path)
                self._connection()
                self._is_open = True

        await in_thread(work)

    async def close(self) -> None:
        def work() -> None:
            with self._lock:
                self._is_open = False
                db, self._db = self._db, None
                if db is not None:
                    db.close()

        await in_thread(work)

    # --- people and their accounts ---------------------------------------------------------------

    async def people(self) -> list[Person]:
        def work(db: apsw.Connection) -> list[Person]:
            return [_person(row) for row in db.execute(f"SELECT {_PERSON} FROM people ORDER BY name")]

        return await self._read(work)

    async def put_person(self, person: Person) -> None:
        await self._write(lambda db: _put_person(db, person))

    async def remove_person(self, name: str) -> bool:
        now = time.time_ns() // 1_000_000

        def work(db: apsw.Connection) -> bool:
            before = db.total_changes()
            db.execute("DELETE FROM people WHERE name=?", (name,))
            db.execute("DELETE FROM identities WHERE person=?", (name,))
            db.execute("UPDATE keys SET revoked=? WHERE person=? AND revoked=0", (now, name))
            found = db.total_changes() > before
            db.execute(_TRIM_KEYS, (REVOKED_MAX,))
            return found

        return await self._write(work)

    async def identities(self) -> list[Identity]:
        def work(db: apsw.Connection) -> list[Identity]:
            rows: Any = db.execute("SELECT channel, user, person FROM identities ORDER BY channel, user")
            return [Identity(channel=channel, user=user, person=person) for channel, user, person in rows]

        return await self._read(work)

    async def put_identity(self, identity: Identity) -> None:
        await self._write(lambda db: _put_identity(db, identity))

    async def remove_identity(self, channel: str, user: str) -> bool:
        sql = "DELETE FROM identities WHERE channel=? AND user=? RETURNING 1"
        return await self._write(lambda db: db.execute(sql, (channel, user)).fetchone() is not None)

    # --- strangers -------------------------------------------------------------------------------

    async def pairings(self) -> list[Pairing]:
        def work(db: apsw.Connection) -> list[Pairing]:
            rows: Any = db.execute(f"SELECT {_PAIRING} FROM pairings ORDER BY created, digest")
            return [_pairing(row) for row in rows]

        return await self._read(work)

    async def put_pairing(self, pairing: Pairing) -> None:
        row = (pairing.digest, pairing.channel, pairing.user, pairing.called, pairing.created, pairing.expires)

        def work(db: apsw.Connection) -> None:
            db.execute(_PUT_PAIRING, row)

        await self._write(work)

    async def pair(self, digest: str, identity: Identity, person: Person, now: int) -> bool:
        def work(db: apsw.Connection) -> bool:
            if db.execute(_USE_UP, (digest, identity.channel, identity.user, now)).fetchone() is None:
                return False
            _put_person(db, person)
            _put_identity(db, identity)
            return True

        return await self._write(work)

    async def drop_pairings(self, before: int) -> None:
        def work(db: apsw.Connection) -> None:
            db.execute("DELETE FROM pairings WHERE expires<=?", (before,))

        await self._write(work)

    # --- keys ------------------------------------------------------------------------------------

    async def keys(self) -> list[Key]:
        def work(db: apsw.Connection) -> list[Key]:
            return [_key(row) for row in db.execute(f"SELECT {_KEY} FROM keys ORDER BY created, id")]

        return await self._read(work)

    async def put_key(self, key: Key) -> None:
        def work(db: apsw.Connection) -> None:
            db.execute(_PUT_KEY, _key_row(key))

        await self._write(work)

    async def revoke_key(self, id: str, at: int) -> bool:
        def work(db: apsw.Connection) -> bool:
            sql = "UPDATE keys SET revoked=? WHERE id=? AND revoked=0 RETURNING 1"
            found = db.execute(sql, (at, id)).fetchone() is not None
            db.execute(_TRIM_KEYS, (REVOKED_MAX,))
            return found

        return await self._write(work)

    # --- the connection --------------------------------------------------------------------------

    async def _read(self, work: Callable[[apsw.Connection], T]) -> T:
        result: T = await in_thread(lambda: self._do(work))
        return result

    async def _write(self, work: Callable[[apsw.Connection], T]) -> T:
        """In one transaction, on disk when this returns."""

        def whole(db: apsw.Connection) -> T:
            self._check_place()
            db.execute("BEGIN IMMEDIATE")
            try:
                made = work(db)
                db.execute("COMMIT")
            except BaseException:
                if db.in_transaction:
                    db.execute("ROLLBACK")
                raise
            return made

        return await self._read(whole)

    def _do(self, work: Callable[[apsw.Connection], T]) -> T:
        with self._lock:
            if not self._is_open:
                raise StoreFailed(f"{self.path} is not open")
            db = self._connection()
            try:
                with named(self.path):
                    return work(db)
            except StoreFailed:  # an I/O error: the handle is not believed any more
                self._db = None
                db.close(True)
                raise
            except (UnicodeEncodeError, OverflowError):
                raise InputRefused("this cannot be kept: it is not text, or not a number of sixty-four bits") from None
            except (msgspec.DecodeError, TypeError) as error:  # what was read is not what was written
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
        return self._db

    def _check_place(self) -> None:
        """A file that was removed or replaced would still take what is written, and nobody would find it again."""
        try:
            found = os.stat(self.path).st_ino
        except OSError:
            found = -1
        if found != self._inode:
            raise StoreCorrupt(f"{self.path} was removed or replaced while it was in use; put it back and start again")


def make_private(path: str) -> int:
    """Its inode. SQLite gives what it puts beside the file the same rights. One that is there is not opened here: to
    close it again would end the locks that SQLite may hold on it."""
    try:
        with suppress(FileExistsError):
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        found = os.lstat(path)
        if stat.S_ISLNK(found.st_mode):
            raise HomeUnusable(f"{path} is a link, and may lead anywhere; put the real file in its place")
        if not stat.S_ISREG(found.st_mode):
            raise HomeUnusable(f"{path} is not a file; put it elsewhere")
        if found.st_uid != os.geteuid():
            raise HomeUnusable(f"{path} belongs to another user; change its owner, or choose another --home")
        if found.st_mode & 0o077:
            os.chmod(path, 0o600)
    except OSError as error:
        raise HomeUnusable(f"{path} cannot be used: {error.strerror or error}") from error
    return found.st_ino


def migrate_gateway(db: apsw.Connection, path: str) -> None:
    """Forward only, all in one transaction; a file of a newer release is left alone."""
    steps = migrations()
    with named(path):
        have = db.pragma("user_version")
        if have > len(steps):
            raise StoreTooNew(
                f"{path} was written by a newer release (schema {have}, this one knows {len(steps)}); "
                "use that release, or another home"
            )
        if have == len(steps):
            return
        db.execute("BEGIN IMMEDIATE")
        try:
            for sql in steps[db.pragma("user_version") :]:  # somebody else may have been quicker
                db.execute(sql)
            db.execute(f"PRAGMA user_version = {len(steps)}")
            db.execute("COMMIT")
        except BaseException:
            if db.in_transaction:
                db.execute("ROLLBACK")
            raise


def migrations() -> list[str]:
    folder = files("mainstay.store.sqlite") / "gateway_migrations"
    found = sorted(entry.name for entry in folder.iterdir() if re.fullmatch(r"\d{4}\.sql", entry.name))
    return [(folder / name).read_text() for name in found]


def _put_person(db: apsw.Connection, person: Person) -> None:
    db.execute(_PUT_PERSON, (person.name, person.called, _encode(person.roles).decode(), person.created))


def _put_identity(db: apsw.Connection, identity: Identity) -> None:
    db.execute(_PUT_IDENTITY, (identity.channel, identity.user, identity.person))


def _person(row: Any) -> Person:
    name, called, roles, created = row
    return Person(name=name, called=called, roles=_roles(roles), created=created)


def _pairing(row: Any) -> Pairing:
    digest, channel, user, called, created, expires = row
    return Pairing(digest=digest, channel=channel, user=user, called=called, created=created, expires=expires)


def _key_row(key: Key) -> Sequence[str | int]:
    scopes = _encode(key.scopes).decode()
    bounds = (key.rate_per_min, key.streams_max)
    times = (key.created, key.expires, key.revoked)
    return (key.id, key.digest, key.person, key.workspace, scopes, key.note, *bounds, *times)


def _key(row: Any) -> Key:
    id, digest, person, workspace, scopes, note, rate_per_min, streams_max, created, expires, revoked = row
    return Key(
        id=id,
        digest=digest,
        person=person,
        workspace=workspace,
        scopes=_scopes(scopes),
        note=note,
        rate_per_min=rate_per_min,
        streams_max=streams_max,
        created=created,
        expires=expires,
        revoked=revoked,
    )
