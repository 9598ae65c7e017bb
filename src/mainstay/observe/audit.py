"""The audit as a reader of the journals: who asked for what, what was decided, what it came to."""

from __future__ import annotations

import logging
from collections.abc import Callable

from mainstay.core.audit import AuditLog
from mainstay.core.errors import MainstayError
from mainstay.core.following import Stretch
from mainstay.core.ports import Clock
from mainstay.observe.facts import facts_of

log = logging.getLogger("mainstay.audit")

DAY_MS = 86_400_000
PRUNE_MS = 3_600_000  # between two looks for what is too old


class Audit:
    """Of one workspace. `clean` takes secrets out of names that somebody else chose."""

    name = "audit"

    def __init__(
        self, log: AuditLog, clock: Clock, workspace: str, clean: Callable[[str], str], retention_days: int | None
    ) -> None:
        self._log = log
        self._clock = clock
        self._workspace = workspace
        self._clean = clean
        self._retention_ms = retention_days * DAY_MS if retention_days is not None else None
        self._pruned = 0  # when that was looked for

    async def positions(self) -> dict[str, int]:
        return await self._log.positions(self._workspace)

    async def take(self, stretch: Stretch) -> None:
        facts = facts_of(stretch, self._workspace, self._clean)
        await self._log.follow(self._workspace, stretch.standing.key, stretch.records[-1].seq, facts)
        await self.tend()

    async def tend(self) -> None:
        """What is too old goes, now and then; also where nothing happens."""
        now = self._clock.now_ms()
        if self._retention_ms is None or now - self._pruned < PRUNE_MS:
            return
        self._pruned = now
        try:
            await self._log.prune(max(0, now - self._retention_ms))
        except MainstayError as error:  # what is new is on record all the same
            log.error("what is too old could not be removed from the audit: %s", error)
