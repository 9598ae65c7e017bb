"""Background indexer that embeds journal records into the vector index."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Callable, Sequence

from mainstay.core.errors import EmbedderMissing
from mainstay.core.events import Folded
from mainstay.core.journal import Record
from mainstay.core.memory_tiers import Embedder, VectorTier
from mainstay.core.ports import Clock, Store
from mainstay.core.searchable_messages import searchable_messages
from mainstay.memory.index_queue import IndexQueue, catch_error
from mainstay.memory.tier_journal_cursor import TierJournalCursor, read_decided_records

log = logging.getLogger("mainstay.memory")

QUIET_S = 1.0
PAGE_RECORDS = 64  # records read at once
MESSAGE_CHUNKS_MAX = 8  # vectors of one message
BATCH_TEXTS_MAX = 64  # texts embedded at once
BACKLOG_MAX = 100  # sessions; with a longer backlog, searches do not wait for it
RETRY_S = 1.0
RETRY_MAX_S = 300.0
CHUNK_CHARS_MAX = 1_000
CHUNKS_MAX = 16  # of one message; the rest of it is found by full-text search only

_BREAK_PATTERNS = tuple(re.compile(pattern) for pattern in (r"\n\s*\n", r"\n", r"[.!?…]\s|[\u3002\uff01\uff1f]", r"\s"))


class VectorIndexer:
    """Follows the journal independently of the other tiers. `on_note` gets a sentence on failure, "" on recovery."""

    def __init__(
        self, store: Store, tier: VectorTier, embedder: Embedder, clock: Clock, on_note: Callable[[str], None]
    ) -> None:
        self.cursor = TierJournalCursor(tier, texts_to_embed, clock)
        self.queue = IndexQueue(self._index_session, QUIET_S, self._wait_for_retry)
        self._store = store
        self._tier = tier
        self._embedder = embedder
        self._clock = clock
        self._on_note = on_note
        self._has_work = asyncio.Event()
        self._load_now = asyncio.Event()
        self._loaded = asyncio.Event()
        self._model_missing = False
        self._retry_delay_s = 0.0
        self._paused_until = 0.0

    def mark_changed(self, key: str) -> None:
        if not self._is_disabled():
            self.queue.mark_changed(key)
            self._has_work.set()

    async def run(self) -> None:
        await self._wait_for_work()
        while not await self._try_load():
            await self._clock.sleep(self._retry_delay_s)
        if not self._is_disabled():
            await self.queue.run()

    async def wait_until_indexed(self, timeout_s: float) -> bool:
        if self._is_disabled():
            return True
        self._has_work.set()
        self._load_now.set()
        deadline = self._clock.monotonic() + timeout_s
        try:
            async with asyncio.timeout(timeout_s):
                await self._loaded.wait()
        except TimeoutError:
            return False
        if self._is_disabled():
            return True
        if self.queue.pending_count > BACKLOG_MAX or self._clock.monotonic() < self._paused_until:
            return False
        return await self.queue.wait_until_done(max(0.0, deadline - self._clock.monotonic()))

    # --- the model -------------------------------------------------------------------------------

    def _is_disabled(self) -> bool:
        return self._model_missing

    async def _wait_for_work(self) -> None:
        """Delay loading the model until there is something to embed: short-lived agents may never need it."""
        if not await self._store.list_heads():
            await self._has_work.wait()
        try:
            async with asyncio.timeout(QUIET_S):
                await self._load_now.wait()
        except TimeoutError:
            pass

    async def _try_load(self) -> bool:
        """Return True once the model is loaded or known to be missing; False to try again later."""
        error = await catch_error(self._load_model())
        if isinstance(error, EmbedderMissing):
            self._model_missing = True
            self._on_note(f"only full-text search is used: {error}")
        elif error is not None:
            self._record_failure(error)
            return False
        else:
            self._clear_failure()
        self._loaded.set()
        return True

    async def _load_model(self) -> None:
        dimensions = await self._embedder.load()
        await self._tier.set_model(self._embedder.name, dimensions)
        self.queue.add_backlog(await self.cursor.find_outdated_sessions(await self._store.list_heads()))

    def _record_failure(self, error: Exception) -> None:
        self._retry_delay_s = min(max(self._retry_delay_s * 2, RETRY_S), RETRY_MAX_S)
        self._paused_until = self._clock.monotonic() + self._retry_delay_s
        self._on_note(f"only full-text search is used for now: {error}")
        log.warning("embedding failed, retrying in %g s: %s: %s", self._retry_delay_s, type(error).__name__, error)

    def _clear_failure(self) -> None:
        self._retry_delay_s = 0.0
        self._on_note("")

    async def _wait_for_retry(self) -> None:
        """Wait for the end of the retry delay."""
        if (wait := self._paused_until - self._clock.monotonic()) > 0:
            await self._clock.sleep(wait)

    # --- a session -------------------------------------------------------------------------------

    async def _index_session(self, key: str) -> None:
        error = await catch_error(self._embed_session(key))
        if error is not None:
            self._record_failure(error)
            raise error
        if self._retry_delay_s:
            self._clear_failure()

    async def _embed_session(self, key: str) -> None:
        while True:
            records, whole = await read_decided_records(self._store, key, await self.cursor.position(key), PAGE_RECORDS)
            if not records:
                return
            texts = texts_to_embed(key, records)
            if texts:
                vectors = await self._embed_texts([text for _, text in texts])
                await self.cursor.store_items(
                    key, [(seq, vector) for (seq, _), vector in zip(texts, vectors, strict=True)], records[-1].seq
                )
            else:
                await self.cursor.index_records(key, records)
            if whole:
                return

    async def _embed_texts(self, texts: Sequence[str]) -> list[bytes]:
        vectors: list[bytes] = []
        for start in range(0, len(texts), BATCH_TEXTS_MAX):
            vectors += await self._embedder.embed(texts[start : start + BATCH_TEXTS_MAX])
        return vectors


def texts_to_embed(session: str, records: Sequence[Record]) -> list[tuple[int, str]]:
    """Return (message sequence, text) to embed: chunks of every message, and facts under their source message."""
    chunks = [
        (entry.seq, chunk)
        for entry in searchable_messages(session, records)
        for chunk in split_chunks(entry.text)[:MESSAGE_CHUNKS_MAX]
    ]
    facts = [
        (fact.source, f"{fact.subject} {fact.predicate} {fact.object}")
        for record in records
        if isinstance(record.event, Folded)
        for fact in record.event.facts
        if fact.source
    ]
    return chunks + facts


def split_chunks(text: str) -> list[str]:
    """Split a text into chunks at the end of a paragraph, a line, a sentence or a word, in that order."""
    chunks: list[str] = []
    start, end = 0, len(text)
    while start < end and len(chunks) < CHUNKS_MAX:
        stop = end if end - start <= CHUNK_CHARS_MAX else _find_break(text, start)
        if chunk := text[start:stop].strip():
            chunks.append(chunk)
        start = stop
    return chunks


def _find_break(text: str, start: int) -> int:
    """Return the last break of the best kind in the second half of a chunk."""
    low, high = start + CHUNK_CHARS_MAX // 2, start + CHUNK_CHARS_MAX
    for kind in _BREAK_PATTERNS:
        stops = [match.end() for match in kind.finditer(text, low, high)]
        if stops:
            return stops[-1]
    return high
