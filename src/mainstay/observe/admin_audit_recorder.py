"""Writes audit events that no session's journal contains, with a buffer and retries for when the disk fails."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

import msgspec

from mainstay.core.audit import AuditEvent, AuditLog, acting_person
from mainstay.core.errors import AuditUnavailable, MainstayError
from mainstay.core.json_types import JsonMapping
from mainstay.core.ports import Clock
from mainstay.core.supervision import start_supervised_task

log = logging.getLogger("mainstay.audit")

NAME_CHARS_MAX = 200
BUFFER_MAX = 1_000  # buffered events
RETRY_MIN_S = 1.0
RETRY_MAX_S = 30.0
CLOSE_TIMEOUT_S = 10.0  # for the last attempt in `close`

_encode_json = msgspec.json.Encoder().encode


class BufferedAuditRecorder:
    """The AdminAuditRecorder of a home: writes events at once, or buffers them until the disk works again. `redact`
    removes secrets from names. `strict`: an action that cannot be audited must not be done (fail closed)."""

    def __init__(self, log: AuditLog, clock: Clock, redact: Callable[[str], str], *, strict: bool = False) -> None:
        self.lost_count = 0  # events dropped because the buffer was full
        self._strict = strict
        self._log = log
        self._clock = clock
        self._redact = redact
        self._buffer: list[AuditEvent] = []
        self._lock = asyncio.Lock()
        self._retry_task: asyncio.Task[None] | None = None

    async def ensure_available(self) -> None:
        if not self._strict:
            return
        try:
            async with self._lock:
                facts = self._buffer[:]
                await self._log.add(facts)  # also if there are none: it shows whether the log can be written
                del self._buffer[: len(facts)]
        except MainstayError as error:
            raise AuditUnavailable(f"nothing was changed: the audit log cannot be written ({error})") from error

    async def record(
        self,
        kind: str,
        what: str = "",
        *,
        workspace: str = "",
        session: str = "",
        by: str = "",
        details: JsonMapping | None = None,
    ) -> None:
        """Write an event about an action that was done. If that fails, log an error and retry in the background."""
        fact = AuditEvent(
            at=self._clock.now_ms(),
            kind=kind,
            what=self._redact_name(what),
            workspace=workspace,
            session=session,
            person=by or acting_person.get(),
            details=_encode_json(self._redact_details(details)).decode() if details else "{}",
        )
        self._buffer.append(fact)
        if (problem := await self._write_buffer()) and (self._retry_task is None or self._retry_task.done()):
            log.error("%d audit events could not be written, retrying: %s", len(self._buffer), problem)
            self._retry_task = start_supervised_task("writer of buffered audit events", self._retry_writes)

    async def close(self) -> None:
        """Write the buffered events; those that cannot be written even now are put into the program's log."""
        if self._retry_task is not None:
            async with self._lock:  # not in the middle of a write: its events would be written twice
                self._retry_task.cancel()
            await asyncio.gather(self._retry_task, return_exceptions=True)
        problem = "it took too long"
        try:
            async with asyncio.timeout(CLOSE_TIMEOUT_S):
                problem = await self._write_buffer()
        except TimeoutError:
            log.debug("buffered audit events were not written within %g s", CLOSE_TIMEOUT_S)
        for fact in self._buffer if problem else ():
            log.critical("an audit event could not be written (%s): %s", problem, _encode_json(fact).decode())
        if self.lost_count:
            log.critical(
                "%d audit events were lost: they could not be written and the buffer was full", self.lost_count
            )

    async def _retry_writes(self) -> None:
        delay_s = RETRY_MIN_S
        while self._buffer:
            await asyncio.sleep(delay_s)
            delay_s = min(delay_s * 2, RETRY_MAX_S)
            await self._write_buffer()

    async def _write_buffer(self) -> str:
        """Write the buffered events; return why that failed, empty if it did not."""
        async with self._lock:
            facts = self._buffer[:]
            if not facts:
                return ""
            try:
                await self._log.add(facts)
            except MainstayError as error:
                self.lost_count += max(0, len(self._buffer) - BUFFER_MAX)
                del self._buffer[:-BUFFER_MAX]
                return str(error) or type(error).__name__
            del self._buffer[: len(facts)]
            return ""

    def _redact_details(self, details: JsonMapping) -> JsonMapping:
        return {name: self._redact_name(value) if isinstance(value, str) else value for name, value in details.items()}

    def _redact_name(self, text: str) -> str:
        """Redact a text, then cut it: a secret that was cut in two would not be recognised."""
        return self._redact(text)[:NAME_CHARS_MAX]
