"""One trigger as the engine sees it: what its file says, how far it is, and what it waits for."""

from __future__ import annotations

import msgspec

from mainstay.core.triggers import Mark, Run, Status, Trigger
from mainstay.triggers.due import delayed, shape_of
from mainstay.triggers.firing import Case
from mainstay.triggers.times import Times

SLACK_MS = 1000  # a clock that is set back by no more than this is not worth a word


class Entry:
    """`at` is when something is to be done about it, in wall time; None: nothing is."""

    __slots__ = (
        *("at", "busy", "case", "digest", "doubt", "failures", "first", "gone_at", "held", "mark", "removed", "rest"),
        *("shape", "times", "trigger", "trouble"),
    )

    def __init__(self, trigger: Trigger, digest: str) -> None:
        """Raises ScheduleUnreadable."""
        self.trigger = trigger
        self.digest = digest
        self.shape = shape_of(trigger)
        self.times = Times(trigger.schedule, trigger.timezone) if trigger.schedule else None
        self.mark: Mark | None = None
        self.case: Case | None = None  # what is being done
        self.busy = False
        self.doubt = True  # the door may have taken a time that was not written down
        self.held = 0  # ms: until then, an earlier time waited for room
        self.gone_at = 0.0  # monotonic: since when its file is not there; 0: it is
        self.removed = False  # and that is no mere replacement
        self.first = True  # it was there when we began: many may be
        self.rest = 0.0  # monotonic: it is left alone until then
        self.failures = 0
        self.trouble = ""
        self.aim()

    def read(self, fresh: Entry) -> None:
        """What its file says now."""
        self.trigger, self.digest, self.shape, self.times = fresh.trigger, fresh.digest, fresh.shape, fresh.times
        self.rest = 0.0
        self.aim()

    def aim(self) -> None:
        """When it is due next."""
        trigger, due = self.trigger, None
        self.at: int | None = 0
        if self.times is None:  # immediate
            return
        if trigger.kind == "one-shot":
            due = self.times.after(0)
        elif self.mark is not None:
            due = self.times.after(self.mark.upto)
        self.at = delayed(trigger, due) if due is not None else None

    def elsewhere(self, workspace: str) -> bool:
        """It is meant for another workspace."""
        return self.trigger.target.workspace not in ("", workspace)

    # --- marks, of periodic ones -----------------------------------------------------------------

    def mark_due(self, now: int) -> Mark | None:
        """The mark it ought to have, if that is another. It begins when it is first seen, and anew when it is another
        schedule or was paused. It follows a clock that was set back: what ran already is in the log, and one that was
        wrong by years must not silence it for years."""
        mark = self.mark
        if mark is None or mark.digest != self.shape:
            return Mark(trigger=self.trigger.name, upto=now, since=now, digest=self.shape)
        if mark.upto > now + SLACK_MS:
            return msgspec.structs.replace(mark, upto=now)
        return None

    def advance(self, due: int) -> Mark | None:
        """All up to here is dealt with."""
        if self.mark is not None and self.mark.upto < due:
            self.mark = msgspec.structs.replace(self.mark, upto=due)
        return self.mark

    # --- whether something is to be done ---------------------------------------------------------

    def idle(self, workspace: str) -> bool:
        """Nothing is done about it, whatever the time."""
        periodic = self.trigger.kind == "periodic"
        unmarked = periodic and (self.mark is None or self.mark.digest != self.shape)
        return bool(self.busy or self.gone_at or self.trigger.paused or unmarked or self.elsewhere(workspace))

    def wait_s(self, now: int, monotonic: float) -> float | None:
        """How long nothing is to be done yet; None: until something changes."""
        return None if self.at is None else max((self.at - now) / 1000, self.rest - monotonic, 0.0)

    def status(self, workspace: str, last: Run | None) -> Status:
        trigger, waiting = self.trigger, self.case.waiting if self.case is not None else ""
        if self.elsewhere(workspace):
            waiting = f"for the workspace {trigger.target.workspace}"
        asleep = trigger.paused or self.elsewhere(workspace) or trigger.kind == "immediate"
        return Status(
            name=trigger.name,
            kind=trigger.kind,
            next=0 if asleep or self.at is None else self.at,
            paused=trigger.paused,
            waiting=waiting,
            last=last,
            trouble=self.trouble,
            trigger=trigger,
        )
