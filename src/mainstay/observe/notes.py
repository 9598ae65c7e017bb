"""What no journal tells, and is put on record all the same: people and keys, settings, what was forgotten."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from mainstay.core.audit import AuditLog, Fact, acting
from mainstay.core.errors import MainstayError
from mainstay.core.ports import Clock

log = logging.getLogger("mainstay.audit")

NAME_CHARS_MAX = 200
WAITING_MAX = 1_000  # facts that wait for the disk

_encode = msgspec.json.Encoder().encode


class Notes:
    """The Notary of a home: what no journal tells is put on record at once, or as soon as that can be. `lost` is how
    many facts could not be kept even in memory."""

    def __init__(self, log: AuditLog, clock: Clock, clean: Callable[[str], str]) -> None:
        self.lost = 0
        self._log = log
        self._clock = clock
        self._clean = clean
        self._waiting: list[Fact] = []
        self._lock = asyncio.Lock()

    async def note(
        self,
        kind: str,
        what: str = "",
        *,
        workspace: str = "",
        session: str = "",
        by: str = "",
        details: Mapping[str, Any] | None = None,
    ) -> None:
        """What was done stays done: if it cannot be written now, that is said loudly and tried again with the next."""
        fact = Fact(
            at=self._clock.now_ms(),
            kind=kind,
            what=self._clean(what[:NAME_CHARS_MAX]),
            workspace=workspace,
            session=session,
            person=by or acting.get(),
            details=_encode(self._named(details)).decode() if details else "{}",
        )
        self._waiting.append(fact)
        async with self._lock:
            await self._write()

    async def _write(self) -> None:
        facts = self._waiting[:]
        if not facts:
            return
        try:
            await self._log.add(facts)
        except MainstayError as error:
            self.lost += max(0, len(self._waiting) - WAITING_MAX)
            del self._waiting[:-WAITING_MAX]
            log.error("%d facts could not be put on record yet: %s", len(self._waiting), error)
        else:
            del self._waiting[: len(facts)]

    def _named(self, details: Mapping[str, Any]) -> dict[str, Any]:
        return {
            name: self._clean(value[:NAME_CHARS_MAX]) if isinstance(value, str) else value
            for name, value in details.items()
        }
