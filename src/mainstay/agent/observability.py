"""Observability of an agent: journal projections for audit, errors, spending, traces and metrics."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import msgspec

from mainstay.agent.agent_options import GatewayServices
from mainstay.agent.budget_report import load_budget_report
from mainstay.agent.home_audit import (
    AUDIT_PROJECTION,
    build_audit_projections,
    build_audit_recorder,
    build_redactor,
    build_turn_check,
    get_audit_reader,
    open_home_database,
)
from mainstay.agent.home_budgets import HomeBudgets
from mainstay.agent.home_error_reports import build_error_projections, get_error_store
from mainstay.agent.home_paths import checked_workspace_folder
from mainstay.agent.system_clock import SystemClock
from mainstay.config.schema import Config
from mainstay.core.audit import AuditReader
from mainstay.core.budget_ports import BudgetManager
from mainstay.core.budget_reports import BudgetReport
from mainstay.core.error_reports import ErrorStore
from mainstay.core.errors import AuditUnavailable, MainstayError
from mainstay.core.ports import Clock, Store
from mainstay.core.projection_ports import Projection
from mainstay.core.supervision import start_supervised_task
from mainstay.observe.projection_runner import ProjectionRunner

if TYPE_CHECKING:
    from mainstay.agent.telemetry import Telemetry
    from mainstay.core.health import HealthCheck
    from mainstay.observe.span_types import TelemetryOptions
    from mainstay.store.sqlite.home_projection_database import HomeProjectionDatabase

BEFORE_DELETE_WAIT_S = 10.0  # how long a deletion waits for the projections to catch up before it starts
AFTER_DELETE_WAIT_S = 2.0  # how long it waits for them afterwards
MAINTENANCE_INTERVAL_S = 3_600.0  # interval of the retention task
# projections that must keep what is deleted
REQUIRED_PROJECTIONS = {AUDIT_PROJECTION: "the audit log", "ledger": "the spending ledger"}

log = logging.getLogger("mainstay.observe")


@runtime_checkable
class RetentionProjection(Protocol):
    """A projection with periodic work: it deletes what is older than its retention period."""

    async def run_maintenance(self) -> None: ...


@runtime_checkable
class FileProjection(Protocol):
    """A projection that keeps texts of the journal: it writes them again when records are deleted."""

    async def refresh(self, session: str) -> None: ...


class ObservabilityDependencies(msgspec.Struct, frozen=True):
    """What the projections of one workspace are built from. All workspaces of a home share
    `database`; None for an agent without a home."""

    config: Config
    store: Store
    clock: Clock
    database: HomeProjectionDatabase | None = None
    redact_secrets: Callable[[str], str] = str  # redacts secrets in a text, but no PII
    home: Path | None = None  # None: in memory only
    telemetry: Telemetry | None = None  # None, and its module is not imported, where traces are not configured
    model: str = ""  # the `model` argument of the agent, if it is a name
    budgets: HomeBudgets | None = None  # budgets of the home
    heads: dict[str, int] = {}  # newest sequence of each session when this process opened the store
    redact_text: Callable[[str], str] = str  # redacts secrets, and PII if that is configured

    @property
    def workspace(self) -> str:
        return self.config.workspace


def build_projections(observed: ObservabilityDependencies) -> list[Projection]:
    """Return the projections of a workspace, as configured. A new kind of projection is added here."""
    readers: list[Projection] = build_audit_projections(
        observed.config, observed.database, observed.clock, observed.redact_secrets
    )
    readers += build_error_projections(observed.database, observed.workspace, observed.redact_text)
    if observed.database is not None and observed.budgets is not None:
        readers.append(observed.budgets.build_ledger_projection(observed.database, observed.workspace, observed.store))
    if observed.telemetry is not None:
        readers += observed.telemetry.build_projections(observed)
    if observed.config.sessions.files and observed.home is not None:
        readers.append(_build_session_files(observed, observed.home))
    return readers


def _build_session_files(observed: ObservabilityDependencies, home: Path) -> Projection:
    from mainstay.agent.session_folders import locate_session_folder  # only where files are kept
    from mainstay.context.compiler import newest_messages
    from mainstay.observe.session_export import ExportOptions
    from mainstay.observe.session_files import SessionFileProjection

    workspace = os.path.realpath(checked_workspace_folder(home, observed.workspace))
    select = partial(newest_messages, count=observed.config.sessions.memory.active_window)
    return SessionFileProjection(
        observed.store,
        lambda session: Path(locate_session_folder(workspace, session)),
        lambda session: ExportOptions(session, observed.redact_text, select),
    )


class WorkspaceObservability:
    """The running projections of one workspace."""

    def __init__(
        self,
        observed: ObservabilityDependencies,
        projections: list[Projection],
        exit_stack: AsyncExitStack,
    ) -> None:
        """`exit_stack` closes what the projections use and other workspaces do not."""
        self.observed = observed
        self.projections = projections
        self.runner = (
            ProjectionRunner(observed.store, projections, workspace=observed.workspace) if projections else None
        )
        self.audit_recorder = build_audit_recorder(
            observed.config, observed.database, observed.clock, observed.redact_secrets
        )
        self._health_checks: Sequence[HealthCheck] = ()  # created when they are first asked for
        self._maintenance_task: asyncio.Task[None] | None = None
        self._exit_stack = exit_stack

    def health_checks(self) -> Sequence[HealthCheck]:
        if not self._health_checks and self.runner is not None:
            from mainstay.observe.projection_health import ProjectionLagCheck  # for servers only

            subject = f"workspace {self.observed.workspace}"
            self._health_checks = (ProjectionLagCheck(self.runner, subject, REQUIRED_PROJECTIONS),)
        return self._health_checks

    @property
    def on_stored(self) -> Callable[[str], None] | None:
        return self.runner.notify if self.runner is not None else None

    @property
    def check_turn_allowed(self) -> Callable[[str], Awaitable[None]] | None:
        """The check before each turn: raises AuditUnavailable while the audit log cannot be written. None unless
        `audit.fail_closed` is set."""
        audited = any(reader.name == AUDIT_PROJECTION for reader in self.projections)
        return (
            build_turn_check(self.observed.config, self.runner if audited else None)
            if self.observed.home is not None
            else None
        )

    @property
    def audit_reader(self) -> AuditReader | None:
        """The home's audit log; None for an agent without a home."""
        return get_audit_reader(self.observed.database)

    @property
    def error_store(self) -> ErrorStore | None:
        """The home's error store; None for an agent without a home."""
        return get_error_store(self.observed.database)

    def telemetry_options(self) -> TelemetryOptions:
        """Return what traces of the workspace may contain."""
        from mainstay.agent.telemetry import build_telemetry_options  # imports the HTTP client

        observed = self.observed
        return build_telemetry_options(observed.config, observed.redact_text, observed.model)

    async def open_budget_manager(self) -> BudgetManager | None:
        """Return the workspace's budget manager once all earlier spending is counted; None for a gateway without."""
        observed = self.observed
        return (
            await observed.budgets.open_manager(observed.config, observed.store, observed.database)
            if observed.budgets is not None
            else None
        )

    async def load_budget_report(self, person: str | None = None) -> BudgetReport:
        observed = self.observed
        budgets = observed.budgets or HomeBudgets(observed.home, observed.clock)
        return await load_budget_report(budgets, observed.database, [observed.config], person)

    async def wait_for_audit(self) -> None:
        """Wait until the audit log and the spending ledger cover every journal record; to be called before records are
        deleted. Raises AuditUnavailable if one of them is not on disk: then nothing may be deleted."""
        required = [reader.name for reader in self.projections if reader.name in REQUIRED_PROJECTIONS]
        if self.runner is None or not required:
            return
        if any(self.runner.get_error(name) for name in required):
            await self.runner.retry_failed()
        done = await self.runner.wait_caught_up(BEFORE_DELETE_WAIT_S)
        for name in required:
            if problem := self.runner.get_error(name):
                raise AuditUnavailable(
                    f"nothing is deleted while {REQUIRED_PROJECTIONS[name]} cannot be written: {problem}"
                )
        if not done:
            raise AuditUnavailable(
                f"nothing is deleted before {REQUIRED_PROJECTIONS[required[0]]} is up to date; try again later"
            )

    async def record_deletion(self, session: str, seqs: Sequence[int] | None = None) -> None:
        """Record the deletion of a session, or of some of its records, and delete the error reports about it. Call it
        after they were deleted from the journal."""
        if self.audit_recorder is not None:
            what = "records" if seqs is not None else "session"
            details = {"records": len(seqs)} if seqs is not None else None
            await self.audit_recorder.record(
                "forgotten", what, workspace=self.observed.workspace, session=session, details=details
            )
        for reader in self.projections:
            if isinstance(reader, FileProjection):
                await reader.refresh(session)
        if (errors := self.error_store) is not None:
            if self.runner is not None:  # reports about records it has already read may not be written yet
                await self.runner.wait_caught_up(AFTER_DELETE_WAIT_S)
            try:
                await errors.forget_records(self.observed.workspace, session, seqs)
            except MainstayError as error:
                sentence = "%r was deleted, but error reports may still quote it; see `mainstay error`: %s"
                log.error(sentence, session, error)

    def start(self) -> None:
        if self.runner is not None:
            self.runner.start()
        if any(reader.name == AUDIT_PROJECTION for reader in self.projections):
            name = f"retention of workspace {self.observed.workspace!r}"
            self._maintenance_task = start_supervised_task(name, self._run_maintenance)

    async def _run_maintenance(self) -> None:
        """Run the periodic work of the projections, also while no turn runs: retention does not depend on traffic."""
        while True:
            await self.observed.clock.sleep(MAINTENANCE_INTERVAL_S)
            for reader in self.projections:
                if isinstance(reader, RetentionProjection):
                    await reader.run_maintenance()

    async def close(self) -> None:
        """Stop the projections; before the store is closed."""
        if self._maintenance_task is not None:
            self._maintenance_task.cancel()
            await asyncio.gather(self._maintenance_task, return_exceptions=True)
        if self.runner is not None:
            await self.runner.close()
        if self.audit_recorder is not None:
            await self.audit_recorder.close()
        await self._exit_stack.aclose()


@asynccontextmanager
async def run_without_agent(home: Path, config: Config, store: Store) -> AsyncIterator[WorkspaceObservability]:
    """Run the projections of a workspace without an agent, for a process that owns the home and changes journals. They
    are up to date when the block begins."""
    from mainstay.agent.trust_setup import build_output_redactor  # rarely used

    guards = build_output_redactor(config, os.environ)
    observed = ObservabilityDependencies(
        config,
        store,
        SystemClock(),
        redact_secrets=build_redactor(config),
        home=home,
        redact_text=lambda text: guards.redact(text)[0],
    )
    observing = await build_observability(observed, None)
    observing.start()
    try:
        await observing.wait_for_audit()
        yield observing
    finally:
        await observing.close()


async def build_observability(
    observed: ObservabilityDependencies, gateway: GatewayServices | None
) -> WorkspaceObservability:
    """Build the projections of a workspace. In a gateway they use its shared database, budgets and telemetry; otherwise
    they open their own. Not started yet."""
    shared = gateway.telemetry if gateway is not None else None
    observed = msgspec.structs.replace(observed, telemetry=shared or _build_telemetry(observed.config))
    if observed.telemetry is not None:
        observed = msgspec.structs.replace(observed, heads=await observed.store.list_heads())
    accounts = gateway.budgets if gateway is not None else HomeBudgets(observed.home, observed.clock)
    observed = msgspec.structs.replace(observed, budgets=accounts)
    exit_stack = AsyncExitStack()
    if gateway is not None:
        observed = msgspec.structs.replace(observed, database=gateway.database)
    elif observed.home is not None:
        database = await open_home_database(observed.home, observed.config.limits.store_busy_s)
        exit_stack.push_async_callback(database.close)
        observed = msgspec.structs.replace(observed, database=database)
    if shared is None and observed.telemetry is not None:
        exit_stack.push_async_callback(observed.telemetry.close)
    return WorkspaceObservability(observed, build_projections(observed), exit_stack)


def _build_telemetry(config: Config) -> Telemetry | None:
    if not config.telemetry.endpoint:
        return None
    from mainstay.agent.telemetry import Telemetry  # imports the HTTP client

    return Telemetry()


def combine_callbacks(first: Callable[[str], None], second: Callable[[str], None] | None) -> Callable[[str], None]:
    """Return a callback that calls both, or `first` if `second` is None."""
    if second is None:
        return first

    def call_both(session: str) -> None:
        first(session)
        second(session)

    return call_both
