"""Who follows the journals of an agent: audit, errors, the ledger of budgets, traces and metrics."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import msgspec

from mainstay.agent.accounts import HomeAccounts
from mainstay.agent.auditing import AUDIT, audit_of, auditors, cleaning, gate_of, notary_of, open_books
from mainstay.agent.error_listing import error_readers, errors_in
from mainstay.agent.opened import Beside
from mainstay.agent.world import SystemClock
from mainstay.config.schema import Config
from mainstay.core.accounts import Accounts
from mainstay.core.audit import AuditReading
from mainstay.core.error_list import ErrorList
from mainstay.core.errors import AuditUnavailable, MainstayError
from mainstay.core.following import Reader
from mainstay.core.ports import Clock, Store
from mainstay.observe.follower import Follower

SETTLE_S = 10.0  # that what is being followed is waited for, before somebody forgets it
FORGET_S = 2.0  # and after that
TEND_S = 3_600.0  # between two looks for what is too old
KEEPS = {AUDIT: "the audit", "ledger": "the ledger of what was spent"}  # readers to whom a deleted session is a loss

log = logging.getLogger("mainstay.observe")


@runtime_checkable
class Tended(Protocol):
    """A reader with something to do now and then, whether or not anything happens."""

    async def tend(self) -> None: ...


class Sight(msgspec.Struct, frozen=True):
    """What readers are made of. They are those of one workspace; `books` is the home's database, which they share with
    all others: a `store.sqlite.observed.SqliteObserved`, or None for an agent that keeps nothing."""

    config: Config
    store: Store
    clock: Clock
    books: Any = None
    clean: Callable[[str], str] = str  # takes secrets out of a text
    home: Path | None = None
    telemetry: Any = None  # a `telemetry.Telemetry`, which is not loaded for those who want no traces
    model: str = ""  # that the agent was given in code
    accounts: HomeAccounts | None = None  # what may be spent in the home
    heads: dict[str, int] = {}  # where its sessions stood before anything was done in this process
    hide: Callable[[str], str] = str  # takes also what only looks like a secret out of a text

    @property
    def workspace(self) -> str:
        return self.config.workspace


def readers_of(sight: Sight) -> list[Reader]:
    """Everybody who follows; whoever has nothing to do is not among them. Each adds a line here."""
    made: list[Reader] = auditors(sight.config, sight.books, sight.clock, sight.clean)
    made += error_readers(sight.books, sight.workspace, sight.hide)
    if sight.books is not None and sight.accounts is not None:
        made.append(sight.accounts.reader(sight.books, sight.workspace))
    if sight.telemetry is not None:
        made += sight.telemetry.readers(sight)
    return made


class Observing:
    """The follower of one agent, and what it shares with those of other workspaces of the home."""

    def __init__(self, sight: Sight, readers: list[Reader], *, owns: bool) -> None:
        self.sight = sight
        self.readers = readers
        self.follower = Follower(sight.store, readers, workspace=sight.workspace) if readers else None
        self.notary = notary_of(sight.config, sight.books, sight.clock, sight.clean)
        self.closing: list[Callable[[], Awaitable[None]]] = []  # what is its own, after the follower
        self._tending: asyncio.Task[None] | None = None
        self._owns = owns

    @property
    def touched(self) -> Callable[[str], None] | None:
        return self.follower.touched if self.follower is not None else None

    @property
    def gate(self) -> Callable[[str], Awaitable[None]] | None:
        """Keeps turns from beginning while what they do could not be audited; None where nobody minds."""
        audited = any(reader.name == AUDIT for reader in self.readers)
        return gate_of(self.sight.config, self.follower if audited else None) if self.sight.home is not None else None

    @property
    def audit(self) -> AuditReading | None:
        """The home's; None for an agent that keeps nothing."""
        return audit_of(self.sight.books)

    @property
    def errors(self) -> ErrorList | None:
        """The home's; None for an agent that keeps nothing."""
        return errors_in(self.sight.books)

    async def accounts(self) -> Accounts | None:
        """Of the workspace, when all that was spent before is known; None where nothing is bounded."""
        sight = self.sight
        return await sight.accounts.join(sight.config, sight.store, sight.books) if sight.accounts is not None else None

    async def settle(self) -> None:
        """What was done is followed, before somebody forgets it. Raises AuditUnavailable if what has to be kept of it
        is not on disk: then nothing may be forgotten."""
        kept = [reader.name for reader in self.readers if reader.name in KEEPS]
        if self.follower is None or not kept:
            return
        if any(self.follower.trouble(name) for name in kept):
            await self.follower.retry()
        done = await self.follower.caught_up(SETTLE_S)
        for name in kept:
            if trouble := self.follower.trouble(name):
                raise AuditUnavailable(f"nothing is deleted while {KEEPS[name]} cannot be written: {trouble}")
        if not done:
            raise AuditUnavailable(f"nothing is deleted before {KEEPS[kept[0]]} is up to date; try again in a while")

    async def forget(self, session: str, seqs: Sequence[int] | None = None) -> None:
        """What was made of what a session said, after its journal has forgotten it."""
        if self.notary is not None:
            what = "records" if seqs is not None else "session"
            some = {"records": len(seqs)} if seqs is not None else None
            await self.notary.note("forgotten", what, workspace=self.sight.workspace, session=session, details=some)
        if (errors := self.errors) is not None:
            if self.follower is not None:  # what it had read before that may be on its way
                await self.follower.caught_up(FORGET_S)
            try:
                await errors.forget(self.sight.workspace, session, seqs)
            except MainstayError as error:
                said = "%r was forgotten, but the list of errors may still have some of it; see `mainstay errors`: %s"
                log.error(said, session, error)

    def start(self) -> None:
        if self.follower is not None:
            self.follower.start()
        if any(reader.name == AUDIT for reader in self.readers):
            self._tending = asyncio.get_running_loop().create_task(self._tend(), name="mainstay-retention")

    async def _tend(self) -> None:
        """Also an agent that nobody talks to keeps nothing for longer than it should."""
        while True:
            await self.sight.clock.sleep(TEND_S)
            for reader in self.readers:
                if isinstance(reader, Tended):
                    await reader.tend()

    async def close(self) -> None:
        """Before the store."""
        if self._tending is not None:
            self._tending.cancel()
            await asyncio.gather(self._tending, return_exceptions=True)
        if self.follower is not None:
            await self.follower.close()
        if self.notary is not None:
            await self.notary.close()
        for close in self.closing:
            await close()
        if self._owns:
            await self.sight.books.close()


@asynccontextmanager
async def observed(home: Path, config: Config, store: Store) -> AsyncIterator[Observing]:
    """For whoever owns a home and has no agent, but changes a journal in it: everything in it is followed first."""
    observing = await observe(Sight(config, store, SystemClock(), clean=cleaning(config), home=home), None)
    observing.start()
    try:
        await observing.settle()
        yield observing
    finally:
        await observing.close()


async def observe(sight: Sight, beside: Beside | None) -> Observing:
    """For an agent alone its home's database is opened; one beside others is given it."""
    shared = beside.telemetry if beside is not None else None
    sight = msgspec.structs.replace(sight, telemetry=shared or _telemetry(sight.config))
    if sight.telemetry is not None:
        sight = msgspec.structs.replace(sight, heads=await sight.store.heads())
    accounts = beside.accounts if beside is not None else HomeAccounts(sight.home, sight.clock)
    sight = msgspec.structs.replace(sight, accounts=accounts)
    if beside is not None:
        sight = msgspec.structs.replace(sight, books=beside.books)
        made = Observing(sight, readers_of(sight), owns=False)
    else:
        if sight.home is not None:
            sight = msgspec.structs.replace(sight, books=await open_books(sight.home, sight.config.limits.store_busy_s))
        made = Observing(sight, readers_of(sight), owns=sight.books is not None)
    if shared is None and sight.telemetry is not None:
        made.closing.append(sight.telemetry.close)
    return made


def _telemetry(config: Config) -> Any:
    if not config.telemetry.endpoint:
        return None
    from mainstay.agent.telemetry import Telemetry  # and all that sending traces needs

    return Telemetry()


def both(one: Callable[[str], None], other: Callable[[str], None] | None) -> Callable[[str], None]:
    """Tells two of what was touched."""
    if other is None:
        return one

    def tell(session: str) -> None:
        one(session)
        other(session)

    return tell
