"""What is due, dealt with: the times of a periodic trigger in their order, and files that were claimed."""

from __future__ import annotations

from mainstay.core.ports import Clock
from mainstay.core.triggers import Run, TriggerLog
from mainstay.triggers.due import Passed, Rules, overtaken, plan, without, written
from mainstay.triggers.entries import Entry
from mainstay.triggers.files import Files
from mainstay.triggers.firing import ANSWER_S, Case, Firing, Slot
from mainstay.triggers.folder import Claim

KNOWN_MAX = 2_000  # runs of a trigger that are read to see what it did before its clock was set back


LAST_MAX = 10_000


class Dealing:
    """`last` is what each trigger did last."""

    def __init__(self, files: Files, log: TriggerLog, firing: Firing, clock: Clock, rules: Rules) -> None:
        self.last: dict[str, Run] = {}
        self._files = files
        self._log = log
        self._firing = firing
        self._clock = clock
        self._rules = rules

    def note(self, run: Run) -> None:
        self.last.pop(run.trigger, None)
        self.last[run.trigger] = run
        if len(self.last) > LAST_MAX:
            del self.last[next(iter(self.last))]

    # --- times -----------------------------------------------------------------------------------

    async def periodic(self, entry: Entry) -> None:
        """Everything that is due by now."""
        digest = entry.digest
        if entry.doubt:
            await self._recall(entry)
        while entry.digest == digest and entry.at is not None and entry.at <= self._clock.now_ms():
            late = self._late(entry.at)
            async with self._firing.slot(late=late) as slot:
                if not await self._catch_up(entry, slot, late):
                    return

    async def _recall(self, entry: Entry) -> None:
        """The door may have taken the next time already, and the process stopped before that was written down."""
        assert entry.times is not None
        assert entry.mark is not None
        due = entry.times.after(entry.mark.upto)
        if due is not None and due <= self._clock.now_ms():
            async with self._firing.slot(late=False) as slot:
                run = await self._firing.taken(self._case(entry, due), slot)
            if run is not None:
                self.note(run)
        entry.doubt = False
        entry.aim()

    async def _catch_up(self, entry: Entry, slot: Slot, late: bool) -> bool:
        """False if there is nothing to do, or it is not wanted any more."""
        trigger, digest, times, now = entry.trigger, entry.digest, entry.times, self._clock.now_ms()
        assert times is not None
        assert entry.mark is not None
        if entry.held:
            passed, entry.held = overtaken(times, entry.mark.upto, min(entry.held, now)), 0
            if passed is not None:
                await self._pass(entry, slot, passed, "while an earlier one waited for room")
        made = plan(trigger, times, entry.mark.upto, now, self._rules)
        if made.passed is not None:
            known = await self._known(entry, slot)
            await self._pass(entry, slot, without(made.passed, known), "while nobody was there")
        for due in made.run:
            if entry.digest != digest:  # it says something else by now
                return False
            entry.case = case = self._case(entry, due)
            run = await self._firing.fire(case, slot)
            if run is None:
                return False
            self.note(run)
            if case.waited:  # whatever comes due until now has been overtaken
                entry.held = self._clock.now_ms()
            if late:
                await self._firing.outcomes.answered(run, ANSWER_S)
        entry.aim()
        return made.passed is not None or bool(made.run)

    async def _pass(self, entry: Entry, slot: Slot, passed: Passed, why: str) -> None:
        """One record for all of them. Each may still be run should the clock be set back before it."""
        first, last = written(passed.first), written(passed.last)
        case = self._case(entry, passed.last, key=f"missed:{first}/{last}")
        if not passed.count:  # they had been dealt with
            await self._firing.skip(case, slot)
            return
        many = f"{'more than ' if passed.more else ''}{passed.count} times, {first} to {last}, were"
        note = f"{many if passed.count > 1 else f'{last} was'} passed over {why}"
        self.note(await self._firing.passed(case, slot, note))

    async def _known(self, entry: Entry, slot: Slot) -> set[int]:
        """Times that are in the log by themselves."""
        name = entry.trigger.name
        case = self._case(entry, 0)
        runs = await self._firing.patiently(case, slot, lambda: self._log.runs(name, KNOWN_MAX))
        return {run.due for run in runs if run.key == written(run.due)}

    def _case(self, entry: Entry, due: int, *, key: str = "") -> Case:
        digest = entry.digest
        case = Case(entry.trigger, key or written(due), due)
        case.mark = lambda: entry.advance(due)
        case.wanted = lambda: entry.digest == digest and not entry.removed
        return case

    # --- files -----------------------------------------------------------------------------------

    async def claimed(self, claim: Claim, entry: Entry, slot: Slot) -> Run:
        """Returns when its file is where it belongs."""
        trigger, now = claim.trigger, self._clock.now_ms()
        due = (entry.times.after(0) if entry.times is not None else None) or now
        entry.case = case = Case(trigger, claim.id, due)
        run = await self._firing.taken(case, slot) if entry.doubt else None
        if run is None and trigger.missed == "skip" and self._late(entry.at or now):
            run = await self._firing.passed(case, slot, f"{written(due)} was passed over while nobody was there")
        if run is None:
            run = await self._firing.fire(case, slot)
        assert run is not None, "a claim is always wanted"
        self.note(run)
        note = run.note or ("Its check found nothing to do." if run.came == "asleep" else "")
        move = self._files.failed if run.came == "failed" else self._files.done
        await self._firing.patiently(case, slot, lambda: move(claim, note))
        return run

    def is_late(self, entry: Entry) -> bool:
        """It had to wait for us, and does so a little longer if there are many."""
        return entry.first if not entry.at else self._late(entry.at)

    def _late(self, at: int) -> bool:
        return self._clock.now_ms() - at > self._rules.grace_s * 1000
