"""Runs the projections of the journals: reads new records in the background and applies them to each (event sourcing).

Each projection stores its position in every session together with what it derived, so that after a crash no record is
lost or applied twice. A projection that fails is retried with backoff and does not hold up the others. At the start,
each catches up on the records that it missed.
"""

from __future__ import annotations

import asyncio
import logging
import time
from bisect import bisect_right
from collections.abc import Awaitable, Callable, Iterable, Sequence

import msgspec

from mainstay.core.errors import MainstayError
from mainstay.core.events import Blanked, Forked, Received, Steered, StepCheckpointed, TurnEnded, TurnStarted
from mainstay.core.journal import Record
from mainstay.core.ports import SessionInfo, Store
from mainstay.core.projection_ports import JournalBatch, JournalPage, Projection
from mainstay.core.supervision import start_supervised_task

log = logging.getLogger("mainstay.observe")

DEBOUNCE_S = 0.5  # without new records before they are processed (debounce)
DEBOUNCE_MAX_S = 5.0  # at most, while new records keep arriving
PAGE_RECORDS = 256  # records per read
BULK_PAGE_RECORDS = 32  # records of each session in a bulk read
CONCURRENT_SESSIONS = 64  # sessions processed concurrently, so that the projections' writes share a commit
PAUSE_S = 0.01  # between two such groups, unless a caller waits
OPEN_STARTS_MAX = 10_000  # sessions whose open turn's first record is cached
RETRY_MIN_S = 1.0
RETRY_MAX_S = 30.0
START_RETRY_S = 5.0
CLOSE_TIMEOUT_S = 2.0

# BulkJournalReader.read_many
BulkRead = Callable[[Sequence[tuple[str, int]], int], Awaitable[list[JournalPage | None]]]
EARLIER_RECORDS_MAX = 4096  # records of an open turn that are repeated in a batch


class ProjectionState:
    """A projection with its health and its positions where they differ from the common ones."""

    def __init__(self, projection: Projection) -> None:
        self.projection = projection
        self.is_ready = False  # its positions are known and its last batch did not fail
        self.error = ""  # why it is behind; empty: it is not
        self.failed_at = 0.0  # monotonic time of the first failure since it worked; 0: it works
        self.positions: dict[str, int] = {}  # by session
        self._delay_s = 0.0  # 0: the last attempt succeeded

    def mark_healthy(self) -> None:
        self.error, self.failed_at, self._delay_s = "", 0.0, 0.0

    def mark_failed(self, error: Exception) -> float:
        """Return the delay in seconds before the next attempt."""
        first = not self._delay_s
        self.failed_at = self.failed_at or time.monotonic()
        self.is_ready = False
        self._delay_s = min(self._delay_s * 2 or RETRY_MIN_S, RETRY_MAX_S)
        self.error = str(error) or type(error).__name__
        log.log(logging.ERROR if first else logging.DEBUG, "%s is behind: %s", self.projection.name, self.error)
        return self._delay_s


class ProjectionRunner:
    """Runs projections of the sessions of one workspace. Call `notify` for every session that has new records on
    disk."""

    def __init__(self, store: Store, projections: Iterable[Projection], *, workspace: str = "") -> None:
        self._store = store
        self._read_many: BulkRead | None = getattr(store, "read_many", None)
        self._workspace = workspace
        self._states = tuple(ProjectionState(reader) for reader in projections)
        self._positions: dict[str, int] = {}  # by session: the common position, for projections without their own
        self._open_starts: dict[str, int] = {}  # by session: first record of its open turn and inputs; 0: none are open
        self._notified: dict[str, None] = {}  # sessions with new records, in order
        self._notify_count = 0  # calls of `notify`
        self._missed: dict[str, None] = {}  # sessions in which a projection was behind when it was loaded
        self._has_work = asyncio.Event()  # there is something to do
        self._skip_debounce = asyncio.Event()  # a caller waits: do not debounce
        self._waiters: list[asyncio.Future[None]] = []  # callers of `wait_caught_up`
        self._lock = asyncio.Lock()  # held while sessions are processed
        self._timers: set[asyncio.TimerHandle] = set()
        # by projection and session: retry delay, reason
        self._stuck_sessions: dict[tuple[str, str], tuple[float, str]] = {}
        self._task: asyncio.Task[None] | None = None
        self._load_tasks: set[asyncio.Task[None]] = set()
        self.groups_processed = 0  # groups of sessions, since the start
        self._has_begun = False  # the missed records are known
        self._is_closing = False

    # --- public interface ------------------------------------------------------------------------

    def start(self) -> None:
        """Start in the background: catch up on missed records, then process the sessions that `notify` names."""
        self._task = start_supervised_task(f"journal follower of workspace {self._workspace!r}", self._run)

    def notify(self, session: str) -> None:
        self._notified[session] = None
        self._notify_count += 1
        self._has_work.set()

    def get_error(self, projection_name: str) -> str:
        """Return why this projection is behind; empty if it is not."""
        reason = next((state.error for state in self._states if state.projection.name == projection_name), "")
        return reason or next(
            (text for (name, _), (_, text) in self._stuck_sessions.items() if name == projection_name), ""
        )

    @property
    def errors(self) -> dict[str, str]:
        return {state.projection.name: state.error for state in self._states if state.error}

    @property
    def failed_since(self) -> dict[str, float]:
        """By projection that is behind because it failed: when that began (monotonic time)."""
        return {state.projection.name: state.failed_at for state in self._states if state.error}

    @property
    def has_work(self) -> bool:
        """Whether records wait to be applied, or are being applied."""
        return bool(self._notified or self._missed) or self._lock.locked() or not self._has_begun

    async def retry_failed(self) -> None:
        """Retry projections that failed now, without waiting for their backoff."""
        for state in self._states:
            if not state.is_ready and self._has_begun:
                async with self._lock:
                    await self._load_positions(state)

    async def wait_caught_up(self, timeout_s: float) -> bool:
        """Wait until every working projection has applied all records announced before; False on timeout."""
        if self._task is None or self._task.done():
            return False
        done = asyncio.get_running_loop().create_future()
        self._waiters.append(done)
        self._skip_debounce.set()
        self._has_work.set()
        try:
            async with asyncio.timeout(timeout_s):
                await done
        except TimeoutError:
            return False
        return True

    async def close(self) -> None:
        """Process what is on disk if that takes at most `CLOSE_TIMEOUT_S`; the rest follows at the next start."""
        self._is_closing = True
        if self._task is not None:
            await self.wait_caught_up(CLOSE_TIMEOUT_S)
            ending = (self._task, *self._load_tasks)
            for task in ending:
                task.cancel()
            await asyncio.gather(*ending, return_exceptions=True)
        for timer in self._timers:
            timer.cancel()
        self._timers.clear()
        self._release_waiters(self._waiters)

    # --- background task -------------------------------------------------------------------------

    async def _run(self) -> None:
        while not await self._find_missed():  # noqa: ASYNC110 - there is no notification of a disk that works again
            await asyncio.sleep(START_RETRY_S)
        self._has_begun = True
        while True:
            await self._has_work.wait()
            await self._debounce()
            self._has_work.clear()
            self._skip_debounce.clear()
            await self._process_all()

    async def _debounce(self) -> None:
        """Wait until `notify` was not called for `DEBOUNCE_S`, at most `DEBOUNCE_MAX_S`; return if a caller waits."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + DEBOUNCE_MAX_S
        while (left := deadline - loop.time()) > 0 and not self._skip_debounce.is_set():
            before = self._notify_count
            try:
                async with asyncio.timeout(min(DEBOUNCE_S, left)):
                    await self._skip_debounce.wait()
            except TimeoutError:
                if self._notify_count == before:
                    return

    async def _process_all(self) -> None:
        """Process sessions with new records, and some with missed ones, until there are none left. A waiting caller is
        released when what it waited for is done, even if further records arrive meanwhile."""
        while self._notified or self._missed or self._waiters:
            waiting, self._waiters = self._waiters, []
            sessions, self._notified = self._notified, {}
            while self._missed and len(sessions) < CONCURRENT_SESSIONS:
                sessions[self._missed.popitem()[0]] = None  # each once: two at a time would apply records twice
            keys = list(sessions)
            for start in range(0, len(keys), CONCURRENT_SESSIONS):
                async with self._lock:
                    await self._process_sessions(keys[start : start + CONCURRENT_SESSIONS])
                self.groups_processed += 1
                if not (waiting or self._waiters or self._is_closing):
                    await asyncio.sleep(PAUSE_S)
            if self._missed:
                self._waiters += waiting
            else:
                self._release_waiters(waiting)

    def _release_waiters(self, waiters: list[asyncio.Future[None]]) -> None:
        for done in waiters:
            if not done.done():
                done.set_result(None)
        waiters.clear()

    # --- catch-up --------------------------------------------------------------------------------

    async def _find_missed(self) -> bool:
        """Find missed records by comparing the sessions' heads with the projections' positions; False if the store
        cannot be read now."""
        if (error := await capture_error(self._load_heads())) is not None:
            log.warning("the journals cannot be read yet, retrying in %g s: %s", START_RETRY_S, error)
            return False
        for state in self._states:
            await self._load_positions(state)
        self._skip_debounce.set()
        return True

    async def _load_heads(self) -> None:
        self._positions = await self._store.list_heads()

    async def _load_positions(self, state: ProjectionState) -> None:
        """Load the positions of a projection. A position beyond the end of a journal (which was replaced by an older
        one) becomes that end; records before it are not applied again."""
        positions: dict[str, int] = {}
        heads: dict[str, int] = {}

        async def load() -> None:
            positions.update(await state.projection.positions())
            heads.update(await self._store.list_heads())

        if (error := await capture_error(load())) is not None:
            self._call_later(state.mark_failed(error), lambda: self._schedule_load(state))
            return
        state.is_ready = True
        state.positions = {}
        behind = False
        for key, head in heads.items():
            position = min(positions.get(key, 0), head)
            if position != self._positions.setdefault(key, 0):  # a session without a common position is new
                state.positions[key] = position
            if position < head:
                behind = True
                self._missed[key] = None
        if not behind:  # else its next batch shows whether it works
            state.mark_healthy()
        self._has_work.set()

    def _schedule_load(self, state: ProjectionState) -> None:
        async def join() -> None:
            async with self._lock:
                if not state.is_ready:  # `retry_failed` may have done it meanwhile
                    await self._load_positions(state)

        task = start_supervised_task(f"{state.projection.name} of workspace {self._workspace!r}", join)
        self._load_tasks.add(task)
        task.add_done_callback(self._load_tasks.discard)

    def _call_later(self, seconds: float, callback: Callable[[], object]) -> None:
        def call() -> None:
            self._timers.discard(timer)
            callback()

        if not self._is_closing:
            timer = asyncio.get_running_loop().call_later(seconds, call)
            self._timers.add(timer)

    # --- sessions --------------------------------------------------------------------------------

    async def _process_sessions(self, keys: Sequence[str]) -> None:
        pages: list[JournalPage | None] = []

        async def read() -> None:
            assert self._read_many is not None
            pages.extend(await self._read_many([(key, self._read_start(key)) for key in keys], BULK_PAGE_RECORDS))

        if self._read_many is None or await capture_error(read()) is not None:
            pages = [None] * len(keys)
        await asyncio.gather(*(self._process_session(key, page) for key, page in zip(keys, pages, strict=True)))

    def _read_start(self, key: str) -> int:
        """Return the sequence after which reading most likely begins."""
        after = min(
            (state.positions.get(key, self._positions.get(key, 0)) for state in self._states if state.is_ready),
            default=0,
        )
        begins = self._open_starts.get(key, 0) if after == self._positions.get(key) else 0
        return begins - 1 if begins else after

    async def _process_session(self, key: str, page: JournalPage | None) -> None:
        error = await capture_error(self._apply_session(key, page))
        if error is not None:
            log.warning("the journal of session %r cannot be read, retrying in %g s: %s", key, START_RETRY_S, error)
            self._call_later(START_RETRY_S, lambda: self.notify(key))

    async def _apply_session(self, key: str, page: JournalPage | None) -> None:
        states = [state for state in self._states if state.is_ready]
        if page is None and states and (info := await self._store.get_session(key)) is not None:
            page = JournalPage(info, -1, ())
        if page is None or not states:
            return
        common = self._positions.get(key, 0)
        positions = {state: state.positions.get(key, common) for state in states}
        common = max(await self._apply_records(key, page, states, positions), common)
        self._positions[key] = common
        for state, position in positions.items():
            if position == common:
                state.positions.pop(key, None)
            else:
                state.positions[key] = position

    async def _apply_records(
        self, key: str, page: JournalPage, states: Sequence[ProjectionState], positions: dict[ProjectionState, int]
    ) -> int:
        """Apply a session's records up to its head, a page at a time, and update `positions`; return the last sequence
        that was read."""
        info = msgspec.structs.replace(page.info, workspace=self._workspace)
        if info.parent and info.spawned is None and not all(positions[state] for state in states):
            copied = await self._copied_through(key)
            positions.update({state: max(positions[state], copied) for state in states})
        after = min(positions[state] for state in states)
        tail, at = await self._read_open(key, after, info.floor)
        while True:
            limit = BULK_PAGE_RECORDS if at == page.after else PAGE_RECORDS
            records = page.records if at == page.after else await self._store.read_records(key, at, PAGE_RECORDS)
            if not records:
                break
            for state in states:
                if state.is_ready and positions[state] < records[-1].seq:
                    batch = build_batch(info, tail, records, positions[state])
                    if await self._apply_batch(state, key, batch):
                        positions[state] = records[-1].seq
            at = records[-1].seq
            tail = open_records(tail, records)
            states = [state for state in states if positions[state] >= at]
            if len(records) < limit or not states:
                break
        if len(self._open_starts) >= OPEN_STARTS_MAX:  # only a cache
            self._open_starts.clear()
        self._open_starts[key] = tail[0].seq if tail else 0
        return at

    async def _copied_through(self, key: str) -> int:
        """Return the last record that a fork copied: projections have those records from the source session."""
        at = copied = 0
        while records := await self._store.read_records(key, at, PAGE_RECORDS):
            copied = next((record.seq - 1 for record in reversed(records) if isinstance(record.event, Forked)), copied)
            at = records[-1].seq
        return copied

    async def _read_open(self, key: str, position: int, floor: int) -> tuple[Sequence[Record], int]:
        """Return the records of the open turn and inputs before a position, and the sequence after which to read on,
        which may be before the position: some records are then read again."""
        begins = self._open_starts.get(key) if position == self._positions.get(key) else None
        if position == 0 or begins == 0:
            return (), position
        if begins is not None and position - begins < EARLIER_RECORDS_MAX:
            return (), begins - 1
        # the newest turn begins at the floor; it may be this one
        back = position - floor + 1 if 0 < floor <= position else PAGE_RECORDS
        while True:
            start = max(0, position - back)
            records = await self._read_range(key, start, position)
            if start == 0 or back >= EARLIER_RECORDS_MAX or _contains_open_turn(records):
                return open_records((), records), position
            back = min(back * 4, EARLIER_RECORDS_MAX)

    async def _read_range(self, key: str, after: int, upto: int) -> list[Record]:
        records: list[Record] = []
        while after < upto and (page := await self._store.read_records(key, after, min(PAGE_RECORDS, upto - after))):
            records += page
            after = page[-1].seq
        return records

    async def _apply_batch(self, state: ProjectionState, key: str, batch: JournalBatch) -> bool:
        error = await capture_error(state.projection.apply(batch))
        if error is None:
            state.mark_healthy()
            self._stuck_sessions.pop((state.projection.name, key), None)
            return True
        if isinstance(error, MainstayError):  # it can apply nothing at all now; later its positions are loaded again
            if state.is_ready:
                self._call_later(state.mark_failed(error), lambda: self._schedule_load(state))
            return False
        stuck = (state.projection.name, key)
        delay_s = min(self._stuck_sessions.get(stuck, (RETRY_MIN_S / 2, ""))[0] * 2, RETRY_MAX_S)
        self._stuck_sessions[stuck] = delay_s, f"session {key!r} cannot be processed ({type(error).__name__})"
        log.error(
            "%s cannot process session %r, retrying in %g s: %s",
            state.projection.name,
            key,
            delay_s,
            error,
            exc_info=error,
        )
        self._call_later(delay_s, lambda: self.notify(key))
        return False


def _contains_open_turn(records: Sequence[Record]) -> bool:
    """Return True if these records contain the open turn from its inputs on, or the end of a turn after which none is
    open."""
    for record in reversed(records):
        match record.event:
            case TurnEnded():
                return True
            case TurnStarted(inputs=inputs):
                return min(inputs, default=record.seq) >= records[0].seq
    return False


async def capture_error(awaitable: Awaitable[object]) -> Exception | None:
    """Await and return the exception, if any: a projection or store may be a plugin's and raise anything."""
    try:
        await awaitable
    except Exception as error:  # the caller logs or reports it; other projections go on
        return error
    return None


def build_batch(info: SessionInfo, tail: Sequence[Record], records: Sequence[Record], position: int) -> JournalBatch:
    """Return the batch of those records that are after a position. `tail`: what is open before the records."""
    first = bisect_right(records, position, key=lambda record: record.seq)
    return JournalBatch(info, records[first:], open_records(tail, records[:first]) if first else tail)


def open_records(tail: Sequence[Record], records: Sequence[Record]) -> Sequence[Record]:
    """Return what is open after these records if `tail` is open before them: queued inputs and the running turn,
    without its streaming checkpoints."""
    still_open = list(tail)
    is_running = any(isinstance(record.event, TurnStarted) for record in still_open)
    for record in records:
        match record.event:
            case Received(kind=kind):
                if kind != "overheard":
                    still_open.append(record)
            case TurnStarted():
                still_open = [*(other for other in still_open if isinstance(other.event, Received)), record]
                is_running = True
            case TurnEnded():
                consumed = {
                    seq
                    for other in still_open
                    if isinstance(other.event, TurnStarted | Steered)
                    for seq in other.event.inputs
                }
                still_open = [
                    other for other in still_open if isinstance(other.event, Received) and other.seq not in consumed
                ]
                is_running = False
            case Blanked() | StepCheckpointed():
                pass
            case _ if is_running:
                still_open.append(record)
    return still_open[-EARLIER_RECORDS_MAX:]
