"""Trigger engine: scans the event files, computes what is due, and runs each due time once.

The wall clock decides what is due, monotonic time how long to sleep; sleeps are short, so that a changed wall clock is
noticed. Each trigger has a task of its own, which handles its due times in order, so that no trigger delays another.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Coroutine
from typing import TypeVar

import msgspec

from mainstay.core.errors import InputRefused, MainstayError
from mainstay.core.outcome import Reply
from mainstay.core.ports import Clock
from mainstay.core.triggers import (
    PromptSubmitter,
    Trigger,
    TriggerCursor,
    TriggerLog,
    TriggerRun,
    TriggerStatus,
    WakeCheck,
)
from mainstay.triggers.async_event_folder import AsyncEventFolder
from mainstay.triggers.dispatcher import TriggerDispatcher
from mainstay.triggers.event_folder import FOLDER_KEY, EventFileClaim, EventFolderScan
from mainstay.triggers.misfire_policy import TriggerEngineSettings, format_due_time
from mainstay.triggers.run_executor import (
    ANSWER_WAIT_S,
    TRANSIENT_ERRORS,
    ConcurrencySlot,
    RunInProgress,
    TriggerRunExecutor,
    backoff_delays,
    catch_error,
)
from mainstay.triggers.trigger_state import TriggerState

log = logging.getLogger("mainstay.triggers")

T = TypeVar("T")

REPLACEMENT_S = 5.0  # a file that is missing for no longer than this is being replaced
RETRY_S = 1.0  # delay before a failed trigger is tried again; doubles each time
RETRY_S_MAX = 60.0
OUTCOME_POLL_S = 15.0  # interval of polling the outcomes of runs
CURSORS_PER_ROUND = 100  # cursors written in one round, before anything else


class TriggerEngine:
    """`run` works until it is cancelled. The next process completes what is unfinished then."""

    def __init__(
        self,
        folder: AsyncEventFolder,
        log: TriggerLog,
        submitter: PromptSubmitter,
        *,
        check: WakeCheck,
        clock: Clock,
        rules: TriggerEngineSettings | None = None,
    ) -> None:
        self._folder = folder
        self._log = log
        self._clock = clock
        self._rules = rules or TriggerEngineSettings()
        self._runner = TriggerRunExecutor(log, submitter, check, clock)
        self._dispatcher = TriggerDispatcher(folder, log, self._runner, clock, self._rules)
        self._states: dict[str, TriggerState] = {}
        self._claims: dict[str, tuple[EventFileClaim, TriggerState]] = {}  # by id: files that are being fired
        self._orphan_cursors: dict[str, TriggerCursor] = {}  # of triggers whose files are missing
        self._problems: dict[str, str] = {}
        self._problem = ""
        self._tasks: set[asyncio.Task[object]] = set()
        self._scan_task: asyncio.Task[EventFolderScan] | None = None
        self._poll_task: asyncio.Task[object] | None = None
        self._scan_at = self._poll_at = 0.0
        self._has_scanned = False
        self._needs_scan = False
        self._files_seen = 0  # files of new triggers so far
        self._wakeup = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._last_manual_ms = 0

    # --- interface -------------------------------------------------------------------------------

    async def run(self) -> None:
        self._loop = asyncio.get_running_loop()
        try:
            await self._load_with_retries()
            while True:
                self._start_due_polls()
                if (error := await catch_error(self._round())) is not None:
                    self._problem = str(error)
                await self._sleep()
        finally:
            self._loop = None
            await self._stop()

    def wake(self) -> None:
        """Scan the files soon, because they may have changed. May be called from any thread at any time."""
        self._needs_scan = True
        if (loop := self._loop) is not None:
            try:
                loop.call_soon_threadsafe(self._wakeup.set)
            except RuntimeError:  # the loop is closed
                pass

    def status(self) -> list[TriggerStatus]:
        """Return the status of all triggers by name, with files that cannot be read and those that are being fired."""
        statuses = {
            name: entry.build_status(self._rules.workspace, self._dispatcher.last_runs.get(name))
            for name, entry in self._states.items()
            if not entry.missing_since
        }
        for _, entry in self._claims.values():
            statuses.setdefault(
                entry.trigger.name,
                entry.build_status(self._rules.workspace, self._dispatcher.last_runs.get(entry.trigger.name)),
            )
        for name, sentence in self._problems.items():
            statuses[name] = _with_problem(statuses.get(name) or TriggerStatus(name=name), sentence)
        if self._problem:
            statuses[FOLDER_KEY] = _with_problem(
                statuses.get(FOLDER_KEY) or TriggerStatus(name=FOLDER_KEY), self._problem
            )
        return [statuses[name] for name in sorted(statuses)]

    async def scan_status(self) -> list[TriggerStatus]:
        """Scan the files now and return the status. Also works if the engine is not running; fires nothing."""
        if self._loop is None:
            await self._load()
        self._apply_scan(await self._folder.scan())
        if self._loop is None:
            for entry in self._states.values():
                if entry.trigger.kind == "periodic" and (mark := entry.needed_cursor(self._clock.now_ms())) is not None:
                    entry.cursor = mark
                    entry.compute_next()
        return self.status()

    async def run_now(self, name: str) -> TriggerRun:
        """Run a trigger once by hand, independent of its due times. Raises InputRefused, LaneFull and any other
        MainstayError."""
        entry = self._states.get(name)
        if entry is None or entry.missing_since:
            self._apply_scan(await self._folder.scan())
            entry = self._states.get(name)
        if entry is None:
            problem = self._problems.get(name)
            raise InputRefused(f"{name} cannot be run: {problem}" if problem else f"there is no trigger {name!r}")
        if entry.is_for_other_workspace(self._rules.workspace):
            raise InputRefused(f"{name} is for the workspace {entry.trigger.target.workspace}")
        self._last_manual_ms = now = max(self._clock.now_ms(), self._last_manual_ms + 1)
        run = await self._runner.execute_now(
            RunInProgress(entry.trigger, f"by-hand:{format_due_time(now)}.{now % 1000:03}", now)
        )
        self._dispatcher.remember_run(run)
        return run

    def follow(self, run: TriggerRun, reply: Awaitable[Reply] | None) -> None:
        """Record the outcome of a run that the engine did not start, such as a webhook's."""
        self._runner.outcomes.follow(run, reply)

    async def close(self) -> None:
        """Stop following replies. The task of `run` has to be cancelled before."""
        await self._runner.outcomes.close()

    # --- the loop --------------------------------------------------------------------------------

    async def _load_with_retries(self) -> None:
        for pause in backoff_delays():
            try:
                return await self._load()
            except TRANSIENT_ERRORS as error:
                self._problem = str(error)
                log.warning("the trigger log cannot be read yet: %s", error)
                await self._clock.sleep(pause)

    async def _load(self) -> None:
        """Load the cursors and runs from disk. States from an earlier `scan_status` are dropped: their cursors were not
        stored."""
        self._orphan_cursors = await self._log.list_cursors()
        self._states, self._claims, self._has_scanned = {}, {}, False
        for run in reversed(await self._runner.outcomes.load(self._clock.now_ms())):
            self._dispatcher.remember_run(run)
        self._problem = ""

    def _start_due_polls(self) -> None:
        """Start a scan of the files and a poll of outcomes, each when it is due."""
        now = self._clock.monotonic()
        if self._scan_task is None and (self._needs_scan or now >= self._scan_at):
            self._needs_scan = False
            self._scan_at = now + self._rules.scan_interval_s
            self._scan_task = asyncio.ensure_future(self._folder.scan())
            self._scan_task.add_done_callback(lambda task: self._wakeup.set())
        if self._poll_task is None and now >= self._poll_at:
            self._poll_at = now + OUTCOME_POLL_S
            self._poll_task = self._start_task(catch_error(self._runner.outcomes.poll_outcomes()))
            self._poll_task.add_done_callback(self._on_polled)

    def _on_polled(self, task: asyncio.Task[object]) -> None:
        self._poll_task = None

    async def _round(self) -> None:
        if (scanning := self._scan_task) is not None and scanning.done():
            self._scan_task = None
            self._apply_scan(scanning.result())
        if not self._has_scanned:
            return
        error = await catch_error(self._save_cursors())  # triggers that have their cursor go on
        self._problem = str(error) if error is not None else ""
        now, monotonic = self._clock.now_ms(), self._clock.monotonic()
        waiting = self._files_behind_others(now)
        for entry in list(self._states.values()):
            if (
                not entry.is_idle(self._rules.workspace)
                and entry.trigger.name not in waiting
                and entry.seconds_until_due(now, monotonic) == 0
            ):
                work = (
                    self._dispatcher.dispatch_periodic(entry)
                    if entry.trigger.kind == "periodic"
                    else self._fire_file(entry)
                )
                self._start_work(entry, work)
        for claim, entry in list(self._claims.values()):
            if (
                not entry.busy
                and entry.retry_at <= monotonic
                and not entry.is_for_other_workspace(self._rules.workspace)
            ):
                self._start_work(entry, self._resume_claim(claim, entry))

    def _files_behind_others(self, now: int) -> set[str]:
        """Return the names of the event files whose session has an earlier file that is due or being fired: the files
        of one session are fired one after another, so that a full lane does not change their order. A file that failed
        holds up no other."""
        held = {state.trigger.target for _, state in self._claims.values() if not state.failures}
        due: list[TriggerState] = []
        for state in self._states.values():
            if state.trigger.kind == "periodic" or state.trigger.target.is_new_thread or state.failures:
                continue
            if state.busy:
                held.add(state.trigger.target)
            elif not state.is_idle(self._rules.workspace) and state.at is not None and state.at <= now:
                due.append(state)
        waiting: set[str] = set()
        for state in sorted(due, key=TriggerState.file_order):
            if state.trigger.target in held:
                waiting.add(state.trigger.name)
            held.add(state.trigger.target)
        return waiting

    async def _sleep(self) -> None:
        """Sleep until a trigger or a scan is due, or `wake` is called."""
        now, monotonic = self._clock.now_ms(), self._clock.monotonic()
        waits = [self._rules.sleep_s_max, max(self._scan_at - monotonic, 0.0)]
        waiting = self._files_behind_others(now)  # they are due when those are finished, which wakes this task
        for entry in self._states.values():
            if (
                not entry.is_idle(self._rules.workspace)
                and entry.trigger.name not in waiting
                and (wait_s := entry.seconds_until_due(now, monotonic)) is not None
            ):
                waits.append(wait_s)
        waits += [entry.retry_at - monotonic for _, entry in self._claims.values() if not entry.busy and entry.retry_at]
        sleeping = asyncio.ensure_future(self._clock.sleep(max(min(waits), 0.001)))
        waking = asyncio.ensure_future(self._wakeup.wait())
        try:
            await asyncio.wait((sleeping, waking), return_when=asyncio.FIRST_COMPLETED)
        finally:
            sleeping.cancel()
            waking.cancel()
        self._wakeup.clear()

    async def _stop(self) -> None:
        tasks: list[asyncio.Task[object]] = list(self._tasks)
        if self._scan_task is not None:
            tasks.append(self._scan_task)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._scan_task = None
        await self._runner.outcomes.close()

    # --- files -----------------------------------------------------------------------------------

    def _apply_scan(self, scan: EventFolderScan) -> None:
        """Take over the result of a scan."""
        self._problems = dict(scan.problems)
        for name, (trigger, digest) in scan.triggers.items():
            self._apply_definition(name, trigger, digest)
        is_unreadable = FOLDER_KEY in scan.problems  # then a file that was not seen may exist all the same
        for name, entry in list(self._states.items()):
            if name in scan.triggers:
                entry.missing_since, entry.removed = 0.0, False
            elif not is_unreadable and name not in scan.problems:
                self._handle_missing(name, entry)
        for claim in scan.unfinished_claims:
            if claim.id not in self._claims and (entered := self._build_state(claim.trigger, claim.digest)) is not None:
                self._claims[claim.id] = (claim, entered)
        self._has_scanned = True

    def _apply_definition(self, name: str, trigger: Trigger, digest: str) -> None:
        entry = self._states.get(name)
        if (entry is not None and entry.digest == digest) or (fresh := self._build_state(trigger, digest)) is None:
            return
        if entry is not None:
            entry.update_definition(fresh)
            return
        fresh.present_at_start = not self._has_scanned
        fresh.cursor = self._orphan_cursors.pop(name, None)
        self._files_seen += 1
        fresh.seen = (self._clock.now_ms(), self._files_seen)
        fresh.compute_next()
        self._states[name] = fresh

    def _build_state(self, trigger: Trigger, digest: str) -> TriggerState | None:
        try:
            return TriggerState(self._assign_workspace(trigger), digest)
        except MainstayError as error:  # its time zone was removed since the file was read
            self._problems[trigger.name] = str(error)
            return None

    def _assign_workspace(self, trigger: Trigger) -> Trigger:
        """Assign a trigger without a workspace to the main one, so that two workspaces of one home never both fire
        it."""
        main, target = self._rules.main_workspace, trigger.target
        if target.workspace or main in ("", self._rules.workspace):
            return trigger
        return msgspec.structs.replace(trigger, target=msgspec.structs.replace(target, workspace=main))

    def _handle_missing(self, name: str, state: TriggerState) -> None:
        """Handle a missing file. A periodic trigger is removed only after a while: its file may be being replaced."""
        state.missing_since = state.missing_since or self._clock.monotonic()
        state.removed = (
            self._clock.monotonic() - state.missing_since >= REPLACEMENT_S or state.trigger.kind != "periodic"
        )
        if state.removed and not state.busy:
            del self._states[name]
            if state.cursor is not None:
                self._orphan_cursors[name] = state.cursor

    async def _save_cursors(self) -> None:
        """Store the cursor of each periodic trigger before it is fired, and delete cursors of removed triggers."""
        if FOLDER_KEY not in self._problems:
            for name in [name for name in self._orphan_cursors if name not in self._problems]:
                await self._log.delete_cursor(name)
                del self._orphan_cursors[name]
        written_count, now = 0, self._clock.now_ms()
        for entry in list(self._states.values()):
            if entry.trigger.kind != "periodic" or entry.busy or entry.missing_since:
                continue
            if entry.is_for_other_workspace(self._rules.workspace) or (mark := entry.needed_cursor(now)) is None:
                continue
            if written_count == CURSORS_PER_ROUND:
                self._wakeup.set()  # the rest right after this round
                return
            await self._log.save_cursor(mark)
            entry.cursor = mark
            entry.compute_next()
            written_count += 1

    # --- tasks -----------------------------------------------------------------------------------

    def _start_task(self, work: Coroutine[object, None, T]) -> asyncio.Task[T]:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def _start_work(self, state: TriggerState, work: Coroutine[object, None, None]) -> None:
        state.busy = True
        self._start_task(self._run_work(state, work))

    async def _run_work(self, state: TriggerState, work: Coroutine[object, None, None]) -> None:
        """Run one trigger's work. An error is shown in its status, and the work is tried again later."""
        error = await catch_error(work)
        state.busy, state.current_run = False, None
        state.problem = str(error) if error is not None else ""
        if error is not None:
            state.failures += 1
            state.may_be_submitted = True
            state.retry_at = self._clock.monotonic() + min(RETRY_S * 2 ** min(state.failures - 1, 10), RETRY_S_MAX)
            level = logging.ERROR if state.failures == 1 else logging.WARNING
            log.log(level, "trigger %s failed and will be tried again: %s", state.trigger.name, error)
        else:
            state.failures = 0
        self._wakeup.set()

    async def _fire_file(self, state: TriggerState) -> None:
        """Fire an immediate or one-shot trigger that is due: its file is claimed for this run first."""
        name, late = state.trigger.name, self._dispatcher.is_state_late(state)
        async with self._runner.slot(is_late=late) as slot:
            claim = await self._folder.claim(name, state.digest)
            if claim is None:  # it was removed or changed: the next scan will tell
                state.retry_at = self._clock.monotonic() + RETRY_S
                self._needs_scan = True
                return
            state.may_be_submitted = False
            if self._states.get(name) is state:
                del self._states[name]
            self._claims[claim.id] = (claim, state)
            await self._finish_claim(claim, state, slot, late)

    async def _resume_claim(self, claim: EventFileClaim, state: TriggerState) -> None:
        """Complete a run whose file was claimed before an interruption."""
        async with self._runner.slot(is_late=True) as slot:
            await self._finish_claim(claim, state, slot, is_late=True)

    async def _finish_claim(
        self, claim: EventFileClaim, state: TriggerState, slot: ConcurrencySlot, is_late: bool
    ) -> None:
        run = await self._dispatcher.dispatch_claim(claim, state, slot)
        del self._claims[claim.id]
        self._wakeup.set()  # the next file of its session may be fired
        if is_late:
            await self._runner.outcomes.wait_for_answer(run, ANSWER_WAIT_S)


def _with_problem(status: TriggerStatus, sentence: str) -> TriggerStatus:
    return msgspec.structs.replace(status, trouble=sentence)
