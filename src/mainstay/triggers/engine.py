"""The engine of triggers: sees what files there are, knows what is due, and has each time dealt with once.

The wall clock decides what is due, monotonic time how long to sleep, and never for long: a clock that was set is
noticed. Each trigger is dealt with by a task of its own, one time after the other, so that none keeps another waiting.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Coroutine
from typing import Any

import msgspec

from mainstay.core.errors import InputRefused, MainstayError
from mainstay.core.outcome import Reply
from mainstay.core.ports import Clock
from mainstay.core.triggers import Check, Door, Mark, Run, Status, Trigger, TriggerLog
from mainstay.triggers.dealing import Dealing
from mainstay.triggers.due import Rules, written
from mainstay.triggers.entries import Entry
from mainstay.triggers.files import Files
from mainstay.triggers.firing import ANSWER_S, PASSING, Case, Firing, Slot, pauses, trouble_with
from mainstay.triggers.folder import FOLDER, Claim, Scan

log = logging.getLogger("mainstay.triggers")

GONE_S = 5.0  # a file that is away for no longer than this is only being replaced
REST_S = 1.0  # before what failed is tried again, and twice as long each time
REST_S_MAX = 60.0
LOOK_UP_S = 15.0  # how often runs that have not ended are asked for
MARKS_AT_ONCE = 100  # that are written before anything else has its turn


class Engine:
    """`run` until it is cancelled. What it has not finished then is finished by whoever runs next."""

    def __init__(
        self, files: Files, log: TriggerLog, door: Door, *, check: Check, clock: Clock, rules: Rules | None = None
    ) -> None:
        self._files = files
        self._log = log
        self._clock = clock
        self._rules = rules or Rules()
        self._firing = Firing(log, door, check, clock)
        self._dealing = Dealing(files, log, self._firing, clock, self._rules)
        self._entries: dict[str, Entry] = {}
        self._claims: dict[str, tuple[Claim, Entry]] = {}  # by id: on their way
        self._marks: dict[str, Mark] = {}  # of triggers whose files are not there
        self._troubles: dict[str, str] = {}
        self._trouble = ""
        self._tasks: set[asyncio.Task[None]] = set()
        self._scanning: asyncio.Task[Scan] | None = None
        self._looking: asyncio.Task[None] | None = None
        self._scan_at = self._look_at = 0.0
        self._scanned = False
        self._changed = False
        self._woken = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._by_hand = 0

    # --- from outside ----------------------------------------------------------------------------

    async def run(self) -> None:
        self._loop = asyncio.get_running_loop()
        try:
            await self._begin()
            while True:
                self._look()
                if (error := await trouble_with(self._round())) is not None:
                    self._trouble = str(error)
                await self._nap()
        finally:
            self._loop = None
            await self._stop()

    def wake(self) -> None:
        """Files may have changed. From any thread, at any time."""
        self._changed = True
        if (loop := self._loop) is not None:
            try:
                loop.call_soon_threadsafe(self._woken.set)
            except RuntimeError:  # it is closed: nobody is to be woken
                pass

    def status(self) -> list[Status]:
        """What there is, by name; files that cannot be used among them, and what is on its way."""
        found = {
            name: entry.status(self._rules.workspace, self._dealing.last.get(name))
            for name, entry in self._entries.items()
            if not entry.gone_at
        }
        for _, entry in self._claims.values():
            found.setdefault(
                entry.trigger.name, entry.status(self._rules.workspace, self._dealing.last.get(entry.trigger.name))
            )
        for name, sentence in self._troubles.items():
            found[name] = _troubled(found.get(name) or Status(name=name), sentence)
        if self._trouble:
            found[FOLDER] = _troubled(found.get(FOLDER) or Status(name=FOLDER), self._trouble)
        return [found[name] for name in sorted(found)]

    async def look(self) -> list[Status]:
        """The same, looked at now; also for whoever does not run it, and nothing is fired by it."""
        if self._loop is None:
            await self._load()
        self._adopt(await self._files.scan())
        if self._loop is None:
            for entry in self._entries.values():
                if entry.trigger.kind == "periodic" and (mark := entry.mark_due(self._clock.now_ms())) is not None:
                    entry.mark = mark
                    entry.aim()
        return self.status()

    async def run_now(self, name: str) -> Run:
        """A run of its own, which no due time knows of. Raises InputRefused, LaneFull and whatever else is wrong."""
        entry = self._entries.get(name)
        if entry is None or entry.gone_at:
            self._adopt(await self._files.scan())
            entry = self._entries.get(name)
        if entry is None:
            trouble = self._troubles.get(name)
            raise InputRefused(f"{name} cannot be run: {trouble}" if trouble else f"there is no trigger {name!r}")
        if entry.elsewhere(self._rules.workspace):
            raise InputRefused(f"{name} is for the workspace {entry.trigger.target.workspace}")
        self._by_hand = now = max(self._clock.now_ms(), self._by_hand + 1)
        run = await self._firing.at_once(Case(entry.trigger, f"by-hand:{written(now)}.{now % 1000:03}", now))
        self._dealing.note(run)
        return run

    def follow(self, run: Run, reply: Awaitable[Reply]) -> None:
        """Something that came in another way: how it ends is written down as of any other."""
        self._firing.outcomes.follow(run, reply)

    async def close(self) -> None:
        """Whoever runs it has cancelled that; nothing is waited for any more."""
        await self._firing.outcomes.close()

    # --- the loop --------------------------------------------------------------------------------

    async def _begin(self) -> None:
        for pause in pauses():
            try:
                return await self._load()
            except PASSING as error:
                self._trouble = str(error)
                log.warning("triggers wait for their log: %s", error)
                await self._clock.sleep(pause)

    async def _load(self) -> None:
        """What is on disk. Whatever was only looked at before has marks that are not."""
        self._marks = await self._log.marks()
        self._entries, self._claims, self._scanned = {}, {}, False
        for run in reversed(await self._firing.outcomes.load(self._clock.now_ms())):
            self._dealing.note(run)
        self._trouble = ""

    def _look(self) -> None:
        """See to it that files are looked at when it is time, and runs that have not ended are asked for."""
        now = self._clock.monotonic()
        if self._scanning is None and (self._changed or now >= self._scan_at):
            self._changed = False
            self._scan_at = now + self._rules.poll_s
            self._scanning = asyncio.ensure_future(self._files.scan())
            self._scanning.add_done_callback(lambda task: self._woken.set())
        if self._looking is None and now >= self._look_at:
            self._look_at = now + LOOK_UP_S
            self._looking = self._start(trouble_with(self._firing.outcomes.look()))
            self._looking.add_done_callback(self._looked)

    def _looked(self, task: asyncio.Task[None]) -> None:
        self._looking = None

    async def _round(self) -> None:
        if (scanning := self._scanning) is not None and scanning.done():
            self._scanning = None
            self._adopt(scanning.result())
        if not self._scanned:
            return
        error = await trouble_with(self._keep_marks())  # the others go on
        self._trouble = str(error) if error is not None else ""
        now, monotonic = self._clock.now_ms(), self._clock.monotonic()
        for entry in list(self._entries.values()):
            if not entry.idle(self._rules.workspace) and entry.wait_s(now, monotonic) == 0:
                work = self._dealing.periodic(entry) if entry.trigger.kind == "periodic" else self._file(entry)
                self._deal(entry, work)
        for claim, entry in list(self._claims.values()):
            if not entry.busy and entry.rest <= monotonic and not entry.elsewhere(self._rules.workspace):
                self._deal(entry, self._claimed(claim, entry))

    async def _nap(self) -> None:
        """Until something is due, the files are to be looked at, or somebody says that they changed."""
        now, monotonic = self._clock.now_ms(), self._clock.monotonic()
        waits = [self._rules.nap_s, max(self._scan_at - monotonic, 0.0)]
        for entry in self._entries.values():
            if not entry.idle(self._rules.workspace) and (wait_s := entry.wait_s(now, monotonic)) is not None:
                waits.append(wait_s)
        waits += [entry.rest - monotonic for _, entry in self._claims.values() if not entry.busy and entry.rest]
        sleeping = asyncio.ensure_future(self._clock.sleep(max(min(waits), 0.001)))
        waking = asyncio.ensure_future(self._woken.wait())
        try:
            await asyncio.wait((sleeping, waking), return_when=asyncio.FIRST_COMPLETED)
        finally:
            sleeping.cancel()
            waking.cancel()
        self._woken.clear()

    async def _stop(self) -> None:
        tasks: list[asyncio.Task[Any]] = list(self._tasks)
        if self._scanning is not None:
            tasks.append(self._scanning)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._scanning = None
        await self._firing.outcomes.close()

    # --- files -----------------------------------------------------------------------------------

    def _adopt(self, scan: Scan) -> None:
        """What the files say now."""
        self._troubles = dict(scan.troubles)
        for name, (trigger, digest) in scan.triggers.items():
            self._meet(name, trigger, digest)
        away = FOLDER in scan.troubles  # nothing is known of what is not seen
        for name, entry in list(self._entries.items()):
            if name in scan.triggers:
                entry.gone_at, entry.removed = 0.0, False
            elif not away and name not in scan.troubles:
                self._miss(name, entry)
        for claim in scan.claimed:
            if claim.id not in self._claims and (left := self._enter(claim.trigger, claim.digest)) is not None:
                self._claims[claim.id] = (claim, left)
        self._scanned = True

    def _meet(self, name: str, trigger: Trigger, digest: str) -> None:
        known = self._entries.get(name)
        if (known is not None and known.digest == digest) or (fresh := self._enter(trigger, digest)) is None:
            return
        if known is not None:
            known.read(fresh)
            return
        fresh.first = not self._scanned
        fresh.mark = self._marks.pop(name, None)
        fresh.aim()
        self._entries[name] = fresh

    def _enter(self, trigger: Trigger, digest: str) -> Entry | None:
        try:
            return Entry(self._placed(trigger), digest)
        except MainstayError as error:  # its zone has gone since it was read
            self._troubles[trigger.name] = str(error)
            return None

    def _placed(self, trigger: Trigger) -> Trigger:
        """Two workspaces of one home never both fire what names none of them."""
        main, target = self._rules.main, trigger.target
        if target.workspace or main in ("", self._rules.workspace):
            return trigger
        return msgspec.structs.replace(trigger, target=msgspec.structs.replace(target, workspace=main))

    def _miss(self, name: str, entry: Entry) -> None:
        """Its file is not there. What is being replaced is there again at once."""
        entry.gone_at = entry.gone_at or self._clock.monotonic()
        entry.removed = self._clock.monotonic() - entry.gone_at >= GONE_S or entry.trigger.kind != "periodic"
        if entry.removed and not entry.busy:
            del self._entries[name]
            if entry.mark is not None:
                self._marks[name] = entry.mark

    async def _keep_marks(self) -> None:
        """Every periodic trigger has the mark it ought to have before anything is done about it."""
        if FOLDER not in self._troubles:
            for name in [name for name in self._marks if name not in self._troubles]:
                await self._log.drop(name)
                del self._marks[name]
        written, now = 0, self._clock.now_ms()
        for entry in list(self._entries.values()):
            if entry.trigger.kind != "periodic" or entry.busy or entry.gone_at:
                continue
            if entry.elsewhere(self._rules.workspace) or (mark := entry.mark_due(now)) is None:
                continue
            if written == MARKS_AT_ONCE:
                self._woken.set()  # the others right after this round
                return
            await self._log.put(mark)
            entry.mark = mark
            entry.aim()
            written += 1

    # --- tasks -----------------------------------------------------------------------------------

    def _start(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[None]:
        task: asyncio.Task[None] = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def _deal(self, entry: Entry, work: Coroutine[Any, Any, None]) -> None:
        entry.busy = True
        self._start(self._dealt(entry, work))

    async def _dealt(self, entry: Entry, work: Coroutine[Any, Any, None]) -> None:
        """One trigger's trouble is its own: it is shown, and tried again later."""
        error = await trouble_with(work)
        entry.busy, entry.case = False, None
        entry.trouble = str(error) if error is not None else ""
        if error is not None:
            entry.failures += 1
            entry.doubt = True
            entry.rest = self._clock.monotonic() + min(REST_S * 2 ** min(entry.failures - 1, 10), REST_S_MAX)
            level = logging.ERROR if entry.failures == 1 else logging.WARNING
            log.log(level, "trigger %s failed and is tried again: %s", entry.trigger.name, error)
        else:
            entry.failures = 0
        self._woken.set()

    async def _file(self, entry: Entry) -> None:
        """An immediate or one-shot trigger that is due: its file is taken, and is this run's alone from then on."""
        name, late = entry.trigger.name, self._dealing.is_late(entry)
        async with self._firing.slot(late=late) as slot:
            claim = await self._files.claim(name, entry.digest)
            if claim is None:  # it has gone, or is another one by now: the next look at the files tells
                entry.rest = self._clock.monotonic() + REST_S
                self._changed = True
                return
            entry.doubt = False
            if self._entries.get(name) is entry:
                del self._entries[name]
            self._claims[claim.id] = (claim, entry)
            await self._finish(claim, entry, slot, late)

    async def _claimed(self, claim: Claim, entry: Entry) -> None:
        """One that was on its way when something stopped."""
        async with self._firing.slot(late=True) as slot:
            await self._finish(claim, entry, slot, late=True)

    async def _finish(self, claim: Claim, entry: Entry, slot: Slot, late: bool) -> None:
        run = await self._dealing.claimed(claim, entry, slot)
        del self._claims[claim.id]
        if late:
            await self._firing.outcomes.answered(run, ANSWER_S)


def _troubled(status: Status, sentence: str) -> Status:
    return msgspec.structs.replace(status, trouble=sentence)
