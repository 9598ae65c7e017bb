"""The audit of a home, wired: who writes it, who waits for it, and what is put on record that no journal tells."""

from __future__ import annotations

import logging
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec

from mainstay.app.places import GATEWAY
from mainstay.app.schema import Config
from mainstay.app.trust import known_secrets
from mainstay.app.world import SystemClock
from mainstay.core.audit import AuditReading, Notary
from mainstay.core.errors import AuditUnavailable, MainstayError, StoreCorrupt, StoreError
from mainstay.core.following import Reader
from mainstay.core.ports import Clock
from mainstay.guards.redact import Redactor
from mainstay.observe.chain import End, Finding, Row, verify
from mainstay.observe.exported import Format, written
from mainstay.observe.follower import Follower

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

    return Notes(audit_in(books), clock, clean)


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


@asynccontextmanager
async def noting(data: Path, config: Config) -> AsyncIterator[Noted]:
    """For whoever owns a home and has no agent."""
    books = await open_books(data, config.limits.store_busy_s)
    try:
        yield Noted.of(books, config)
    finally:
        if books is not None:
            await books.close()


async def open_books(home: Path, busy_s: float = 5.0) -> Any:
    """The home's database, for those who follow the journals. None if it cannot be had: then nothing is derived from
    them, which have everything, until it can."""
    from mainstay.store.sqlite.observed import SqliteObserved  # its engine is loaded only by those who keep something

    books = SqliteObserved(str(home / GATEWAY), busy_s=busy_s)
    try:
        await books.open()
    except MainstayError as error:
        log.error("audit, errors, budgets and traces are not kept: %s", error)
        return None
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
            raise AuditUnavailable("no turn begins: the audit cannot be written, because the home's database is broken")
        if follower.trouble(AUDIT):
            await follower.retry()
        done = await follower.caught_up(GATE_S)
        if trouble := follower.trouble(AUDIT):
            raise AuditUnavailable(f"no turn begins while the audit cannot be written: {trouble}")
        if not done:
            raise AuditUnavailable(f"no turn begins before the audit is up to date; it was not within {GATE_S:g} s")

    return gate


# --- as it is read -------------------------------------------------------------------------------


def checked(data: Path) -> Iterator[Finding]:
    """What is wrong with the audit of a home; it may be written to meanwhile."""
    from mainstay.store.sqlite.audit_file import ANCHOR, AuditFile

    path = data / GATEWAY
    try:
        with AuditFile(path) as file:
            yield from verify(_rows(file), lambda: _end(file, ANCHOR))
            yield from (Finding(GATEWAY, said) for said in file.damage())
    except StoreError as error:
        yield Finding(GATEWAY, str(error))


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
