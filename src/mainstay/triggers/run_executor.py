"""Executes one due run of a trigger exactly once: wake check, prompt, log entry.

The order makes it exactly once: the prompt is submitted durably, once under its idempotency key; then the run is
recorded together with the cursor; then the event file is moved. After a crash in between, the completed steps are found
when they are repeated.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator
from typing import TypeVar

import msgspec

from mainstay.core.errors import AgentClosed, HomeUnusable, LaneFull, MainstayError, StoreError
from mainstay.core.ports import Clock
from mainstay.core.triggers import (
    PromptSubmitter,
    SubmittedPrompt,
    Trigger,
    TriggerCursor,
    TriggerLog,
    TriggerRun,
    TriggerRunResult,
    WakeCheck,
    WakeCheckResult,
)
from mainstay.triggers.event_file_io import EventFolderUnusable
from mainstay.triggers.run_outcome_tracker import RunOutcomeTracker

log = logging.getLogger("mainstay.triggers")

T = TypeVar("T")

CONCURRENT_RUNS_MAX = 16  # concurrent runs
CONCURRENT_LATE_RUNS_MAX = (
    4  # concurrent missed runs, each until its answer: after a downtime not everything starts at once
)
ANSWER_WAIT_S = 30.0  # longest wait for that answer
CHECK_SLOT_S = 2.0  # a check that takes longer gives up its slot while it runs
BACKOFF_S_MAX = 60.0
NOTE_CHARS_MAX = 500
TRANSIENT_ERRORS = (StoreError, HomeUnusable, AgentClosed, EventFolderUnusable)  # transient: retried until it succeeds


def backoff_delays() -> Iterator[float]:
    """Yield backoff delays without end: 1, 2, 4 … 60 s."""
    pause = 1.0
    while True:
        yield pause
        pause = min(pause * 2, BACKOFF_S_MAX)


async def catch_error(work: Awaitable[object]) -> Exception | None:
    """Await the work and return the exception that it raised, if any: one trigger's error must not stop the engine."""
    try:
        await work
    except MainstayError as error:
        return error
    except Exception as error:  # of the agent, a check, a disk, or a bug: it affects this trigger only
        log.exception("a trigger failed")
        return error
    return None


class ConcurrencySlot:
    """A permit of a semaphore that can be released while its holder waits for something else, and taken again."""

    def __init__(self, semaphore: asyncio.Semaphore) -> None:
        self._semaphore = semaphore
        self._is_held = False

    async def __aenter__(self) -> ConcurrencySlot:
        await self.acquire()
        return self

    async def __aexit__(self, *_: object) -> None:
        self.release()

    async def acquire(self) -> None:
        if not self._is_held:
            await self._semaphore.acquire()
            self._is_held = True

    def release(self) -> None:
        if self._is_held:
            self._is_held = False
            self._semaphore.release()


class RunInProgress:
    """One run in progress. `advance_cursor` moves the cursor of a periodic trigger past it, and returns it."""

    __slots__ = ("advance_cursor", "due", "had_to_wait", "is_wanted", "key", "trigger", "waiting_for")

    def __init__(self, trigger: Trigger, key: str, due: int) -> None:
        self.trigger = trigger
        self.key = key
        self.due = due
        self.advance_cursor: Callable[[], TriggerCursor | None] = lambda: None
        self.is_wanted: Callable[[], bool] = lambda: True  # False: its trigger was removed or changed
        self.waiting_for = ""  # what it waits for, as a sentence
        self.had_to_wait = False  # it had to wait for a full lane


class TriggerRunExecutor:
    """Runs triggers: submits their prompts, records the runs, and retries until the store accepts them."""

    def __init__(self, log: TriggerLog, submitter: PromptSubmitter, check: WakeCheck, clock: Clock) -> None:
        self.outcomes = RunOutcomeTracker(log, submitter)
        self._log = log
        self._submitter = submitter
        self._check = check
        self._clock = clock
        self._semaphore = asyncio.Semaphore(CONCURRENT_RUNS_MAX)
        self._late_semaphore = asyncio.Semaphore(CONCURRENT_LATE_RUNS_MAX)

    def slot(self, *, is_late: bool) -> ConcurrencySlot:
        return ConcurrencySlot(self._late_semaphore if is_late else self._semaphore)

    async def execute(self, current_run: RunInProgress, slot: ConcurrencySlot) -> TriggerRun | None:
        """Execute a run once and return its record, which is on disk; None if its trigger was removed or changed
        meanwhile, and then nothing happened."""
        recorded = await self.retry_transient(
            current_run, slot, lambda: self._log.find_run(current_run.trigger.name, current_run.key)
        )
        if recorded is not None:
            await self.advance_only(current_run, slot)
            return recorded
        checked = await self._run_check(current_run, slot)
        if isinstance(checked, TriggerRun):
            return await self._record_run(current_run, slot, checked)
        try:
            prompted = await self._submit(current_run, checked, slot)
        except MainstayError as error:
            return await self._record_run(current_run, slot, self._build_run(current_run, "failed", str(error)))
        return await self._record_submitted(current_run, slot, prompted) if prompted is not None else None

    async def execute_now(self, current_run: RunInProgress) -> TriggerRun:
        """Execute a run for a user, without queueing or retries. Raises the error if it fails."""
        async with ConcurrencySlot(asyncio.Semaphore()) as slot:
            checked = await self._run_check(current_run, slot)
        if isinstance(checked, TriggerRun):
            await self._log.record_run(checked)
            return checked
        prompted = await self._submitter.submit(checked, current_run.key)
        run = self._build_submitted_run(current_run, prompted)
        await self._log.record_run(run)
        self.outcomes.follow(run, prompted.reply)
        return run

    async def find_submitted(self, current_run: RunInProgress, slot: ConcurrencySlot) -> TriggerRun | None:
        """Return the run if an earlier process submitted it, and record it if that process did not; None otherwise."""
        recorded = await self.retry_transient(
            current_run, slot, lambda: self._log.find_run(current_run.trigger.name, current_run.key)
        )
        if recorded is not None:
            return recorded
        prompted = await self.retry_transient(
            current_run, slot, lambda: self._submitter.find_submitted(current_run.trigger, current_run.key)
        )
        return await self._record_submitted(current_run, slot, prompted) if prompted is not None else None

    async def record_missed(self, current_run: RunInProgress, slot: ConcurrencySlot, note: str) -> TriggerRun:
        """Record that the run was missed, without executing it."""
        return await self._record_run(current_run, slot, self._build_run(current_run, "missed", note))

    async def advance_only(self, current_run: RunInProgress, slot: ConcurrencySlot) -> None:
        """Only move the cursor: the run is in the log already."""
        if (mark := current_run.advance_cursor()) is not None:
            await self.retry_transient(current_run, slot, lambda: self._log.save_cursor(mark))

    async def retry_transient(
        self, current_run: RunInProgress, slot: ConcurrencySlot, work: Callable[[], Awaitable[T]]
    ) -> T:
        """Repeat the work until no transient error occurs."""
        for pause in backoff_delays():
            try:
                result = await work()
            except TRANSIENT_ERRORS as error:
                await self._wait_and_retry(current_run, slot, error, pause)
            else:
                current_run.waiting_for = ""
                return result
        raise AssertionError("retries have no end")

    # --- steps -----------------------------------------------------------------------------------

    async def _record_run(self, current_run: RunInProgress, slot: ConcurrencySlot, run: TriggerRun) -> TriggerRun:
        await self.retry_transient(current_run, slot, lambda: self._log.record_run(run, current_run.advance_cursor()))
        return run

    async def _record_submitted(
        self, current_run: RunInProgress, slot: ConcurrencySlot, prompted: SubmittedPrompt
    ) -> TriggerRun:
        run = await self._record_run(current_run, slot, self._build_submitted_run(current_run, prompted))
        self.outcomes.follow(run, prompted.reply)
        return run

    def _build_submitted_run(self, current_run: RunInProgress, prompted: SubmittedPrompt) -> TriggerRun:
        return msgspec.structs.replace(
            self._build_run(current_run, "fired"), session=prompted.session, seq=prompted.seq
        )

    async def _run_check(self, current_run: RunInProgress, slot: ConcurrencySlot) -> Trigger | TriggerRun:
        """Run the wake check, if there is one. Return the trigger with the check's output added to its data, or the
        run's record if the check failed or says that there is nothing to do."""
        trigger = current_run.trigger
        if not trigger.check:
            return trigger
        current_run.waiting_for = "its check runs"
        checking = asyncio.ensure_future(self._check(trigger))
        try:
            await asyncio.wait((checking,), timeout=CHECK_SLOT_S)
            if not checking.done():  # let other runs have the slot
                slot.release()
            checked: WakeCheckResult = await checking
        finally:
            current_run.waiting_for = ""
            if checking.cancel():  # this task is being cancelled: stop the check with it
                await asyncio.wait((checking,))
        await slot.acquire()
        if checked.trouble:
            return self._build_run(current_run, "failed", checked.trouble)
        if not checked.wake:
            return self._build_run(current_run, "asleep", checked.output)
        data = "\n\n".join(part for part in (trigger.data, checked.output) if part)
        return msgspec.structs.replace(trigger, data=data)

    async def _submit(
        self, current_run: RunInProgress, trigger: Trigger, slot: ConcurrencySlot
    ) -> SubmittedPrompt | None:
        """Submit the prompt, waiting for a full lane like a user's message, without a time limit. None if the run is
        not wanted any more."""
        for pause in backoff_delays():
            if not current_run.is_wanted():
                return None
            try:
                prompted = await self._submitter.submit(trigger, current_run.key)
            except LaneFull as error:
                current_run.had_to_wait = True
                await self._wait_and_retry(current_run, slot, error, pause)
            except TRANSIENT_ERRORS as error:
                await self._wait_and_retry(current_run, slot, error, pause)
            else:
                current_run.waiting_for = ""
                return prompted
        raise AssertionError("retries have no end")

    async def _wait_and_retry(
        self, current_run: RunInProgress, slot: ConcurrencySlot, error: Exception, delay_s: float
    ) -> None:
        if str(error) != current_run.waiting_for:
            level = logging.INFO if isinstance(error, LaneFull) else logging.WARNING
            log.log(level, "trigger %s waits: %s", current_run.trigger.name, error)
        current_run.waiting_for = str(error)
        slot.release()
        await self._clock.sleep(delay_s)
        await slot.acquire()

    def _build_run(self, current_run: RunInProgress, result: TriggerRunResult, note: str = "") -> TriggerRun:
        now, name = self._clock.now_ms(), current_run.trigger.name
        valid_note = note[:NOTE_CHARS_MAX].encode(errors="replace").decode()
        return TriggerRun(
            trigger=name, key=current_run.key, due=current_run.due, at=now, result=result, note=valid_note
        )
