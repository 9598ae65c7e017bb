"""Dispatches due triggers: the due times of a periodic trigger in order, with catch-up, and claimed event files."""

from __future__ import annotations

from mainstay.core.ports import Clock
from mainstay.core.triggers import TriggerLog, TriggerRun
from mainstay.triggers.async_event_folder import AsyncEventFolder
from mainstay.triggers.event_folder import EventFileClaim
from mainstay.triggers.misfire_policy import (
    SkippedDueTimes,
    TriggerEngineSettings,
    exclude_recorded,
    find_overtaken,
    format_due_time,
    plan_catch_up,
)
from mainstay.triggers.run_executor import ANSWER_WAIT_S, ConcurrencySlot, RunInProgress, TriggerRunExecutor
from mainstay.triggers.trigger_state import TriggerState

RECORDED_RUNS_MAX = 2_000  # runs of a trigger that are read to find what it did before the clock was set back
LAST_RUNS_MAX = 10_000  # triggers whose last run is remembered


class TriggerDispatcher:
    """`last_runs` is the last run of each trigger."""

    def __init__(
        self,
        folder: AsyncEventFolder,
        log: TriggerLog,
        runner: TriggerRunExecutor,
        clock: Clock,
        rules: TriggerEngineSettings,
    ) -> None:
        self.last_runs: dict[str, TriggerRun] = {}
        self._folder = folder
        self._log = log
        self._runner = runner
        self._clock = clock
        self._rules = rules

    def remember_run(self, run: TriggerRun) -> None:
        self.last_runs.pop(run.trigger, None)
        self.last_runs[run.trigger] = run
        if len(self.last_runs) > LAST_RUNS_MAX:
            del self.last_runs[next(iter(self.last_runs))]

    # --- periodic triggers -----------------------------------------------------------------------

    async def dispatch_periodic(self, state: TriggerState) -> None:
        """Handle everything that is due by now."""
        digest = state.digest
        if state.may_be_submitted:
            await self._recover_submitted(state)
        while state.digest == digest and state.at is not None and state.at <= self._clock.now_ms():
            late = self._is_late(state.at)
            async with self._runner.slot(is_late=late) as slot:
                if not await self._catch_up(state, slot, late):
                    return

    async def _recover_submitted(self, state: TriggerState) -> None:
        """Record the next due time if an earlier process submitted it and stopped before it was recorded."""
        assert state.schedule is not None
        assert state.cursor is not None
        due = state.schedule.next_after(state.cursor.upto)
        if due is not None and due <= self._clock.now_ms():
            async with self._runner.slot(is_late=False) as slot:
                run = await self._runner.find_submitted(self._begin_run(state, due), slot)
            if run is not None:
                self.remember_run(run)
        state.may_be_submitted = False
        state.compute_next()

    async def _catch_up(self, state: TriggerState, slot: ConcurrencySlot, is_late: bool) -> bool:
        """Run or skip what is due, by the misfire policy. False if there was nothing to do, or the trigger was changed
        or removed."""
        trigger, digest, times, now = state.trigger, state.digest, state.schedule, self._clock.now_ms()
        assert times is not None
        assert state.cursor is not None
        if state.blocked_until:
            skipped, state.blocked_until = find_overtaken(times, state.cursor.upto, min(state.blocked_until, now)), 0
            if skipped is not None:
                await self._record_skipped(state, slot, skipped, "while an earlier one waited for a full lane")
        catch_up = plan_catch_up(trigger, times, state.cursor.upto, now, self._rules)
        if catch_up.skipped is not None:
            recorded = await self._recorded_due_times(state, slot)
            await self._record_skipped(
                state, slot, exclude_recorded(catch_up.skipped, recorded), "while no process was running"
            )
        for due in catch_up.due_times:
            if state.digest != digest:  # its file has changed meanwhile
                return False
            state.current_run = case = self._begin_run(state, due)
            run = await self._runner.execute(case, slot)
            if run is None:
                return False
            self.remember_run(run)
            if case.had_to_wait:  # what became due until now is skipped
                state.blocked_until = self._clock.now_ms()
            if is_late:
                await self._runner.outcomes.wait_for_answer(run, ANSWER_WAIT_S)
        state.compute_next()
        return catch_up.skipped is not None or bool(catch_up.due_times)

    async def _record_skipped(
        self, state: TriggerState, slot: ConcurrencySlot, skipped: SkippedDueTimes, reason: str
    ) -> None:
        """Write one record for a range of skipped times. A single time of it may still be run if the clock is set
        back."""
        first, last = format_due_time(skipped.first), format_due_time(skipped.last)
        case = self._begin_run(state, skipped.last, key=f"missed:{first}/{last}")
        if not skipped.count:  # all of them are in the log already
            await self._runner.advance_only(case, slot)
            return
        many = f"{'more than ' if skipped.has_more else ''}{skipped.count} times, {first} to {last}, were"
        note = f"{many if skipped.count > 1 else f'{last} was'} skipped {reason}"
        self.remember_run(await self._runner.record_missed(case, slot, note))

    async def _recorded_due_times(self, state: TriggerState, slot: ConcurrencySlot) -> set[int]:
        """Return the due times that have a run of their own in the log."""
        name = state.trigger.name
        case = self._begin_run(state, 0)
        runs = await self._runner.retry_transient(case, slot, lambda: self._log.list_runs(name, RECORDED_RUNS_MAX))
        return {run.due for run in runs if run.key == format_due_time(run.due)}

    def _begin_run(self, state: TriggerState, due: int, *, key: str = "") -> RunInProgress:
        digest = state.digest
        case = RunInProgress(state.trigger, key or format_due_time(due), due)
        case.advance_cursor = lambda: state.advance_cursor(due)
        case.is_wanted = lambda: state.digest == digest and not state.removed
        return case

    # --- claimed files ---------------------------------------------------------------------------

    async def dispatch_claim(self, claim: EventFileClaim, state: TriggerState, slot: ConcurrencySlot) -> TriggerRun:
        """Run a claimed file's trigger and move the file to done/ or failed/."""
        trigger, now = claim.trigger, self._clock.now_ms()
        due = (state.schedule.next_after(0) if state.schedule is not None else None) or now
        state.current_run = case = RunInProgress(trigger, claim.id, due)
        run = await self._runner.find_submitted(case, slot) if state.may_be_submitted else None
        if run is None and trigger.missed == "skip" and self._is_late(state.at or now):
            run = await self._runner.record_missed(
                case, slot, f"{format_due_time(due)} was skipped while no process was running"
            )
        if run is None:
            run = await self._runner.execute(case, slot)
        assert run is not None, "a claim is always wanted"
        self.remember_run(run)
        note = run.note or ("Its check found nothing to do." if run.result == "asleep" else "")
        move = self._folder.move_to_failed if run.result == "failed" else self._folder.move_to_done
        await self._runner.retry_transient(case, slot, lambda: move(claim, note))
        return run

    def is_state_late(self, state: TriggerState) -> bool:
        """True if it was due while no process was running: late runs have fewer slots."""
        return state.present_at_start if not state.at else self._is_late(state.at)

    def _is_late(self, at: int) -> bool:
        return self._clock.now_ms() - at > self._rules.grace_s * 1000
