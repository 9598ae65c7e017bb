"""What no journal tells, and is put on record all the same: people and keys, settings, what was forgotten."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from mainstay.core.audit import AuditLog, Fact, acting
from mainstay.core.errors import AuditUnavailable, MainstayError
from mainstay.core.ports import Clock

log = logging.getLogger("mainstay.audit")

NAME_CHARS_MAX = 200
WAITING_MAX = 1_000  # facts that wait for the disk
RETRY_S = 1.0
RETRY_MAX_S = 30.0
CLOSE_S = 10.0  # that they are tried for at the end

_encode = msgspec.json.Encoder().encode


class Notes:
    """The Notary of a home: what no journal tells is put on record at once, or as soon as that can be. `lost` is how
    many facts could not be kept even in memory. `strict`: what could not be put on record is not to be done."""

    def __init__(self, log: AuditLog, clock: Clock, clean: Callable[[str], str], *, strict: bool = False) -> None:
        self.lost = 0
        self._strict = strict
        self._log = log
        self._clock = clock
        self._clean = clean
        self._waiting: list[Fact] = []
        self._lock = asyncio.Lock()
        self._retrying: asyncio.Task[None] | None = None

    async def ready(self) -> None:
        if not self._strict:
            return
        try:
            async with self._lock:
                facts = self._waiting[:]
                await self._log.add(facts)  # also if that is nothing: whether it can be written shows
                del self._waiting[: len(facts)]
        except MainstayError as error:
            raise AuditUnavailable(f"nothing was changed: the audit cannot be written ({error})") from error

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
        """What was done stays done: if it cannot be written now, that is said loudly and tried again until it can."""
        fact = Fact(
            at=self._clock.now_ms(),
            kind=kind,
            what=self._name(what),
            workspace=workspace,
            session=session,
            person=by or acting.get(),
            details=_encode(self._named(details)).decode() if details else "{}",
        )
        self._waiting.append(fact)
        if (trouble := await self._write()) and (self._retrying is None or self._retrying.done()):
            log.error("%d facts could not be put on record yet: %s", len(self._waiting), trouble)
            self._retrying = asyncio.get_running_loop().create_task(self._retry(), name="mainstay-notes")

    async def close(self) -> None:
        """What waits is tried once more; what cannot be written even now is lost, and the log says what that was."""
        if self._retrying is not None:
            async with self._lock:  # not in the middle of writing: what is written then would be written twice
                self._retrying.cancel()
            await asyncio.gather(self._retrying, return_exceptions=True)
        trouble = "it took too long"
        try:
            async with asyncio.timeout(CLOSE_S):
                trouble = await self._write()
        except TimeoutError:
            log.debug("what waits was tried for %g s", CLOSE_S)
        for fact in self._waiting if trouble else ():
            log.critical("this could not be put on record (%s): %s", trouble, _encode(fact).decode())
        if self.lost:
            log.critical("%d facts could not be put on record, nor be kept until they can", self.lost)

    async def _retry(self) -> None:
        delay_s = RETRY_S
        while self._waiting:
            await asyncio.sleep(delay_s)
            delay_s = min(delay_s * 2, RETRY_MAX_S)
            await self._write()

    async def _write(self) -> str:
        """Why what waits could not be written; empty if it was."""
        async with self._lock:
            facts = self._waiting[:]
            if not facts:
                return ""
            try:
                await self._log.add(facts)
            except MainstayError as error:
                self.lost += max(0, len(self._waiting) - WAITING_MAX)
                del self._waiting[:-WAITING_MAX]
                return str(error) or type(error).__name__
            del self._waiting[: len(facts)]
            return ""

    def _named(self, details: Mapping[str, Any]) -> dict[str, Any]:
        return {name: self._name(value) if isinstance(value, str) else value for name, value in details.items()}

    def _name(self, text: str) -> str:
        """Cleaned first: what was cut in two would not be recognised."""
        return self._clean(text)[:NAME_CHARS_MAX]
