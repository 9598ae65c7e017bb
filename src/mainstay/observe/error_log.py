"""What went wrong that no journal has: whatever the program logs as an error is in the list of errors, too."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable

from mainstay.core.error_list import DETAILS_CHARS_MAX, ErrorList, Kind, Mishap, digest, told
from mainstay.core.errors import MainstayError
from mainstay.core.where import Where, here
from mainstay.observe.errors import id_of_turn

log = logging.getLogger("mainstay.observe")

WAITING_MAX = 1_000  # that could not be written yet
PER_SECOND_MAX = 20  # of the rest, the log has to do
RETRY_S = 5.0
CLOSE_S = 2.0
PROGRAM = "mainstay"

_KINDS: dict[str, Kind] = {
    "http": "server",
    "server": "server",
    "channels": "channel",
    "delivery": "channel",
    "store": "store",
    "triggers": "trigger",
}
# What these say of errors is in the journal as well, or would be told of itself without end.
_TOLD_ELSEWHERE = ("mainstay.turn", "mainstay.observe")


class ErrorLog(logging.Handler):
    """A handler of the program's logs for as long as it is `open`. It never waits and never fails: what it takes is
    written beside whoever logs. `clean` takes secrets out of a text."""

    def __init__(self, errors: ErrorList, clean: Callable[[str], str]) -> None:
        super().__init__(logging.ERROR)
        self._errors = errors
        self._clean = clean
        self._waiting: deque[Mishap] = deque(maxlen=WAITING_MAX)
        self._wake = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[None] | None = None
        self._second = 0
        self._taken = 0
        self._count = 0

    def open(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._task = self._loop.create_task(self._run(), name="errors")
        logging.getLogger(PROGRAM).addHandler(self)

    async def aclose(self) -> None:
        """What waits is written, if that can be done soon."""
        logging.getLogger(PROGRAM).removeHandler(self)
        self._loop = None
        if self._task is None:
            return
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        try:
            async with asyncio.timeout(CLOSE_S):
                await self._write()
        except (MainstayError, TimeoutError) as error:
            log.debug("errors were not listed: %s", error)

    # --- from whoever logs, in whatever thread ---------------------------------------------------

    def emit(self, record: logging.LogRecord) -> None:
        loop = self._loop
        if loop is None or record.name in _TOLD_ELSEWHERE or not self._has_room(int(record.created)):
            return
        try:
            self._waiting.append(self._mishap(record))
            loop.call_soon_threadsafe(self._wake.set)
        except Exception:  # an argument may fail at saying what it is, the loop be closed: the log's own affair
            log.debug("an error was not listed", exc_info=True)

    def _has_room(self, second: int) -> bool:
        if second != self._second:
            self._second, self._taken = second, 0
        self._taken += 1
        return self._taken <= PER_SECOND_MAX

    def _mishap(self, record: logging.LogRecord) -> Mishap:
        given = vars(record)
        at = here() or Where()
        trace = str(given.get("trace") or at.trace)
        text = record.getMessage()
        sentence, details = told(self._clean(text))
        place = record.name.removeprefix(f"{PROGRAM}.")
        error = record.exc_info[1] if record.exc_info else None
        if error is not None:
            place = type(error).__name__
            details = self._clean(f"{text}\n{logging.Formatter().formatException(record.exc_info)}")  # type: ignore[arg-type]
        ends_turn = bool(given.get("ends_turn")) and bool(trace)
        self._count += 1
        return Mishap(
            id=id_of_turn(trace) if ends_turn else digest(record.created, self._count, text, time.monotonic_ns()),
            at=int(record.created * 1000),
            kind="turn" if ends_turn else given.get("kind") or kind_of(record.name),
            place=place,
            sentence=sentence,
            details=shortened(details),
            workspace=str(given.get("workspace") or ""),
            session=self._clean(str(given.get("session") or at.session)),
            turn=given.get("turn") or at.turn,
            step=given.get("step") or at.step,
            trace=trace,
        )

    # --- to the list -----------------------------------------------------------------------------

    async def _run(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            try:
                await self._write()
            except MainstayError as error:
                log.debug("errors cannot be listed now: %s", error)
                await asyncio.sleep(RETRY_S)
                self._wake.set()

    async def _write(self) -> None:
        if not (found := list(self._waiting)):
            return
        await self._errors.add(found)
        for one in found:  # more may have come meanwhile, and pushed some of these out
            if self._waiting and self._waiting[0] is one:
                self._waiting.popleft()


def kind_of(logger: str) -> Kind:
    """By which part of the program says so."""
    part = logger.removeprefix(f"{PROGRAM}.").partition(".")[0]
    return _KINDS.get(part, "runtime")


def shortened(details: str) -> str:
    """A traceback says most at its end."""
    return details if len(details) <= DETAILS_CHARS_MAX else "…" + details[-DETAILS_CHARS_MAX:]
