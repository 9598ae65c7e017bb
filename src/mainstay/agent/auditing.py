"""The audit of a home, wired: who writes it, who waits for it, and what is put on record that no journal tells."""

from __future__ import annotations

import logging
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec

from mainstay.agent.places import GATEWAY
from mainstay.agent.trust import known_secrets
from mainstay.agent.world import SystemClock
from mainstay.config.schema import Config
from mainstay.core.audit import ACCEPTED, RESUMED, AuditReading, Fact, Notary
from mainstay.core.errors import AuditUnavailable, InputRefused, MainstayError, StoreCorrupt, StoreError
from mainstay.core.following import Reader
from mainstay.core.ports import Clock
from mainstay.observe.chain import KIND, Against, End, Finding, Row, verify
from mainstay.observe.exported import Format, written
from mainstay.observe.follower import Follower
from mainstay.trust.guards.redact import Redactor

log = logging.getLogger("mainstay.audit")

AUDIT = "audit"  # the reader
GATE_S = 10.0  # that a turn waits for the record of what was before it


def auditors(config: Config, books: Any, clock: Clock, clean: Callable[[str], str]) -> list[Reader]:
    """The reader that makes it, where there is somewhere to keep it and the owner wants it. `books` is a
    `store.sqlite.observed.SqliteObserved`, or None."""
    if books is None or not config.audit.enabled:
        return []
    from mainstay.observe.audit import Audit
    from mainstay.store.sqlite.audit import audit_in

    kept = audit_in(books)
    kept.strict = kept.strict or config.audit.fail_closed
    return [Audit(kept, clock, config.workspace, clean, config.audit.retention_days)]


def notary_of(config: Config, books: Any, clock: Clock, clean: Callable[[str], str]) -> Notary | None:
    if books is None or not config.audit.enabled:
        return None
    from mainstay.observe.notes import Notes
    from mainstay.store.sqlite.audit import audit_in

    return Notes(audit_in(books), clock, clean, strict=config.audit.fail_closed)


def audit_of(books: Any) -> AuditReading | None:
    """For whoever may look at it; None: there is none."""
    if books is None:
        return None
    from mainstay.store.sqlite.audit import audit_in

    return audit_in(books)


class Noted(msgspec.Struct, frozen=True):
    """What is put on record for a home, beside what its journals tell."""

    books: Any = None  # a `store.sqlite.observed.SqliteObserved`
    notary: Notary | None = None

    @classmethod
    def of(cls, books: Any, config: Config) -> Noted:
        return cls(books, notary_of(config, books, SystemClock(), cleaning(config)))

    async def close(self) -> None:
        """Before the books."""
        if self.notary is not None:
            await self.notary.close()


@asynccontextmanager
async def noting(data: Path, config: Config) -> AsyncIterator[Noted]:
    """For whoever owns a home and has no agent."""
    books = await open_books(data, config.limits.store_busy_s)
    noted = Noted.of(books, config)
    try:
        yield noted
    finally:
        await noted.close()
        await books.close()


async def open_books(home: Path, busy_s: float = 5.0) -> Any:
    """The home's database, for those who follow the journals: a `SqliteObserved`. If it cannot be had now, nothing is
    derived from them, which have everything, until it can."""
    from mainstay.store.sqlite.observed import SqliteObserved  # its engine is loaded only by those who keep something

    books = SqliteObserved(str(home / GATEWAY), busy_s=busy_s)
    try:
        await books.open(later=True)
    except MainstayError as error:
        log.error("audit, errors and what was spent are not kept until it is well again: %s", error)
    return books


def cleaning(config: Config) -> Callable[[str], str]:
    """Takes the secrets of a configuration out of a text."""
    redactor = Redactor(known_secrets(config, os.environ))
    return lambda text: redactor.whole(text)[0]


async def workspace_gone(name: str, noted: Noted) -> None:
    """Put away, with its journals: one of its name that is made later is followed from its beginning."""
    if noted.notary is not None:
        await noted.notary.note("workspace.removed", name, workspace=name)
    if noted.books is not None:
        await noted.books.forget_workspace(name)


def gate_of(config: Config, follower: Follower | None) -> Callable[[str], Awaitable[None]] | None:
    """Before a turn begins, all that was before it, its own input too, is on record; or it does not begin."""
    if not (config.audit.enabled and config.audit.fail_closed):
        return None

    async def gate(session: str) -> None:
        if follower is None:
            raise AuditUnavailable("no turn begins: the audit cannot be written")
        if follower.trouble(AUDIT):
            await follower.retry()
        done = await follower.caught_up(GATE_S)
        if trouble := follower.trouble(AUDIT):
            raise AuditUnavailable(f"no turn begins while the audit cannot be written: {trouble}")
        if not done:
            raise AuditUnavailable(f"no turn begins before the audit is up to date; it was not within {GATE_S:g} s")

    return gate


# --- as it is read -------------------------------------------------------------------------------


def checked(data: Path, against: Against | None = None) -> Iterator[Finding]:
    """What is wrong with the audit of a home; it may be written to meanwhile. `against`: compared with an export."""
    from mainstay.store.sqlite.audit_file import ANCHOR, AuditFile

    path = data / GATEWAY
    if not path.exists():
        yield from _gone(data / ANCHOR, against)
        return
    try:
        with AuditFile(path) as file:
            rows = _rows(file)
            yield from verify(against.seen(rows) if against is not None else rows, lambda: _end(file, ANCHOR))
            noted = file.anchor is not None and file.anchor.seq > 0  # then it was said already
            if not noted and file.is_followed() and next(file.rows(), None) is None:
                yield Finding(GATEWAY, "all entries are gone: journals were followed, and nothing of it is here")
            yield from (Finding(GATEWAY, said) for said in file.damage())
    except StoreError as error:
        yield Finding(GATEWAY, str(error))
    if against is not None:
        yield from against.findings()


def _gone(anchor: Path, against: Against | None) -> Iterator[Finding]:
    if anchor.exists():
        yield Finding(GATEWAY, f"it is missing, and {anchor.name} says that there was an audit in it")
    if against is not None:
        yield from against.findings()


async def accept(data: Path, seq: int) -> None:
    """Put on record that the owner knows of the entry of this number, which says that the audit went on although it was
    not as it was left. Beside whoever owns the home. Raises InputRefused if it is none of those."""
    from mainstay.store.sqlite.audit import audit_in
    from mainstay.store.sqlite.audit_file import AuditFile
    from mainstay.store.sqlite.observed import SqliteObserved

    with AuditFile(data / GATEWAY) as file:
        found = next((one for one in file.rows() if not isinstance(one, int) and one[0] == seq), None)
    if found is None or found[KIND] != RESUMED:
        raise InputRefused(f"entry {seq} is none that says that the audit went on ({RESUMED})")
    details = msgspec.json.encode({"seq": seq, "digest": found[-1]}).decode()
    books = SqliteObserved(str(data / GATEWAY))
    await books.open()
    try:
        audit = audit_in(books)
        audit.strict = True  # what is wrong with the end is not this command's to go on from
        await audit.add([Fact(at=SystemClock().now_ms(), kind=ACCEPTED, what=str(seq), details=details)])
    finally:
        await books.close()


def _rows(file: Any) -> Iterator[Row]:
    for one in file.rows():
        if isinstance(one, int):
            yield Row(GATEWAY, trouble=f"entry {one} cannot be read", seq=one)
        else:
            yield Row(GATEWAY, one)


def _end(file: Any, anchor: str) -> End | None:
    if file.anchor is not None:
        return End(anchor, file.anchor.seq, file.anchor.digest)
    is_empty = next(file.rows(), None) is None
    return None if is_empty else End(anchor, trouble="it is missing, or says nothing: entries may lack at the end")


def exported(data: Path, format: Format) -> Iterator[bytes]:
    """The audit of a home as a file that can be verified by itself."""
    from mainstay.store.sqlite.audit_file import AuditFile

    with AuditFile(data / GATEWAY) as file:
        yield from written(_readable(file), format)


def _readable(file: Any) -> Iterator[tuple[Any, ...]]:
    for one in file.rows():
        if isinstance(one, int):
            raise StoreCorrupt(f"entry {one} of the audit cannot be read; see `mainstay audit verify`")
        yield one
