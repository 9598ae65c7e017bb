"""From the configuration to what may be spent: one set of books for all workspaces of a process."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import Any

from mainstay.config.schema import Config
from mainstay.config.schema_observability import BudgetEntry, BudgetSettings
from mainstay.core.accounts import Accounts
from mainstay.core.errors import HomeUnusable, MainstayError
from mainstay.core.following import Reader
from mainstay.core.ports import Clock, Store
from mainstay.core.reservations import NANO
from mainstay.metering.budgets import PERIODS, Budget, Budgets, Kind, Period, Scope
from mainstay.observe.follower import Follower

log = logging.getLogger("mainstay.metering")

CATCH_UP_S = 600.0  # for what was spent before to be counted
_SHARED: tuple[Scope, ...] = ("person", "workspace", "home")


def budgets_of(settings: BudgetSettings) -> Budgets:
    found: list[Budget] = [*_bounds("turn", "", settings.turn), *_bounds("session", "", settings.session)]
    for scope in _SHARED:
        for period in PERIODS:
            found += _bounds(scope, period, getattr(getattr(settings, scope), period))
    return Budgets(tuple(found), settings.warn_at)


def _bounds(scope: Scope, period: Period, entry: BudgetEntry) -> list[Budget]:
    money = round(entry.money * NANO) if entry.money is not None else None
    given: tuple[tuple[Kind, int | None], ...] = (
        ("money", money),
        ("tokens", entry.tokens),
        ("calls", entry.tool_calls),
    )
    return [Budget(scope, period, kind, limit) for kind, limit in given if limit is not None]


class HomeAccounts:
    """Of one home, which this process owns. Nothing is counted in memory before somebody has a budget. A workspace that
    has some has purses; what the others spend is heard of through the ledger."""

    def __init__(self, home: Path | None, clock: Clock) -> None:
        self._home = home
        self._clock = clock
        self._books: Any = None  # a `meter.books.Books`, which is not loaded for those who have no budgets
        self._opening = asyncio.Lock()

    def reader(self, observed: Any, workspace: str) -> Reader:
        """What keeps the ledger of a workspace."""
        from mainstay.store.sqlite.ledger import SqliteLedger  # its engine is loaded only by those who keep something

        return SqliteLedger(observed, workspace, self._heard)

    def _heard(self, workspace: str, rows: Any) -> None:
        if self._books is not None:
            self._books.heard(workspace, rows)

    async def join(self, config: Config, store: Store, observed: Any) -> Accounts | None:
        """None where nothing is bounded. Returns when all that was spent before is known; raises HomeUnusable if that
        cannot be found out."""
        budgets = budgets_of(config.budgets)
        if not budgets.all:
            await self._leave(config.workspace, store, observed)
            return None
        from mainstay.metering.books import Books
        from mainstay.metering.purses import Purses

        workspace = config.workspace
        async with self._opening:
            books = self._books = self._books or Books(self._clock)
            if self._home is not None and workspace not in books.live:
                if observed is None:
                    raise HomeUnusable("budgets need the home's database, gateway.db, which cannot be used now")
                await self._catch_up(workspace, store, observed)
            if not books.known:
                books.load(await self._spent_before(workspace, observed))
            books.live.add(workspace)
        return Purses(books, budgets, store, workspace)

    async def _leave(self, workspace: str, store: Store, observed: Any) -> None:
        """It has no budgets any more: what it has booked itself until now is followed first, and not heard of again."""
        if self._books is None or workspace not in self._books.live:
            return
        async with self._opening:
            try:
                if observed is not None:
                    await self._catch_up(workspace, store, observed)
            except MainstayError as error:
                log.error("what was spent lately in the workspace %s may be counted twice: %s", workspace, error)
            self._books.live.discard(workspace)

    def used(self, settings: BudgetSettings) -> dict[str, float]:
        """By budget, as it is configured: the share of it that is used, by whoever has used most of theirs."""
        if self._books is None:
            return {}
        return {one.key: self._books.fullest(one) for one in budgets_of(settings).of(*_SHARED)}

    async def _spent_before(self, workspace: str, observed: Any) -> Any:
        """In all workspaces, also where a process died before its last records were followed."""
        if self._home is None:
            return ()
        from mainstay.store.sqlite import SqliteStore
        from mainstay.store.sqlite.ledger import load

        for path in sorted(self._home.glob("workspaces/*/workspace.db")):
            if path.parent.name == workspace:
                continue
            store = SqliteStore(str(path), read_only=True)
            try:
                await store.open()
                await self._catch_up(path.parent.name, store, observed)
            except MainstayError as error:
                log.error("what was spent lately in the workspace %s is not known: %s", path.parent.name, error)
            finally:
                await store.close()
        return await load(observed)

    async def _catch_up(self, workspace: str, store: Store, observed: Any) -> None:
        follower = Follower(store, [self.reader(observed, workspace)], workspace=workspace)
        follower.start()
        try:
            done = await follower.caught_up(CATCH_UP_S)
            trouble = "; ".join(follower.troubles.values()) or ("" if done else f"it takes more than {CATCH_UP_S:g} s")
        finally:
            await follower.close()
        if trouble:
            raise HomeUnusable(f"what was spent before cannot be counted: {trouble}")
