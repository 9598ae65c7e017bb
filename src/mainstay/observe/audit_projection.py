"""Projection of the journals into the audit log, with retention."""

from __future__ import annotations

import logging
from collections.abc import Callable

from mainstay.core.audit import AuditLog
from mainstay.core.errors import MainstayError
from mainstay.core.ports import Clock
from mainstay.core.projection_ports import JournalBatch
from mainstay.observe.audit_event_builder import build_audit_events

log = logging.getLogger("mainstay.audit")

DAY_MS = 86_400_000
PRUNE_INTERVAL_MS = 3_600_000  # between two removals of old entries


class AuditProjection:
    """Writes the audit events of one workspace's journals. `redact` removes secrets from names that users, models and
    plugins chose. `retention_days` None: entries are kept for ever."""

    name = "audit"

    def __init__(
        self, log: AuditLog, clock: Clock, workspace: str, redact: Callable[[str], str], retention_days: int | None
    ) -> None:
        self._log = log
        self._clock = clock
        self._workspace = workspace
        self._redact = redact
        self._retention_ms = retention_days * DAY_MS if retention_days is not None else None
        self._pruned_at_ms = 0  # ms; time of the last removal

    async def positions(self) -> dict[str, int]:
        return await self._log.positions(self._workspace)

    async def apply(self, batch: JournalBatch) -> None:
        facts = build_audit_events(batch, self._workspace, self._redact)
        await self._log.add_from_journal(self._workspace, batch.info.key, batch.records[-1].seq, facts)
        await self.run_maintenance()

    async def run_maintenance(self) -> None:
        """Remove entries beyond the retention period, at most once an hour. Also called while no records arrive."""
        now = self._clock.now_ms()
        if self._retention_ms is None or now - self._pruned_at_ms < PRUNE_INTERVAL_MS:
            return
        self._pruned_at_ms = now
        try:
            await self._log.prune(max(0, now - self._retention_ms))
        except MainstayError as error:  # new entries were written all the same
            log.error("old entries could not be removed from the audit log: %s", error)
