"""One time that a trigger came due, from there to its place in the log.

The order makes it happen once: the door takes the prompt, durably and once under its key; then the run is written
down, with the mark; then its file is moved. Whatever stops in between, the step before is known when it is repeated.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator
from typing import TypeVar

import msgspec

from mainstay.core.errors import AgentClosed, HomeUnusable, LaneFull, MainstayError, StoreError
from mainstay.core.ports import Clock
from mainstay.core.triggers import Check, Checked, Door, Mark, Prompted, Ran, Run, Trigger, TriggerLog
from mainstay.triggers.filing import EventsUnusable
from mainstay.triggers.outcomes import Outcomes

log = logging.getLogger("mainstay.triggers")

T = TypeVar("T")

AT_ONCE = 16  # times that are brought to the door
LATE_AT_ONCE = 4  # of those that were missed, each until its answer is in: nothing that was stopped starts all at once
ANSWER_S = 30.0  # for which an answer to one of those is waited for
CHECK_S = 2.0  # after which a check goes on without keeping others from theirs
PAUSE_S_MAX = 60.0
NOTE_CHARS_MAX = 500
PASSING = (StoreError, HomeUnusable, AgentClosed, EventsUnusable)  # what is tried again until it is over


def pauses() -> Iterator[float]:
    """1, 2, 4 … 60 s, for as long as it takes."""
    pause = 1.0
    while True:
        yield pause
        pause = min(pause * 2, PAUSE_S_MAX)


async def trouble_with(work: Awaitable[object]) -> Exception | None:
    """What one trigger's work raised. The others, and the loop, go on."""
    try:
        await work
    except MainstayError as error:
        return error
    except Exception as error:  # of a door, a check, a disk, or a bug of ours: it is this trigger's own
        log.exception("a trigger failed")
        return error
    return None


class Slot:
    """A place among so many. Whoever waits for something else leaves it meanwhile."""

    def __init__(self, gate: asyncio.Semaphore) -> None:
        self._gate = gate
        self._held = False

    async def __aenter__(self) -> Slot:
        await self.take()
        return self

    async def __aexit__(self, *_: object) -> None:
        self.leave()

    async def take(self) -> None:
        if not self._held:
            await self._gate.acquire()
            self._held = True

    def leave(self) -> None:
        if self._held:
            self._held = False
            self._gate.release()


class Case:
    """One time that is being dealt with. `mark` moves the mark of a periodic trigger past it, and gives it."""

    __slots__ = ("due", "key", "mark", "trigger", "waited", "waiting", "wanted")

    def __init__(self, trigger: Trigger, key: str, due: int) -> None:
        self.trigger = trigger
        self.key = key
        self.due = due
        self.mark: Callable[[], Mark | None] = lambda: None
        self.wanted: Callable[[], bool] = lambda: True  # False: its trigger is gone, or another
        self.waiting = ""  # for what, in words
        self.waited = False  # until there was room


class Firing:
    def __init__(self, log: TriggerLog, door: Door, check: Check, clock: Clock) -> None:
        self.outcomes = Outcomes(log, door)
        self._log = log
        self._door = door
        self._check = check
        self._clock = clock
        self._gate = asyncio.Semaphore(AT_ONCE)
        self._late_gate = asyncio.Semaphore(LATE_AT_ONCE)

    def slot(self, *, late: bool) -> Slot:
        return Slot(self._late_gate if late else self._gate)

    async def fire(self, case: Case, slot: Slot) -> Run | None:
        """What came of it, on disk; None if it is not wanted any more, and then nothing happened."""
        known = await self.patiently(case, slot, lambda: self._log.find(case.trigger.name, case.key))
        if known is not None:
            await self.skip(case, slot)
            return known
        shown = await self._asked(case, slot)
        if isinstance(shown, Run):
            return await self._record(case, slot, shown)
        try:
            prompted = await self._accept(case, shown, slot)
        except MainstayError as error:
            return await self._record(case, slot, self._run(case, "failed", str(error)))
        return await self._fired(case, slot, prompted) if prompted is not None else None

    async def at_once(self, case: Case) -> Run:
        """By hand: nothing waits, and whoever asked for it is told what is wrong."""
        async with Slot(asyncio.Semaphore()) as slot:
            shown = await self._asked(case, slot)
        if isinstance(shown, Run):
            await self._log.record(shown)
            return shown
        prompted = await self._door.accept(shown, case.key)
        run = self._prompted(case, prompted)
        await self._log.record(run)
        self.outcomes.follow(run, prompted.reply)
        return run

    async def taken(self, case: Case, slot: Slot) -> Run | None:
        """What an earlier process had the door take, and may not have written down."""
        known = await self.patiently(case, slot, lambda: self._log.find(case.trigger.name, case.key))
        if known is not None:
            return known
        prompted = await self.patiently(case, slot, lambda: self._door.taken(case.trigger, case.key))
        return await self._fired(case, slot, prompted) if prompted is not None else None

    async def passed(self, case: Case, slot: Slot, note: str) -> Run:
        """It is not run, and that is written down."""
        return await self._record(case, slot, self._run(case, "missed", note))

    async def skip(self, case: Case, slot: Slot) -> None:
        """It is known already; only the mark moves past it."""
        if (mark := case.mark()) is not None:
            await self.patiently(case, slot, lambda: self._log.put(mark))

    async def patiently(self, case: Case, slot: Slot, work: Callable[[], Awaitable[T]]) -> T:
        """Until the disk is there again."""
        for pause in pauses():
            try:
                result = await work()
            except PASSING as error:
                await self._wait(case, slot, error, pause)
            else:
                case.waiting = ""
                return result
        raise AssertionError("it is tried for ever")

    # --- on the way ------------------------------------------------------------------------------

    async def _record(self, case: Case, slot: Slot, run: Run) -> Run:
        await self.patiently(case, slot, lambda: self._log.record(run, case.mark()))
        return run

    async def _fired(self, case: Case, slot: Slot, prompted: Prompted) -> Run:
        run = await self._record(case, slot, self._prompted(case, prompted))
        self.outcomes.follow(run, prompted.reply)
        return run

    def _prompted(self, case: Case, prompted: Prompted) -> Run:
        return msgspec.structs.replace(self._run(case, "fired"), session=prompted.session, seq=prompted.seq)

    async def _asked(self, case: Case, slot: Slot) -> Trigger | Run:
        """The prompt with what the check said; or what came of it, if there is nothing to do."""
        trigger = case.trigger
        if not trigger.check:
            return trigger
        case.waiting = "its check runs"
        checking = asyncio.ensure_future(self._check(trigger))
        try:
            await asyncio.wait((checking,), timeout=CHECK_S)
            if not checking.done():  # others need not wait for it
                slot.leave()
            checked: Checked = await checking
        finally:
            case.waiting = ""
            if checking.cancel():  # we are being stopped, and so is it
                await asyncio.wait((checking,))
        await slot.take()
        if checked.trouble:
            return self._run(case, "failed", checked.trouble)
        if not checked.wake:
            return self._run(case, "asleep", checked.said)
        data = "\n\n".join(part for part in (trigger.data, checked.said) if part)
        return msgspec.structs.replace(trigger, data=data)

    async def _accept(self, case: Case, trigger: Trigger, slot: Slot) -> Prompted | None:
        """It waits its turn like anybody's message, for as long as it takes."""
        for pause in pauses():
            if not case.wanted():
                return None
            try:
                prompted = await self._door.accept(trigger, case.key)
            except LaneFull as error:
                case.waited = True
                await self._wait(case, slot, error, pause)
            except PASSING as error:
                await self._wait(case, slot, error, pause)
            else:
                case.waiting = ""
                return prompted
        raise AssertionError("it is tried for ever")

    async def _wait(self, case: Case, slot: Slot, error: Exception, pause: float) -> None:
        if str(error) != case.waiting:
            level = logging.INFO if isinstance(error, LaneFull) else logging.WARNING
            log.log(level, "trigger %s waits: %s", case.trigger.name, error)
        case.waiting = str(error)
        slot.leave()
        await self._clock.sleep(pause)
        await slot.take()

    def _run(self, case: Case, came: Ran, note: str = "") -> Run:
        now, name = self._clock.now_ms(), case.trigger.name
        keepable = note[:NOTE_CHARS_MAX].encode(errors="replace").decode()
        return Run(trigger=name, key=case.key, due=case.due, at=now, came=came, note=keepable)
