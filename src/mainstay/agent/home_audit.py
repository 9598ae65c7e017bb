"""Audit log of a home: set-up, the fail-closed check before a turn, verification and export."""

from __future__ import annotations

import logging
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from mainstay.agent.home_paths import GATEWAY_DATABASE
from mainstay.agent.system_clock import SystemClock
from mainstay.agent.trust_setup import list_known_secrets
from mainstay.agent.workspace_stores import list_losses
from mainstay.config.schema import Config, StorageSettings
from mainstay.core.audit import CHAIN_ACCEPTED, CHAIN_RESUMED, AdminAuditRecorder, AuditEvent, AuditReader
from mainstay.core.errors import AuditUnavailable, InputRefused, MainstayError, StoreCorrupt, StoreError
from mainstay.core.ports import Clock
from mainstay.core.projection_ports import Projection
from mainstay.guards.redaction import Redactor
from mainstay.observe.audit_verifier import (
    KIND_INDEX,
    AuditFinding,
    ChainAnchor,
    ChainRow,
    ExportComparison,
    verify_chain,
)
from mainstay.observe.projection_runner import ProjectionRunner

if TYPE_CHECKING:
    from mainstay.observe.audit_export import AuditExportFormat
    from mainstay.store.sqlite.audit_log_reader import AuditSnapshot
    from mainstay.store.sqlite.home_projection_database import HomeProjectionDatabase

log = logging.getLogger("mainstay.audit")

AUDIT_PROJECTION = "audit"  # the projection's name
TURN_WAIT_S = 10.0  # how long a turn waits for the audit log to catch up


def build_audit_projections(
    config: Config, database: HomeProjectionDatabase | None, clock: Clock, redact: Callable[[str], str]
) -> list[Projection]:
    """Return the projection that writes the audit log; none without a home's database or if `audit.enabled` is
    false."""
    if database is None or not config.audit.enabled:
        return []
    from mainstay.observe.audit_projection import AuditProjection
    from mainstay.store.sqlite.audit_log import get_audit_log

    audit_log = get_audit_log(database, strict=config.audit.fail_closed)
    return [AuditProjection(audit_log, clock, config.workspace, redact, config.audit.retention_days)]


def build_audit_recorder(
    config: Config, database: HomeProjectionDatabase | None, clock: Clock, redact: Callable[[str], str]
) -> AdminAuditRecorder | None:
    """Return the recorder of audit entries that no journal records; None without a home's database or if
    `audit.enabled` is false."""
    if database is None or not config.audit.enabled:
        return None
    from mainstay.observe.admin_audit_recorder import BufferedAuditRecorder
    from mainstay.store.sqlite.audit_log import get_audit_log

    return BufferedAuditRecorder(get_audit_log(database), clock, redact, strict=config.audit.fail_closed)


def get_audit_reader(database: HomeProjectionDatabase | None) -> AuditReader | None:
    """Return the audit log for reading; None without a home's database."""
    if database is None:
        return None
    from mainstay.store.sqlite.audit_log import get_audit_log

    return get_audit_log(database)


class AuditedHomeDatabase(msgspec.Struct, frozen=True):
    """The home's database and its audit recorder, for changes that no journal records."""

    database: HomeProjectionDatabase | None = None
    recorder: AdminAuditRecorder | None = None  # None: `audit.enabled` is false

    @classmethod
    def from_database(cls, database: HomeProjectionDatabase | None, config: Config) -> AuditedHomeDatabase:
        return cls(database, build_audit_recorder(config, database, SystemClock(), build_redactor(config)))

    async def close(self) -> None:
        """Close the recorder; close it before the database."""
        if self.recorder is not None:
            await self.recorder.close()


@asynccontextmanager
async def open_home_audit(data_folder: Path, config: Config) -> AsyncIterator[AuditedHomeDatabase]:
    """Open the audit recorder of a home, for a process that owns the home and runs no agent."""
    database = await open_home_database(data_folder, config.limits.store_busy_s)
    audit = AuditedHomeDatabase.from_database(database, config)
    try:
        yield audit
    finally:
        await audit.close()
        await database.close()


async def open_home_database(home: Path, busy_s: float = 5.0) -> HomeProjectionDatabase:
    """Return the database of the home's projections. If it cannot be opened now, the projections pause until it can;
    nothing is lost, because they are derived from the journals."""
    from mainstay.store.sqlite.home_projection_database import HomeProjectionDatabase  # imports the database engine

    database = HomeProjectionDatabase(str(home / GATEWAY_DATABASE), busy_s=busy_s)
    try:
        await database.open(retry_later=True)
    except MainstayError as error:
        log.error("audit, errors and spending are not stored until the home's database can be opened: %s", error)
    return database


def build_redactor(config: Config) -> Callable[[str], str]:
    """Return a function that redacts the secrets of a configuration in a text."""
    redactor = Redactor(list_known_secrets(config, os.environ))
    return lambda text: redactor.redact(text)[0]


async def record_workspace_creation(name: str, audit: AuditedHomeDatabase) -> None:
    if audit.recorder is not None:
        await audit.recorder.record("workspace.created", name, workspace=name)


async def record_workspace_removal(name: str, audit: AuditedHomeDatabase) -> None:
    """Record the removal of a workspace, and reset its projections: a later workspace of the same name is read from the
    beginning of its journals."""
    if audit.recorder is not None:
        await audit.recorder.record("workspace.removed", name, workspace=name)
    if audit.database is not None:
        await audit.database.forget_workspace(name)


def build_turn_check(config: Config, runner: ProjectionRunner | None) -> Callable[[str], Awaitable[None]] | None:
    """Return the check before each turn: it waits until the audit log covers everything so far, the turn's input
    included, or raises AuditUnavailable (fail closed). None unless `audit.fail_closed` is set."""
    if not (config.audit.enabled and config.audit.fail_closed):
        return None

    async def gate(session: str) -> None:
        if runner is None:
            raise AuditUnavailable("no turn begins: the audit cannot be written")
        if runner.get_error(AUDIT_PROJECTION):
            await runner.retry_failed()
        done = await runner.wait_caught_up(TURN_WAIT_S)
        if problem := runner.get_error(AUDIT_PROJECTION):
            raise AuditUnavailable(f"no turn begins while the audit cannot be written: {problem}")
        if not done:
            raise AuditUnavailable(
                f"no turn begins before the audit is up to date; it was not within {TURN_WAIT_S:g} s"
            )

    return gate


# --- verification and export ---------------------------------------------------------------------


def verify_audit(data_folder: Path, comparison: ExportComparison | None = None) -> Iterator[AuditFinding]:
    """Yield what is wrong with the audit log of a home, which may be written to meanwhile. `comparison`: an
    export to compare it with."""
    from mainstay.store.sqlite.audit_log_reader import ANCHOR_FILE, AuditSnapshot

    path = data_folder / GATEWAY_DATABASE
    if not path.exists():
        yield from _check_missing_file(data_folder / ANCHOR_FILE, comparison)
        return
    try:
        with AuditSnapshot(path) as file:
            rows = _iter_chain_rows(file)
            yield from verify_chain(
                comparison.compare_rows(rows) if comparison is not None else rows,
                lambda: _get_anchor(file, ANCHOR_FILE),
            )
            has_anchor = file.anchor is not None and file.anchor.seq > 0  # then `verify` reports missing entries
            if not has_anchor and file.has_journal_events() and next(file.iter_rows(), None) is None:
                yield AuditFinding(GATEWAY_DATABASE, "all entries are missing, although journal records were audited")
            yield from (AuditFinding(GATEWAY_DATABASE, sentence) for sentence in file.check_integrity())
    except StoreError as error:
        yield AuditFinding(GATEWAY_DATABASE, str(error))
    if comparison is not None:
        yield from comparison.findings()


def find_lost_journals(data_folder: Path, storage: StorageSettings) -> Iterator[AuditFinding]:
    """Yield the workspaces whose databases lack events that the home knows of, and so may have audited."""
    for loss in list_losses(storage, data_folder):
        yield AuditFinding(f"workspace {loss.workspace}", f"{loss.describe()}; {loss.describe_choices()}")


def _check_missing_file(anchor: Path, comparison: ExportComparison | None) -> Iterator[AuditFinding]:
    if anchor.exists():
        yield AuditFinding(
            GATEWAY_DATABASE, f"the file is missing, although {anchor.name} says that it held an audit log"
        )
    if comparison is not None:
        yield from comparison.findings()


async def accept_resumed_entry(data_folder: Path, seq: int) -> None:
    """Record that the owner accepts an entry which says that the log was continued after damage (CHAIN_RESUMED). Works
    while another process owns the home. Raises InputRefused for an entry of another kind."""
    from mainstay.store.sqlite.audit_log import get_audit_log
    from mainstay.store.sqlite.audit_log_reader import AuditSnapshot
    from mainstay.store.sqlite.home_projection_database import HomeProjectionDatabase

    with AuditSnapshot(data_folder / GATEWAY_DATABASE) as file:
        entry = next((row for row in file.iter_rows() if not isinstance(row, int) and row[0] == seq), None)
    if entry is None or entry[KIND_INDEX] != CHAIN_RESUMED:
        raise InputRefused(f"entry {seq} does not say that the audit log was continued after damage ({CHAIN_RESUMED})")
    details = msgspec.json.encode({"seq": seq, "digest": entry[-1]}).decode()
    database = HomeProjectionDatabase(str(data_folder / GATEWAY_DATABASE))
    await database.open()
    try:
        audit = get_audit_log(database, strict=True)  # this command must not continue a damaged log
        await audit.add([AuditEvent(at=SystemClock().now_ms(), kind=CHAIN_ACCEPTED, what=str(seq), details=details)])
    finally:
        await database.close()


def _iter_chain_rows(snapshot: AuditSnapshot) -> Iterator[ChainRow]:
    for row in snapshot.iter_rows():
        if isinstance(row, int):
            yield ChainRow(GATEWAY_DATABASE, error=f"entry {row} cannot be read", seq=row)
        else:
            yield ChainRow(GATEWAY_DATABASE, row)


def _get_anchor(snapshot: AuditSnapshot, anchor: str) -> ChainAnchor | None:
    if snapshot.anchor is not None:
        return ChainAnchor(anchor, snapshot.anchor.seq, snapshot.anchor.digest)
    is_empty = next(snapshot.iter_rows(), None) is None
    return None if is_empty else ChainAnchor(anchor, error="it is missing or empty: entries may be missing at the end")


def export_audit(data_folder: Path, format: AuditExportFormat) -> Iterator[bytes]:
    """Yield the audit log of a home as a file that can be verified on its own."""
    from mainstay.observe.audit_export import encode_export
    from mainstay.store.sqlite.audit_log_reader import AuditSnapshot

    with AuditSnapshot(data_folder / GATEWAY_DATABASE) as file:
        yield from encode_export(_iter_readable_rows(file), format)


def _iter_readable_rows(snapshot: AuditSnapshot) -> Iterator[tuple[object, ...]]:
    for row in snapshot.iter_rows():
        if isinstance(row, int):
            raise StoreCorrupt(f"entry {row} of the audit log cannot be read; run `mainstay audit verify`")
        yield row
