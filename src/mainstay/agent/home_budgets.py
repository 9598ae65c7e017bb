"""Budgets of a home: spending limits from the configuration, and one ledger that all its workspaces share."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from mainstay.agent.workspace_stores import list_used_workspaces, open_store
from mainstay.config.schema import Config
from mainstay.config.schema_judges_budgets_telemetry import BudgetEntry, BudgetSettings
from mainstay.core.budget_ports import BudgetManager, TurnBudget
from mainstay.core.budget_reports import PeriodSpending
from mainstay.core.budget_reservation_ids import NANODOLLARS_PER_DOLLAR
from mainstay.core.errors import HomeUnusable, MainstayError
from mainstay.core.limits import NO_SESSION_BUDGET
from mainstay.core.ports import Clock, Store
from mainstay.core.projection_ports import Projection
from mainstay.core.session import Session
from mainstay.core.store_components import EphemeralStore
from mainstay.metering.budget_definitions import (
    PERIODS,
    BudgetKind,
    BudgetPeriod,
    BudgetScope,
    SpendingBudget,
    WorkspaceBudgets,
)
from mainstay.observe.projection_runner import ProjectionRunner

if TYPE_CHECKING:
    from mainstay.core.ledger_entries import LedgerRow
    from mainstay.metering.budget_ledger import BudgetLedger
    from mainstay.metering.turn_budgets import WorkspaceBudgetManager
    from mainstay.store.sqlite.home_projection_database import HomeProjectionDatabase

log = logging.getLogger("mainstay.metering")

SUB_AGENT_DEPTH_MAX = 16  # protects against a corrupt journal
CATCH_UP_TIMEOUT_S = 600.0  # timeout for counting what was spent before this process started
_SHARED_SCOPES: tuple[BudgetScope, ...] = ("person", "workspace", "home")


def build_budgets(settings: BudgetSettings) -> WorkspaceBudgets:
    budgets: list[SpendingBudget] = [
        *_build_entry_budgets("turn", "", settings.turn),
        *_build_entry_budgets("session", "", settings.session),
    ]
    for scope in _SHARED_SCOPES:
        for period in PERIODS:
            budgets += _build_entry_budgets(scope, period, getattr(getattr(settings, scope), period))
    return WorkspaceBudgets(tuple(budgets), settings.warn_at)


def _build_entry_budgets(scope: BudgetScope, period: BudgetPeriod, entry: BudgetEntry) -> list[SpendingBudget]:
    money = round(entry.money * NANODOLLARS_PER_DOLLAR) if entry.money is not None else None
    limits: tuple[tuple[BudgetKind, int | None], ...] = (
        ("money", money),
        ("tokens", entry.tokens),
        ("calls", entry.tool_calls),
    )
    return [SpendingBudget(scope, period, kind, limit) for kind, limit in limits if limit is not None]


class HomeBudgets:
    """Budgets of one home, which this process owns. The in-memory ledger exists once a workspace has a budget. A
    workspace with budgets charges that ledger itself; what the others spend is added from their ledger projections."""

    def __init__(self, home: Path | None, clock: Clock) -> None:
        self._home = home
        self._clock = clock
        self._ledger: BudgetLedger | None = None  # its module is not imported while no workspace has a budget
        self._open_lock = asyncio.Lock()

    def build_ledger_projection(self, database: HomeProjectionDatabase, workspace: str, store: Store) -> Projection:
        """Return the projection that writes a workspace's spending into the home's database."""
        from mainstay.store.sqlite.spending_ledger import SqliteSpendingLedger  # imports the database engine

        expects_journals = not isinstance(store, EphemeralStore)
        return SqliteSpendingLedger(database, workspace, self._add_external_rows, expects_journals=expects_journals)

    def _add_external_rows(self, workspace: str, rows: Iterable[LedgerRow]) -> None:
        if self._ledger is not None:
            self._ledger.add_external_rows(workspace, rows)

    async def open_manager(
        self, config: Config, store: Store, database: HomeProjectionDatabase | None
    ) -> BudgetManager:
        """Return the budget manager of a workspace; without budgets in the configuration, one for sessions that have a
        budget of their own. Returns when all earlier spending is counted; raises HomeUnusable if it cannot be."""
        budgets = build_budgets(config.budgets)
        if not budgets.all:
            await self._remove_workspace(config.workspace, store, database)
            return SessionBudgetManager(self._clock, budgets, store, config.workspace)
        from mainstay.metering.budget_ledger import BudgetLedger
        from mainstay.metering.turn_budgets import WorkspaceBudgetManager

        workspace = config.workspace
        async with self._open_lock:
            ledger = self._ledger = self._ledger or BudgetLedger(self._clock)
            if self._home is not None and workspace not in ledger.live_workspaces:
                if database is None:
                    raise HomeUnusable("budgets need the home's database, gateway.db, which cannot be used now")
                await self._catch_up(workspace, store, database)
            if not ledger.is_loaded:
                ledger.load_rows(await self._load_earlier_rows(config, database))
            ledger.live_workspaces.add(workspace)
        return WorkspaceBudgetManager(ledger, budgets, store, workspace)

    async def _remove_workspace(self, workspace: str, store: Store, database: HomeProjectionDatabase | None) -> None:
        """Remove a workspace that has no budgets any more. Its ledger projection is brought up to date first: what the
        workspace charged itself is then not added a second time."""
        if self._ledger is None or workspace not in self._ledger.live_workspaces:
            return
        async with self._open_lock:
            try:
                if database is not None:
                    await self._catch_up(workspace, store, database)
            except MainstayError as error:
                log.error("recent spending of the workspace %s may be counted twice: %s", workspace, error)
            self._ledger.live_workspaces.discard(workspace)

    def now_ms(self) -> int:
        return self._clock.now_ms()

    def list_unsaved_spending(self) -> list[PeriodSpending]:
        """Return what was spent in memory only, by an agent without a home; it is counted if there are budgets."""
        return self._ledger.list_spending() if self._ledger is not None else []

    def used_shares(self, settings: BudgetSettings) -> dict[str, float]:
        """Return the used share of each configured budget, by its key. Where a budget applies to several people or
        workspaces, it is the highest of their shares."""
        if self._ledger is None:
            return {}
        return {
            budget.key: self._ledger.highest_used_share(budget)
            for budget in build_budgets(settings).for_scopes(*_SHARED_SCOPES)
        }

    async def _load_earlier_rows(self, config: Config, database: HomeProjectionDatabase | None) -> Iterable[LedgerRow]:
        """Return the ledger rows of all workspaces, including records that a crashed process had not yet counted."""
        if self._home is None or database is None:
            return ()
        from mainstay.store.sqlite.spending_ledger import load_rows  # imports the database engine

        for folder in list_used_workspaces(config.storage, self._home):
            if folder.name == config.workspace:
                continue
            try:
                async with open_store(config.storage, folder, read_only=True) as store:
                    await self._catch_up(folder.name, store, database)
            except MainstayError as error:
                log.error("recent spending of the workspace %s is not counted: %s", folder.name, error)
        return await load_rows(database)

    async def _catch_up(self, workspace: str, store: Store, database: HomeProjectionDatabase) -> None:
        follower = ProjectionRunner(
            store, [self.build_ledger_projection(database, workspace, store)], workspace=workspace
        )
        follower.start()
        try:
            done = await follower.wait_caught_up(CATCH_UP_TIMEOUT_S)
            problem = "; ".join(follower.errors.values()) or (
                "" if done else f"it takes more than {CATCH_UP_TIMEOUT_S:g} s"
            )
        finally:
            await follower.close()
        if problem:
            raise HomeUnusable(f"earlier spending cannot be counted: {problem}")


class SessionBudgetManager:
    """Implements `BudgetManager` for a workspace without configured budgets: it limits sessions that have a budget of
    their own, with their sub-agents. Its ledger is not the home's, because nothing in it is shared."""

    limits_every_session = False

    def __init__(self, clock: Clock, budgets: WorkspaceBudgets, store: Store, workspace: str) -> None:
        self._clock = clock
        self._budgets = budgets
        self._store = store
        self._workspace = workspace
        self._manager: WorkspaceBudgetManager | None = None  # its module is imported for the first such session

    async def open_turn_budget(self, session: Session) -> TurnBudget | None:
        if not await self._has_budget(session):
            return None
        if self._manager is None:
            from mainstay.metering.budget_ledger import BudgetLedger
            from mainstay.metering.turn_budgets import WorkspaceBudgetManager

            self._manager = WorkspaceBudgetManager(
                BudgetLedger(self._clock), self._budgets, self._store, self._workspace
            )
        return await self._manager.open_turn_budget(session)

    async def _has_budget(self, session: Session) -> bool:
        """Return whether the session, or the one that started this sub-agent, has a budget of its own."""
        budget, spawned = session.budget, session.spawned
        for _ in range(SUB_AGENT_DEPTH_MAX):
            if spawned is None:
                break
            info = await self._store.get_session(spawned.parent)
            if info is None:
                return False
            budget, spawned = info.budget, info.spawned
        return budget != NO_SESSION_BUDGET
