"""Following the journal with vectors: whatever is said is embedded, beside everything else."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence

from mainstay.core.entries import entries_of
from mainstay.core.errors import EmbedderMissing
from mainstay.core.events import Folded
from mainstay.core.journal import Record
from mainstay.core.ports import Clock, Store
from mainstay.core.recall import Embedder, VectorTier
from mainstay.memory.embed import pieces
from mainstay.memory.legs import Leg, read_decided
from mainstay.memory.walk import Walk, trouble_with

log = logging.getLogger("mainstay.memory")

QUIET_S = 1.0
PAGE = 64  # records read at once
PIECES_MAX = 8  # vectors of one message
EMBED_MAX = 64  # texts embedded at once
BACKLOG_MAX = 100  # sessions: with more behind, nobody waits
RETRY_S = 1.0
RETRY_MAX_S = 300.0


class Meaning:
    """The vectors' own way along the journal. `say` is told what cannot be done, and "" when it can again."""

    def __init__(
        self, store: Store, tier: VectorTier, embedder: Embedder, clock: Clock, say: Callable[[str], None]
    ) -> None:
        self.leg = Leg(tier, texts_of, clock)
        self.walk = Walk(self._follow, QUIET_S, self._open)
        self._store = store
        self._tier = tier
        self._embedder = embedder
        self._clock = clock
        self._say = say
        self._stirred = asyncio.Event()
        self._hurry = asyncio.Event()
        self._loaded = asyncio.Event()
        self._given_up = False
        self._delay = 0.0
        self._until = 0.0

    def touch(self, key: str) -> None:
        if not self._hopeless():
            self.walk.touch(key)
            self._stirred.set()

    async def run(self) -> None:
        await self._wait_for_work()
        while not await self._load():
            await self._clock.sleep(self._delay)
        if not self._hopeless():
            await self.walk.run()

    async def caught_up(self, timeout_s: float) -> bool:
        if self._hopeless():
            return True
        self._stirred.set()
        self._hurry.set()
        until = self._clock.monotonic() + timeout_s
        try:
            async with asyncio.timeout(timeout_s):
                await self._loaded.wait()
        except TimeoutError:
            return False
        if self._hopeless():
            return True
        if self.walk.left > BACKLOG_MAX or self._clock.monotonic() < self._until:
            return False
        return await self.walk.done(max(0.0, until - self._clock.monotonic()))

    # --- the model -------------------------------------------------------------------------------

    def _hopeless(self) -> bool:
        return self._given_up

    async def _wait_for_work(self) -> None:
        """A model takes time to load, and many an agent is done before anything is worth it."""
        if not await self._store.heads():
            await self._stirred.wait()
        try:
            async with asyncio.timeout(QUIET_S):
                await self._hurry.wait()
        except TimeoutError:
            pass

    async def _load(self) -> bool:
        """True when it is clear how things stand."""
        error = await trouble_with(self._get_ready())
        if isinstance(error, EmbedderMissing):
            self._given_up = True
            self._say(f"search is by words only: {error}")
        elif error is not None:
            self._trouble(error)
            return False
        else:
            self._fine()
        self._loaded.set()
        return True

    async def _get_ready(self) -> None:
        dimensions = await self._embedder.load()
        await self._tier.use(self._embedder.name, dimensions)
        self.walk.begin(await self.leg.behind(await self._store.heads()))

    def _trouble(self, error: Exception) -> None:
        self._delay = min(max(self._delay * 2, RETRY_S), RETRY_MAX_S)
        self._until = self._clock.monotonic() + self._delay
        self._say(f"search is by words only for now: {error}")
        log.warning("vectors cannot be made for %g s: %s: %s", self._delay, type(error).__name__, error)

    def _fine(self) -> None:
        self._delay = 0.0
        self._say("")

    async def _open(self) -> None:
        """Not before the model has had time to come back."""
        if (wait := self._until - self._clock.monotonic()) > 0:
            await self._clock.sleep(wait)

    # --- a session -------------------------------------------------------------------------------

    async def _follow(self, key: str) -> None:
        error = await trouble_with(self._embed_session(key))
        if error is not None:
            self._trouble(error)
            raise error
        if self._delay:
            self._fine()

    async def _embed_session(self, key: str) -> None:
        while True:
            records, whole = await read_decided(self._store, key, await self.leg.at(key), PAGE)
            if not records:
                return
            texts = texts_of(key, records)
            if texts:
                vectors = await self._embedded([text for _, text in texts])
                await self.leg.put(
                    key, [(seq, vector) for (seq, _), vector in zip(texts, vectors, strict=True)], records[-1].seq
                )
            else:
                await self.leg.take(key, records)
            if whole:
                return

    async def _embedded(self, texts: Sequence[str]) -> list[bytes]:
        found: list[bytes] = []
        for start in range(0, len(texts), EMBED_MAX):
            found += await self._embedder.embed(texts[start : start + EMBED_MAX])
        return found


def texts_of(session: str, records: Sequence[Record]) -> list[tuple[int, str]]:
    """What is embedded, and under which message: everything said, and every fact under the message that said so."""
    said = [(entry.seq, piece) for entry in entries_of(session, records) for piece in pieces(entry.text)[:PIECES_MAX]]
    facts = [
        (fact.source, f"{fact.subject} {fact.predicate} {fact.object}")
        for record in records
        if isinstance(record.event, Folded)
        for fact in record.event.facts
        if fact.source
    ]
    return said + facts
