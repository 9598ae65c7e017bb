"""Logging handler that stores log records of level ERROR as error reports (error tracking)."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable

from mainstay.core.error_reports import (
    DETAILS_CHARS_MAX,
    ErrorKind,
    ErrorReport,
    ErrorStore,
    short_digest,
    split_error_text,
)
from mainstay.core.errors import MainstayError
from mainstay.core.supervision import start_supervised_task
from mainstay.core.turn_location import TurnLocation, current_location
from mainstay.observe.error_projection import turn_report_id

log = logging.getLogger("mainstay.observe")

PENDING_MAX = 1_000  # reports that are not written yet
REPORTS_PER_SECOND_MAX = 20  # reports; further records are only in the log
RETRY_S = 5.0
CLOSE_TIMEOUT_S = 2.0
ROOT_LOGGER = "mainstay"

_KINDS_BY_LOGGER: dict[str, ErrorKind] = {
    "http": "server",
    "server": "server",
    "channels": "channel",
    "delivery": "channel",
    "store": "store",
    "triggers": "trigger",
}
# Loggers whose errors are in the journal as well, or whose errors would cause further errors without end.
_IGNORED_LOGGERS = ("mainstay.turn", "mainstay.observe")


class ErrorLogHandler(logging.Handler):
    """Handles the program's log records from `open` to `aclose`. It never blocks and never raises: reports are written
    by a background task. `redact` removes secrets from a text."""

    def __init__(self, store: ErrorStore, redact: Callable[[str], str]) -> None:
        super().__init__(logging.ERROR)
        self._store = store
        self._redact = redact
        self._pending: deque[ErrorReport] = deque(maxlen=PENDING_MAX)
        self._wake = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[None] | None = None
        self._current_second = 0  # since 1970
        self._reports_this_second = 0  # reports in that second
        self._report_count = 0  # reports since the start, for unique ids

    def open(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._task = start_supervised_task("writer of error reports", self._run)
        logging.getLogger(ROOT_LOGGER).addHandler(self)

    async def aclose(self) -> None:
        """Stop handling log records, and write the pending reports if that takes at most `CLOSE_TIMEOUT_S`."""
        logging.getLogger(ROOT_LOGGER).removeHandler(self)
        self._loop = None
        if self._task is None:
            return
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        try:
            async with asyncio.timeout(CLOSE_TIMEOUT_S):
                await self._write_pending()
        except (MainstayError, TimeoutError) as error:
            log.debug("error reports were not written: %s", error)

    # --- called by loggers, in any thread --------------------------------------------------------

    def emit(self, record: logging.LogRecord) -> None:
        loop = self._loop
        if loop is None or record.name in _IGNORED_LOGGERS or not self._is_within_rate(int(record.created)):
            return
        try:
            self._pending.append(self._build_report(record))
            loop.call_soon_threadsafe(self._wake.set)
        except Exception:  # formatting an argument may fail, or the loop may be closed: the caller must not notice
            log.debug("an error report was not written", exc_info=True)

    def _is_within_rate(self, second: int) -> bool:
        if second != self._current_second:
            self._current_second, self._reports_this_second = second, 0
        self._reports_this_second += 1
        return self._reports_this_second <= REPORTS_PER_SECOND_MAX

    def _build_report(self, record: logging.LogRecord) -> ErrorReport:
        fields = vars(record)
        location = current_location() or TurnLocation()
        trace = str(fields.get("trace") or location.trace)
        text = record.getMessage()
        sentence, details = split_error_text(self._redact(text))
        place = record.name.removeprefix(f"{ROOT_LOGGER}.")
        error = record.exc_info[1] if record.exc_info else None
        if error is not None:
            place = type(error).__name__
            details = self._redact(f"{text}\n{logging.Formatter().formatException(record.exc_info)}")  # type: ignore[arg-type]
        ends_turn = bool(fields.get("ends_turn")) and bool(trace)
        self._report_count += 1
        return ErrorReport(
            id=turn_report_id(trace)
            if ends_turn
            else short_digest(record.created, self._report_count, text, time.monotonic_ns()),
            at=int(record.created * 1000),
            kind="turn" if ends_turn else fields.get("kind") or error_kind(record.name),
            place=place,
            sentence=sentence,
            details=shorten_details(details),
            workspace=str(fields.get("workspace") or ""),
            session=self._redact(str(fields.get("session") or location.session)),
            turn=fields.get("turn") or location.turn,
            step=fields.get("step") or location.step,
            trace=trace,
        )

    # --- writing, in the background --------------------------------------------------------------

    async def _run(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            try:
                await self._write_pending()
            except MainstayError as error:
                log.debug("error reports cannot be written, retrying in %g s: %s", RETRY_S, error)
                await asyncio.sleep(RETRY_S)
                self._wake.set()

    async def _write_pending(self) -> None:
        if not (reports := list(self._pending)):
            return
        await self._store.add(reports)
        for report in reports:  # newer reports may have displaced some of these meanwhile
            if self._pending and self._pending[0] is report:
                self._pending.popleft()


def error_kind(logger_name: str) -> ErrorKind:
    """Return the kind of error that a logger reports."""
    part = logger_name.removeprefix(f"{ROOT_LOGGER}.").partition(".")[0]
    return _KINDS_BY_LOGGER.get(part, "runtime")


def shorten_details(details: str) -> str:
    """Return the end of too long details: that is where a traceback says most."""
    return details if len(details) <= DETAILS_CHARS_MAX else "…" + details[-DETAILS_CHARS_MAX:]
