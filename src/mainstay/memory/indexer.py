"""Background indexer that projects the journal into the memory tiers, without delaying turns.

Each tier stores its position (cursor) in each session together with the items it derived, in one transaction, so that
nothing is lost or done twice after a crash. Full text, summaries, facts and workflows are indexed together from one
pass over the journal; vectors separately, because embedding may be slow, remote or not yet available.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence

from mainstay.core.events import Received, Steered, ToolFinished, TurnEnded, TurnStarted
from mainstay.core.journal import Record
from mainstay.core.limits import Limits
from mainstay.core.memory_tiers import Embedder, Memory, WorkspaceTiers
from mainstay.core.ports import Clock, Store
from mainstay.core.searchable_messages import searchable_messages
from mainstay.core.supervision import start_supervised_task
from mainstay.memory.index_queue import IndexQueue, catch_error
from mainstay.memory.recorded_workflows import extract_workflows
from mainstay.memory.tier_journal_cursor import (
    CACHED_SESSIONS_MAX,
    TierJournalCursor,
    extract_facts,
    extract_summaries,
    read_decided_records,
)
from mainstay.memory.vector_indexer import VectorIndexer

log = logging.getLogger("mainstay.memory")

QUIET_S = 1.0  # between a change and indexing it
PAGE_RECORDS = 128  # records read at once
LOOKBACK_RECORDS = 64  # records before a turn in which its prompt may be
TURN_PAGE_RECORDS = 512
TURN_RECORDS_MAX = 5_000  # read at once to extract workflows from turns
FLUSH_INTERVAL_S = 30.0  # interval of storing positions behind records that had nothing for a tier
START_RETRY_S = 5.0
CLOSE_TIMEOUT_S = 2.0


class MemoryIndexer:
    """Indexes all sessions of a workspace in the background.

    Call `mark_changed` for every session with new records on disk. `note` is a sentence about what cannot be indexed
    and why. With `messages_max`, only that many of the newest messages stay searchable.
    """

    def __init__(
        self,
        store: Store,
        tiers: WorkspaceTiers,
        *,
        embedder: Embedder | None,
        clock: Clock,
        limits: Limits,
        messages_max: int | None = None,
    ) -> None:
        self.note = ""
        self._on_workflows: Callable[[Sequence[Memory]], None] | None = None
        self._store = store
        self._clock = clock
        self._messages_max = messages_max
        self._messages = tiers.messages
        self._message_cursor = TierJournalCursor(tiers.messages, searchable_messages, clock)
        self._cursors = (
            self._message_cursor,
            TierJournalCursor(tiers.summaries, extract_summaries, clock),
            TierJournalCursor(tiers.facts, extract_facts, clock),
        )
        self._workflow_cursor = TierJournalCursor(tiers.memories, extract_workflows, clock)
        self._turn_ends: dict[str, int] = {}  # session: sequence at which its last turn ended
        self._without_tool_calls: set[str] = set()  # sessions without tool calls since workflows were last extracted
        self._queue = IndexQueue(self._index_session, QUIET_S)
        self.mark_changed = self._queue.mark_changed
        self._vector_indexer: VectorIndexer | None = None
        if embedder is not None and tiers.vectors is not None:
            self._vector_indexer = VectorIndexer(store, tiers.vectors, embedder, clock, self._set_note)
        elif embedder is not None:
            self.note = "only full-text search is used: sqlite-vec is not installed (pip install -e '.[memory]')"
        self._tasks: list[asyncio.Task[None]] = []

    # --- public ----------------------------------------------------------------------------------

    def connect(self, on_workflows: Callable[[Sequence[Memory]], None]) -> None:
        """Call `on_workflows` with newly extracted workflows."""
        self._on_workflows = on_workflows

    def start(self) -> None:
        """Start the background tasks: first catch up with missed records, then index sessions that change."""
        self._tasks = [
            start_supervised_task("memory indexer", self._run),
            start_supervised_task("writer of index positions", self._flush_periodically),
        ]
        if self._vector_indexer is not None:
            self._tasks.append(start_supervised_task("vector indexer", self._vector_indexer.run))

    async def wait_until_indexed(self, timeout_s: float) -> bool:
        """Wait until all changes marked before now can be found; return False on timeout."""
        deadline = self._clock.monotonic() + timeout_s
        done = await self._queue.wait_until_done(timeout_s)
        if self._vector_indexer is not None:
            done = await self._vector_indexer.wait_until_indexed(max(0.0, deadline - self._clock.monotonic())) and done
        return done

    async def count_unindexed(self) -> int:
        """Return the number of journal records that message search does not cover yet."""
        return await self._message_cursor.count_unindexed(await self._store.list_heads())

    async def forget(self, key: str, seqs: Sequence[int] | None = None) -> None:
        """Remove records, or the whole session, from every tier, never while that session is being indexed.

        Redact the journal first, or the records are indexed again.
        """
        async with self._queue.lock:
            for cursor in (*self._cursors, self._workflow_cursor):
                await cursor.tier.delete_derived(key, seqs)
        if self._vector_indexer is not None:
            async with self._vector_indexer.queue.lock:
                await self._vector_indexer.cursor.tier.delete_derived(key, seqs)

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks = []
        self._queue.stop()
        if self._vector_indexer is not None:
            self._vector_indexer.queue.stop()
        try:
            async with asyncio.timeout(CLOSE_TIMEOUT_S):
                await self._flush_positions()
        except TimeoutError:
            log.debug("some index positions were not stored; their records will be read again")

    def _set_note(self, note: str) -> None:
        self.note = note

    # --- background tasks ------------------------------------------------------------------------

    async def _run(self) -> None:
        while not await self._queue_missed_sessions():
            await self._clock.sleep(START_RETRY_S)
        await self._queue.run()

    async def _queue_missed_sessions(self) -> bool:
        """Queue the sessions that are ahead of a tier's position; return False if the journal cannot be read."""
        behind: dict[str, None] = {}
        heads: dict[str, int] = {}

        async def add_stale_sessions(cursor: TierJournalCursor) -> None:
            behind.update(dict.fromkeys(await cursor.find_outdated_sessions(heads)))

        async def read_heads() -> None:
            heads.update(await self._store.list_heads())

        if (error := await catch_error(read_heads())) is not None:
            log.warning("the journal cannot be read, retrying in %g s: %s", START_RETRY_S, error)
            return False
        for cursor in (*self._cursors, self._workflow_cursor):
            if (error := await catch_error(add_stale_sessions(cursor))) is not None:
                self._pause_cursor(cursor, heads, error)
        self._queue.add_backlog(behind)
        return True

    def _pause_cursor(self, cursor: TierJournalCursor, keys: Iterable[str], error: Exception) -> None:
        """Pause one tier after an error and re-queue its sessions later; the other tiers go on."""

        def again() -> None:
            missed, cursor.missed_sessions = cursor.missed_sessions, set()
            for key in missed:
                self._queue.mark_changed(key)

        self._queue.call_later(cursor.pause(keys, error), again)

    async def _flush_periodically(self) -> None:
        while True:
            await self._clock.sleep(FLUSH_INTERVAL_S)
            async with self._queue.lock:
                await self._flush_positions()

    async def _flush_positions(self) -> None:
        for cursor in (*self._cursors, self._workflow_cursor):
            if (error := await catch_error(cursor.flush_positions())) is not None:  # harmless: records are read again
                log.debug("the position of %s was not stored: %s", cursor.tier.name, error)

    # --- one session -----------------------------------------------------------------------------

    async def _index_session(self, key: str) -> None:
        cursors = [cursor for cursor in self._cursors if not self._note_if_paused(cursor, key)]
        positions = [await cursor.position(key) for cursor in cursors]
        if key not in self._turn_ends:  # first time in this process
            positions.append(await self._workflow_cursor.position(key))
        after, ended = min(positions, default=0), self._turn_ends.get(key, 0)
        is_last = False
        while not is_last:
            records, is_last = await read_decided_records(self._store, key, after, PAGE_RECORDS)
            if not records:
                break
            for cursor in cursors:
                await self._index_records(cursor, key, records)
            ended = max(ended, self._find_turn_end(key, records))
            after = records[-1].seq
        if len(self._turn_ends) > CACHED_SESSIONS_MAX:  # a cache: all of it can be read again
            self._turn_ends.clear()
            self._without_tool_calls.clear()
        self._turn_ends[key] = ended
        if not self._note_if_paused(self._workflow_cursor, key):
            await self._extract_workflows(key, ended)
        if self._messages_max is not None:
            await self._messages.trim(self._messages_max)
        if self._vector_indexer is not None:
            self._vector_indexer.mark_changed(key)

    def _note_if_paused(self, cursor: TierJournalCursor, key: str) -> bool:
        if cursor.is_paused:
            cursor.missed_sessions.add(key)
        return cursor.is_paused

    async def _index_records(self, cursor: TierJournalCursor, key: str, records: Sequence[Record]) -> None:
        if self._note_if_paused(cursor, key):  # paused since the previous page
            return
        error = await catch_error(cursor.index_records(key, records))
        if error is not None:  # the other tiers and all turns go on
            self._pause_cursor(cursor, (key,), error)
        else:
            cursor.reset_backoff()

    # --- workflows, from complete turns ----------------------------------------------------------

    def _find_turn_end(self, key: str, records: Sequence[Record]) -> int:
        """Return where the last turn in these records ended, and note whether tools were called."""
        ended = 0
        for record in records:
            match record.event:
                case ToolFinished():
                    self._without_tool_calls.discard(key)
                case TurnEnded():
                    ended = record.seq
        return ended

    async def _extract_workflows(self, key: str, ended: int) -> None:
        cursor = self._workflow_cursor
        if ended <= await cursor.position(key):
            return
        if key in self._without_tool_calls:
            cursor.skip_to(key, ended)
            return
        error = await catch_error(self._extract_until(key, ended))
        if error is not None:
            self._pause_cursor(cursor, (key,), error)
        else:
            cursor.reset_backoff()
            self._without_tool_calls.add(key)

    async def _extract_until(self, key: str, ended: int) -> None:
        while (at := await self._workflow_cursor.position(key)) < ended:
            await self._extract_next_turns(key, at)

    async def _extract_next_turns(self, key: str, after: int) -> None:
        """Extract workflows from the next complete turns. A prompt may precede the end of the previous turn."""
        records: list[Record] = []
        start = max(0, after - LOOKBACK_RECORDS)
        while page := await self._store.read_records(key, start, TURN_PAGE_RECORDS):
            records += page
            start = page[-1].seq
            if len(page) < TURN_PAGE_RECORDS or len(records) >= TURN_RECORDS_MAX:
                break
        new = [record for record in records if record.seq > after]
        ends = [record.seq for record in new if isinstance(record.event, TurnEnded)]
        upto = ends[-1] if ends else records[-1].seq  # without a turn end: an unfinished or an overlong turn, skipped
        complete = [record for record in new if record.seq <= upto]
        learned = extract_workflows(key, [*_pending_prompts(records, after), *complete]) if ends else []
        await self._workflow_cursor.store_items(key, learned, upto)
        if learned and self._on_workflows is not None:
            self._on_workflows(learned)


def _pending_prompts(records: Sequence[Record], upto: int) -> list[Record]:
    """Return prompts up to `upto` that no turn had taken as input by then."""
    before = [record for record in records if record.seq <= upto]
    taken = {seq for record in before if isinstance(record.event, TurnStarted | Steered) for seq in record.event.inputs}
    return [record for record in before if isinstance(record.event, Received) and record.seq not in taken]
