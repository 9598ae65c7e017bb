"""In-memory state of one trigger in the engine: its definition, its cursor, its next due time."""

from __future__ import annotations

import msgspec

from mainstay.core.triggers import Trigger, TriggerCursor, TriggerRun, TriggerStatus
from mainstay.triggers.misfire_policy import apply_jitter, cursor_digest
from mainstay.triggers.run_executor import RunInProgress
from mainstay.triggers.schedule import TriggerSchedule

CLOCK_TOLERANCE_MS = 1000  # a clock that is set back by no more than this is ignored


class TriggerState:
    """`at` is when the trigger is due, in wall time (ms); None: never. Immediate triggers have 0."""

    __slots__ = (
        *(
            "at",
            "busy",
            "current_run",
            "digest",
            "may_be_submitted",
            "failures",
            "present_at_start",
            "missing_since",
            "blocked_until",
            "cursor",
            "removed",
            "retry_at",
            "seen",
        ),
        *("cursor_digest", "schedule", "trigger", "problem"),
    )

    def __init__(self, trigger: Trigger, digest: str) -> None:
        """Raises ScheduleInvalid."""
        self.trigger = trigger
        self.digest = digest
        self.cursor_digest = cursor_digest(trigger)
        self.schedule = TriggerSchedule(trigger.schedule, trigger.timezone) if trigger.schedule else None
        self.cursor: TriggerCursor | None = None
        self.current_run: RunInProgress | None = None  # the run in progress
        self.busy = False  # a task is at work on it
        self.may_be_submitted = True  # a run may have been submitted that is not in the log: look before firing
        self.blocked_until = 0  # ms: until then an earlier run waited for a full lane; 0: none did
        self.missing_since = 0.0  # monotonic: since when its file is missing; 0: it is there
        self.removed = False  # the file is missing for longer than a replacement takes
        self.present_at_start = True  # the file was there when the engine started, as many others may have been
        self.retry_at = 0.0  # monotonic: not tried again before, after a failure
        self.failures = 0  # consecutive
        self.seen = (0, 0)  # when its file was first seen (ms), and the number of files seen until then
        self.problem = ""  # the last failure, as a sentence
        self.compute_next()

    def update_definition(self, state: TriggerState) -> None:
        """Take over the definition of a changed file."""
        self.trigger, self.digest, self.cursor_digest, self.schedule = (
            state.trigger,
            state.digest,
            state.cursor_digest,
            state.schedule,
        )
        self.retry_at = 0.0
        self.compute_next()

    def compute_next(self) -> None:
        """Compute when it is due next."""
        trigger, due = self.trigger, None
        self.at: int | None = 0
        if self.schedule is None:  # immediate
            return
        if trigger.kind == "one-shot":
            due = self.schedule.next_after(0)
        elif self.cursor is not None:
            due = self.schedule.next_after(self.cursor.upto)
        self.at = apply_jitter(trigger, due) if due is not None else None

    def is_for_other_workspace(self, workspace: str) -> bool:
        """True if the trigger is for another workspace."""
        return self.trigger.target.workspace not in ("", workspace)

    # --- cursors of periodic triggers ------------------------------------------------------------

    def needed_cursor(self, now: int) -> TriggerCursor | None:
        """Return the cursor it should have, if that differs. A cursor starts when the trigger is first seen, and again
        when its schedule changes or it was paused. It follows a clock that was set back: past runs are in the log, and
        a clock that was wrong by years must not stop the trigger for years."""
        mark = self.cursor
        if mark is None or mark.digest != self.cursor_digest:
            return TriggerCursor(trigger=self.trigger.name, upto=now, since=now, digest=self.cursor_digest)
        if mark.upto > now + CLOCK_TOLERANCE_MS:
            return msgspec.structs.replace(mark, upto=now)
        return None

    def advance_cursor(self, due: int) -> TriggerCursor | None:
        """Move the cursor: everything due up to here is handled."""
        if self.cursor is not None and self.cursor.upto < due:
            self.cursor = msgspec.structs.replace(self.cursor, upto=due)
        return self.cursor

    # --- what to do ------------------------------------------------------------------------------

    def is_idle(self, workspace: str) -> bool:
        """True if it is not fired whatever the time: busy, missing, paused, without cursor, or another workspace's."""
        periodic = self.trigger.kind == "periodic"
        unmarked = periodic and (self.cursor is None or self.cursor.digest != self.cursor_digest)
        return bool(
            self.busy or self.missing_since or self.trigger.paused or unmarked or self.is_for_other_workspace(workspace)
        )

    def file_order(self) -> tuple[int, int]:
        """Return the sort key of event files: by the time they were due, and by age if that is the same."""
        seen_ms, number = self.seen
        return self.at or seen_ms, number

    def seconds_until_due(self, now: int, monotonic: float) -> float | None:
        """Return the seconds until it is due; None: not before something changes."""
        return None if self.at is None else max((self.at - now) / 1000, self.retry_at - monotonic, 0.0)

    def build_status(self, workspace: str, last_run: TriggerRun | None) -> TriggerStatus:
        trigger, waiting = self.trigger, self.current_run.waiting_for if self.current_run is not None else ""
        if self.is_for_other_workspace(workspace):
            waiting = f"for the workspace {trigger.target.workspace}"
        has_no_time = trigger.paused or self.is_for_other_workspace(workspace) or trigger.kind == "immediate"
        return TriggerStatus(
            name=trigger.name,
            kind=trigger.kind,
            next=0 if has_no_time or self.at is None else self.at,
            paused=trigger.paused,
            waiting=waiting,
            last=last_run,
            trouble=self.problem,
            trigger=trigger,
        )
