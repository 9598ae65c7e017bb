"""Following the journals: what sessions do is read once, beside the turns, and handed to everyone who makes something
of it.

Each reader keeps its own position in each session together with what it made of the records, so that nothing is lost
or done twice, whatever stops it. One that cannot take something now is offered it again later, and keeps nobody back.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence

import msgspec

from mainstay.core.errors import MainstayError
from mainstay.core.events import Forked, TurnEnded, TurnStarted
from mainstay.core.following import Glimpse, Reader, Stretch
from mainstay.core.journal import Record
from mainstay.core.ports import Store
from mainstay.observe.stretches import EARLIER_MAX, open_in, stretch_of

log = logging.getLogger("mainstay.observe")

QUIET_S = 0.5  # between something happening and following it
PATIENCE_S = 5.0  # that a busy agent is let be
PAGE = 256  # records read at once
GLIMPSE = 32  # of each session, when it is first looked at
ABREAST = 64  # sessions followed at once, so that what readers write of them goes to disk together
REST_S = 0.01  # between so many and the next, unless somebody waits
KNOWN_MAX = 10_000  # sessions of which it is known where their open turns begin
RETRY_S = 1.0
RETRY_MAX_S = 30.0
START_RETRY_S = 5.0
CLOSE_S = 2.0

Glance = Callable[[Sequence[tuple[str, int]], int], Awaitable[list[Glimpse | None]]]  # of a store that is `Glancing`


class Leg:
    """One reader, how far it is where it is not as far as everybody, and why it is given nothing for now."""

    def __init__(self, reader: Reader) -> None:
        self.reader = reader
        self.begun = False  # it has said where it is, and takes what it is given
        self.trouble = ""
        self.places: dict[str, int] = {}
        self._delay_s = 0.0

    def works(self) -> None:
        self.trouble, self._delay_s = "", 0.0

    def fails(self, error: Exception) -> float:
        """After how many seconds to ask it again."""
        first = not self._delay_s
        self.begun = False
        self._delay_s = min(self._delay_s * 2 or RETRY_S, RETRY_MAX_S)
        self.trouble = str(error) or type(error).__name__
        log.log(logging.ERROR if first else logging.DEBUG, "%s is behind: %s", self.reader.name, self.trouble)
        return self._delay_s


class Follower:
    """`touched` is told of every session that has something new on disk. `workspace` is whose sessions they are."""

    def __init__(self, store: Store, readers: Iterable[Reader], *, workspace: str = "") -> None:
        self._store = store
        self._glance: Glance | None = getattr(store, "glance", None)
        self._workspace = workspace
        self._legs = tuple(Leg(reader) for reader in readers)
        self._places: dict[str, int] = {}  # how far everybody is, but for those whose leg says otherwise
        self._begins: dict[str, int] = {}  # where what is open in a session begins; 0: nothing is
        self._touched: dict[str, None] = {}
        self._news = 0  # counts touches
        self._behind: dict[str, None] = {}  # sessions in which some reader was behind when it said where it is
        self._wanted = asyncio.Event()
        self._hurry = asyncio.Event()
        self._waiting: list[asyncio.Future[None]] = []
        self._lock = asyncio.Lock()  # held while some sessions are followed
        self._timers: set[asyncio.TimerHandle] = set()
        self._stuck: dict[tuple[str, str], tuple[float, str]] = {}  # by reader and session: one that it breaks on
        self._task: asyncio.Task[None] | None = None
        self._joining: set[asyncio.Task[None]] = set()
        self._is_begun = False  # what was missed is known
        self._closing = False

    # --- from outside ----------------------------------------------------------------------------

    def start(self) -> None:
        """In the background: what was missed is looked for, and then what is touched is followed."""
        self._task = asyncio.get_running_loop().create_task(self._run(), name="mainstay-follower")

    def touched(self, session: str) -> None:
        self._touched[session] = None
        self._news += 1
        self._wanted.set()

    def trouble(self, reader: str) -> str:
        """Why this reader is behind; empty if it takes what it is given."""
        found = next((leg.trouble for leg in self._legs if leg.reader.name == reader), "")
        return found or next((said for (name, _), (_, said) in self._stuck.items() if name == reader), "")

    @property
    def troubles(self) -> dict[str, str]:
        return {leg.reader.name: leg.trouble for leg in self._legs if leg.trouble}

    async def retry(self) -> None:
        """Readers that are behind are asked now where they are, and not when they would be."""
        for leg in self._legs:
            if not leg.begun and self._is_begun:
                async with self._lock:
                    await self._join(leg)

    async def caught_up(self, timeout_s: float) -> bool:
        """True when every reader that works has been given all that was touched before; False after so long."""
        if self._task is None or self._task.done():
            return False
        done = asyncio.get_running_loop().create_future()
        self._waiting.append(done)
        self._hurry.set()
        self._wanted.set()
        try:
            async with asyncio.timeout(timeout_s):
                await done
        except TimeoutError:
            return False
        return True

    async def close(self) -> None:
        """What is on disk already is still followed, if that is soon done; else it is when the home is next opened."""
        self._closing = True
        if self._task is not None:
            await self.caught_up(CLOSE_S)
            ending = (self._task, *self._joining)
            for task in ending:
                task.cancel()
            await asyncio.gather(*ending, return_exceptions=True)
        for timer in self._timers:
            timer.cancel()
        self._timers.clear()
        self._let_go(self._waiting)

    # --- rounds ----------------------------------------------------------------------------------

    async def _run(self) -> None:
        while not await self._begin():  # noqa: ASYNC110 - nobody tells when a disk is well again
            await asyncio.sleep(START_RETRY_S)
        self._is_begun = True
        while True:
            await self._wanted.wait()
            await self._quiet()
            self._wanted.clear()
            self._hurry.clear()
            await self._round()

    async def _quiet(self) -> None:
        """Until nothing was touched for a little while; not for ever, and not if somebody waits."""
        loop = asyncio.get_running_loop()
        latest = loop.time() + PATIENCE_S
        while (left := latest - loop.time()) > 0 and not self._hurry.is_set():
            before = self._news
            try:
                async with asyncio.timeout(min(QUIET_S, left)):
                    await self._hurry.wait()
            except TimeoutError:
                if self._news == before:
                    return

    async def _round(self) -> None:
        """What was touched, and some of what was missed before, until there is nothing of either. Whoever waits is
        served as soon as what was there when they came is done, however much others touch meanwhile."""
        while self._touched or self._behind or self._waiting:
            served, self._waiting = self._waiting, []
            batch, self._touched = self._touched, {}
            while self._behind and len(batch) < ABREAST:
                batch[self._behind.popitem()[0]] = None  # each once: what is followed twice at a time is told twice
            keys = list(batch)
            for start in range(0, len(keys), ABREAST):
                async with self._lock:
                    await self._follow_some(keys[start : start + ABREAST])
                if not (served or self._waiting or self._closing):
                    await asyncio.sleep(REST_S)
            if self._behind:
                self._waiting += served
            else:
                self._let_go(served)

    def _let_go(self, waiting: list[asyncio.Future[None]]) -> None:
        for done in waiting:
            if not done.done():
                done.set_result(None)
        waiting.clear()

    # --- what was missed -------------------------------------------------------------------------

    async def _begin(self) -> bool:
        """By comparing where every session stands with where each reader does."""
        if (error := await trouble_with(self._look())) is not None:
            log.warning("what was missed cannot be looked for yet: %s", error)
            return False
        for leg in self._legs:
            await self._join(leg)
        self._hurry.set()
        return True

    async def _look(self) -> None:
        self._places = await self._store.heads()

    async def _join(self, leg: Leg) -> None:
        """A reader says where it is. A place that the journal does not have (it was replaced by an older one) is its
        end; what it was told before that is not told again."""
        found: dict[str, int] = {}
        heads: dict[str, int] = {}

        async def ask() -> None:
            found.update(await leg.reader.positions())
            heads.update(await self._store.heads())

        if (error := await trouble_with(ask())) is not None:
            self._later(leg.fails(error), lambda: self._rejoin(leg))
            return
        leg.begun = True
        leg.places = {}
        behind = False
        for key, head in heads.items():
            place = min(found.get(key, 0), head)
            if place != self._places.setdefault(key, 0):  # one that nobody knew is new to everybody
                leg.places[key] = place
            if place < head:
                behind = True
                self._behind[key] = None
        if not behind:  # else that shows when it is given something
            leg.works()
        self._wanted.set()

    def _rejoin(self, leg: Leg) -> None:
        async def join() -> None:
            async with self._lock:
                if not leg.begun:  # nobody was quicker
                    await self._join(leg)

        task = asyncio.get_running_loop().create_task(join())
        self._joining.add(task)
        task.add_done_callback(self._joining.discard)

    def _later(self, seconds: float, work: Callable[[], object]) -> None:
        def call() -> None:
            self._timers.discard(timer)
            work()

        if not self._closing:
            timer = asyncio.get_running_loop().call_later(seconds, call)
            self._timers.add(timer)

    # --- one session -----------------------------------------------------------------------------

    async def _follow_some(self, keys: Sequence[str]) -> None:
        seen: list[Glimpse | None] = []

        async def glance() -> None:
            assert self._glance is not None
            seen.extend(await self._glance([(key, self._start(key)) for key in keys], GLIMPSE))

        if self._glance is None or await trouble_with(glance()) is not None:
            seen = [None] * len(keys)
        await asyncio.gather(*(self._follow_safely(key, one) for key, one in zip(keys, seen, strict=True)))

    def _start(self, key: str) -> int:
        """After which record reading will most likely begin."""
        after = min((leg.places.get(key, self._places.get(key, 0)) for leg in self._legs if leg.begun), default=0)
        begins = self._begins.get(key, 0) if after == self._places.get(key) else 0
        return begins - 1 if begins else after

    async def _follow_safely(self, key: str, seen: Glimpse | None) -> None:
        error = await trouble_with(self._follow(key, seen))
        if error is not None:  # the journal cannot be read
            log.warning("session %r is not followed for %g s: %s", key, START_RETRY_S, error)
            self._later(START_RETRY_S, lambda: self.touched(key))

    async def _follow(self, key: str, seen: Glimpse | None) -> None:
        legs = [leg for leg in self._legs if leg.begun]
        if seen is None and legs and (standing := await self._store.get(key)) is not None:
            seen = Glimpse(standing, -1, ())
        if seen is None or not legs:
            return
        common = self._places.get(key, 0)
        places = {leg: leg.places.get(key, common) for leg in legs}
        common = max(await self._walk(key, seen, legs, places), common)
        self._places[key] = common
        for leg, place in places.items():
            if place == common:
                leg.places.pop(key, None)
            else:
                leg.places[key] = place

    async def _walk(self, key: str, seen: Glimpse, legs: Sequence[Leg], places: dict[Leg, int]) -> int:
        """To the head, a page at a time; how far that was."""
        standing = msgspec.structs.replace(seen.standing, workspace=self._workspace)
        if standing.parent and standing.errand is None and not all(places[leg] for leg in legs):
            copied = await self._copied(key)
            places.update({leg: max(places[leg], copied) for leg in legs})
        after = min(places[leg] for leg in legs)
        tail, at = await self._tail(key, after, standing.floor)
        while True:
            page = GLIMPSE if at == seen.after else PAGE
            records = seen.records if at == seen.after else await self._store.read(key, at, PAGE)
            if not records:
                break
            for leg in legs:
                if leg.begun and places[leg] < records[-1].seq:
                    stretch = stretch_of(standing, tail, records, places[leg])
                    if await self._give(leg, key, stretch):
                        places[leg] = records[-1].seq
            at = records[-1].seq
            tail = open_in(tail, records)
            legs = [leg for leg in legs if places[leg] >= at]
            if len(records) < page or not legs:
                break
        if len(self._begins) >= KNOWN_MAX:  # it can be found out again
            self._begins.clear()
        self._begins[key] = tail[0].seq if tail else 0
        return at

    async def _copied(self, key: str) -> int:
        """How much of a fork is another session's, which is followed there."""
        at = copied = 0
        while records := await self._store.read(key, at, PAGE):
            copied = next((one.seq - 1 for one in reversed(records) if isinstance(one.event, Forked)), copied)
            at = records[-1].seq
        return copied

    async def _tail(self, key: str, at: int, floor: int) -> tuple[Sequence[Record], int]:
        """What is open before a place, and after which record to read on: perhaps one that is read again."""
        begins = self._begins.get(key) if at == self._places.get(key) else None
        if at == 0 or begins == 0:
            return (), at
        if begins is not None and at - begins < EARLIER_MAX:
            return (), begins - 1
        back = at - floor + 1 if 0 < floor <= at else PAGE  # at the floor begins the newest turn, which may be this one
        while True:
            start = max(0, at - back)
            records = await self._between(key, start, at)
            if start == 0 or back >= EARLIER_MAX or _is_whole(records):
                return open_in((), records), at
            back = min(back * 4, EARLIER_MAX)

    async def _between(self, key: str, after: int, upto: int) -> list[Record]:
        records: list[Record] = []
        while after < upto and (page := await self._store.read(key, after, min(PAGE, upto - after))):
            records += page
            after = page[-1].seq
        return records

    async def _give(self, leg: Leg, key: str, stretch: Stretch) -> bool:
        error = await trouble_with(leg.reader.take(stretch))
        if error is None:
            leg.works()
            self._stuck.pop((leg.reader.name, key), None)
            return True
        if isinstance(error, MainstayError):  # it can take nothing, whosever; then it is asked where it is
            if leg.begun:
                self._later(leg.fails(error), lambda: self._rejoin(leg))
            return False
        name = (leg.reader.name, key)
        delay = min(self._stuck.get(name, (RETRY_S / 2, ""))[0] * 2, RETRY_MAX_S)
        self._stuck[name] = delay, f"session {key!r} cannot be taken ({type(error).__name__})"
        log.error("%s cannot take session %r and tries again: %s", leg.reader.name, key, error, exc_info=error)
        self._later(delay, lambda: self.touched(key))
        return False


def _is_whole(records: Sequence[Record]) -> bool:
    """Whether the turn that is open after these began in them, and its inputs came; or one ended, and none is."""
    for record in reversed(records):
        match record.event:
            case TurnEnded():
                return True
            case TurnStarted(inputs=inputs):
                return min(inputs, default=record.seq) >= records[0].seq
    return False


async def trouble_with(work: Awaitable[object]) -> Exception | None:
    """What went wrong, if anything did: a reader or a store may be somebody else's, and raise anything."""
    try:
        await work
    except Exception as error:  # it is logged or told by whoever asked; following goes on
        return error
    return None
