"""The audit as a reader of the journals: who asked for what, what was decided, what it came to."""

from __future__ import annotations

from collections.abc import Callable

from mainstay.core.audit import AuditLog
from mainstay.core.following import Stretch
from mainstay.core.ports import Clock
from mainstay.observe.facts import facts_of

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
        now = self._clock.now_ms()
        if self._retention_ms is not None and now - self._pruned >= PRUNE_MS:
            self._pruned = now
            await self._log.prune(max(0, now - self._retention_ms))
