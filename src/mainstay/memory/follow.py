"""Following the journal: whatever a session says is brought to every tier, beside the turns and never in their way.

Each tier has its own position in each session, which it keeps together with what it made of the records, so that
nothing is lost or done twice, whatever stops it. Words, summaries, facts and workflows are followed together, from
one reading of the journal; vectors by themselves, because they may be slow, or come from far away, or late.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence

from mainstay.core.entries import entries_of
from mainstay.core.events import Received, Steered, ToolFinished, TurnEnded, TurnStarted
from mainstay.core.journal import Record
from mainstay.core.limits import Limits
from mainstay.core.ports import Clock, Store
from mainstay.core.recall import Embedder, Memory, Tiers
from mainstay.memory.legs import KNOWN_MAX, Leg, facts_of, read_decided, summaries_of
from mainstay.memory.meaning import Meaning
from mainstay.memory.walk import Walk, trouble_with
from mainstay.memory.workflows import workflows_in

log = logging.getLogger("mainstay.memory")

QUIET_S = 1.0  # between something happening and following it
PAGE = 128  # records read at once
LOOK_BACK = 64  # records before a turn in which its prompt may stand
TURN_PAGE = 512
TURN_RECORDS_MAX = 5_000  # of turns that may become workflows, looked at together
SETTLE_S = 30.0  # how often tiers are told of records that held nothing for them
START_RETRY_S = 5.0
CLOSE_S = 2.0


class Follower:
    """`touched` is told of every session that has something new on disk. `note` says what cannot be done, and why.

    `on_workflows` hears of those that were just learned. `newest`: only so many messages stay searchable.
    """

    def __init__(
        self,
        store: Store,
        tiers: Tiers,
        *,
        embedder: Embedder | None,
        clock: Clock,
        limits: Limits,
        newest: int | None = None,
    ) -> None:
        self.note = ""
        self.on_workflows: Callable[[Sequence[Memory]], None] | None = None
        self._store = store
        self._clock = clock
        self._newest = newest
        self._messages = Leg(tiers.messages, entries_of, clock)
        self._legs = (
            self._messages,
            Leg(tiers.summaries, summaries_of, clock),
            Leg(tiers.facts, facts_of, clock),
        )
        self._turns = Leg(tiers.memories, workflows_in, clock)
        self._ended: dict[str, int] = {}  # where each session's last turn ended
        self._idle: set[str] = set()  # sessions that have called no tools since
        self._walk = Walk(self._follow, QUIET_S)
        self.touched = self._walk.touch
        self._meaning: Meaning | None = None
        if embedder is not None and tiers.vectors is not None:
            self._meaning = Meaning(store, tiers.vectors, embedder, clock, self._say)
        elif embedder is not None:
            self.note = "search is by words only: sqlite-vec is not installed (pip install -e '.[memory]')"
        self._tasks: list[asyncio.Task[None]] = []

    # --- from outside ----------------------------------------------------------------------------

    def start(self) -> None:
        """In the background: what was missed is looked for, and then what is touched is followed."""
        works = [self._run(), self._settling()]
        if self._meaning is not None:
            works.append(self._meaning.run())
        self._tasks = [asyncio.ensure_future(work) for work in works]

    async def caught_up(self, timeout_s: float) -> bool:
        """Returns when what was touched before can be found, or after so long."""
        until = self._clock.monotonic() + timeout_s
        done = await self._walk.done(timeout_s)
        if self._meaning is not None:
            done = await self._meaning.caught_up(max(0.0, until - self._clock.monotonic())) and done
        return done

    async def forget(self, key: str, seqs: Sequence[int] | None = None) -> None:
        """From every tier, and not while something of it is on its way there. The journal comes first."""
        async with self._walk.lock:
            for leg in (*self._legs, self._turns):
                await leg.tier.drop(key, seqs)
        if self._meaning is not None:
            async with self._meaning.walk.lock:
                await self._meaning.leg.tier.drop(key, seqs)

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks = []
        self._walk.stop()
        if self._meaning is not None:
            self._meaning.walk.stop()
        try:
            async with asyncio.timeout(CLOSE_S):
                await self._settle()
        except TimeoutError:
            log.debug("some tiers were not told how far they are; they read a little again next time")

    def _say(self, note: str) -> None:
        self.note = note

    # --- the walk --------------------------------------------------------------------------------

    async def _run(self) -> None:
        while not await self._look_around():
            await self._clock.sleep(START_RETRY_S)
        await self._walk.run()

    async def _look_around(self) -> bool:
        """What was missed, by comparing where every session stands with where each tier does."""
        behind: dict[str, None] = {}
        heads: dict[str, int] = {}

        async def look_at(leg: Leg) -> None:
            behind.update(dict.fromkeys(await leg.behind(heads)))

        async def look_at_journal() -> None:
            heads.update(await self._store.heads())

        if (error := await trouble_with(look_at_journal())) is not None:
            log.warning("what was missed cannot be looked for yet: %s", error)
            return False
        for leg in (*self._legs, self._turns):
            if (error := await trouble_with(look_at(leg))) is not None:
                self._leave_alone(leg, heads, error)
        self._walk.begin(behind)
        return True

    def _leave_alone(self, leg: Leg, keys: Iterable[str], error: Exception) -> None:
        """The others go on; this one is told later what it missed."""

        def again() -> None:
            missed, leg.missed = leg.missed, set()
            for key in missed:
                self._walk.touch(key)

        self._walk.later(leg.failed(keys, error), again)

    async def _settling(self) -> None:
        while True:
            await self._clock.sleep(SETTLE_S)
            async with self._walk.lock:
                await self._settle()

    async def _settle(self) -> None:
        for leg in (*self._legs, self._turns):
            if (error := await trouble_with(leg.settle())) is not None:  # what it was not told, it reads again
                log.debug("%s was not told how far it is: %s", leg.tier.name, error)

    # --- one session -----------------------------------------------------------------------------

    async def _follow(self, key: str) -> None:
        legs = [leg for leg in self._legs if not self._misses(leg, key)]
        places = [await leg.at(key) for leg in legs]
        if key not in self._ended:  # not seen by this process
            places.append(await self._turns.at(key))
        after, ended = min(places, default=0), self._ended.get(key, 0)
        whole = False
        while not whole:
            records, whole = await read_decided(self._store, key, after, PAGE)
            if not records:
                break
            for leg in legs:
                await self._give(leg, key, records)
            ended = max(ended, self._glance(key, records))
            after = records[-1].seq
        if len(self._ended) > KNOWN_MAX:  # all of it can be found out again
            self._ended.clear()
            self._idle.clear()
        self._ended[key] = ended
        if not self._misses(self._turns, key):
            await self._learn(key, ended)
        if self._newest is not None:
            await self._messages.tier.trim(self._newest)
        if self._meaning is not None:
            self._meaning.touch(key)

    def _misses(self, leg: Leg, key: str) -> bool:
        if leg.down:
            leg.missed.add(key)
        return leg.down

    async def _give(self, leg: Leg, key: str, records: Sequence[Record]) -> None:
        if self._misses(leg, key):  # since the page before
            return
        error = await trouble_with(leg.take(key, records))
        if error is not None:  # the others, and every turn, go on
            self._leave_alone(leg, (key,), error)
        else:
            leg.works()

    # --- workflows: of whole turns ---------------------------------------------------------------

    def _glance(self, key: str, records: Sequence[Record]) -> int:
        """Where the last turn in these records ended; and whether there is anything to learn."""
        ended = 0
        for record in records:
            match record.event:
                case ToolFinished():
                    self._idle.discard(key)
                case TurnEnded():
                    ended = record.seq
        return ended

    async def _learn(self, key: str, ended: int) -> None:
        leg = self._turns
        if ended <= await leg.at(key):
            return
        if key in self._idle:
            leg.skip(key, ended)
            return
        error = await trouble_with(self._learn_all(key, ended))
        if error is not None:
            self._leave_alone(leg, (key,), error)
        else:
            leg.works()
            self._idle.add(key)

    async def _learn_all(self, key: str, ended: int) -> None:
        while (at := await self._turns.at(key)) < ended:
            await self._learn_some(key, at)

    async def _learn_some(self, key: str, after: int) -> None:
        """The next turns, whole. A prompt may stand before the end of the turn before it."""
        records: list[Record] = []
        start = max(0, after - LOOK_BACK)
        while page := await self._store.read(key, start, TURN_PAGE):
            records += page
            start = page[-1].seq
            if len(page) < TURN_PAGE or len(records) >= TURN_RECORDS_MAX:
                break
        new = [record for record in records if record.seq > after]
        ends = [record.seq for record in new if isinstance(record.event, TurnEnded)]
        upto = ends[-1] if ends else records[-1].seq  # a turn without end, or too long to be learned from
        whole = [record for record in new if record.seq <= upto]
        learned = workflows_in(key, [*_waiting(records, after), *whole]) if ends else []
        await self._turns.put(key, learned, upto)
        if learned and self.on_workflows is not None:
            self.on_workflows(learned)


def _waiting(records: Sequence[Record], upto: int) -> list[Record]:
    """Prompts that came before and had not been taken up by then."""
    before = [record for record in records if record.seq <= upto]
    taken = {seq for record in before if isinstance(record.event, TurnStarted | Steered) for seq in record.event.inputs}
    return [record for record in before if isinstance(record.event, Received) and record.seq not in taken]
