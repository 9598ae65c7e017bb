"""A Store that keeps nothing: the double for tests, and for agents that need no memory."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence

import msgspec

from mainstay.core.errors import DuplicateInput, SessionUnknown, StaleWriter, StoreFailed
from mainstay.core.events import Folded, ToolFinished
from mainstay.core.journal import BLANK, Record, decode, encode, redacted, unlearned
from mainstay.core.ports import Once, Standing, Tail
from mainstay.core.recall import Fact


class _Kept:
    def __init__(self, standing: Standing) -> None:
        self.standing = standing
        self.bodies: list[tuple[int, bytes]] = []  # at, body; the sequence is the position + 1
        self.inputs: dict[str, tuple[int, str]] = {}
        self.values: dict[str, str] = {}  # too large for the history, by reference

    def records(self, after: int, upto: int) -> list[Record]:
        rows = self.bodies[after:upto]
        return [Record(after + n, at, decode(body)) for n, (at, body) in enumerate(rows, start=1)]


class MemoryStore:
    """Everything is encoded and decoded as a real store would, so that what cannot be kept is noticed.

    `fail` raises the given error on every append until it is set to None again.
    """

    def __init__(self) -> None:
        self._sessions: dict[str, _Kept] = {}
        self.fail: Exception | None = None
        self.appends = 0

    async def open(self) -> None: ...

    async def close(self) -> None: ...

    def append(
        self,
        standing: Standing,
        expected: int,
        events: Sequence[bytes],
        once: Once | None = None,
        *,
        synced: bool = True,
    ) -> Awaitable[None]:
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        try:
            self._append(standing, expected, events, once)
        except Exception as error:  # whatever it is, it belongs to whoever awaits the append
            done.set_exception(error)
        else:
            done.set_result(None)
        return done

    def _append(self, standing: Standing, expected: int, events: Sequence[bytes], once: Once | None) -> None:
        if self.fail is not None:
            raise self.fail
        kept = self._sessions.get(standing.key)
        if once is not None and kept is not None and (seen := kept.inputs.get(once.id)):
            raise DuplicateInput(seen[0], same=seen[1] == once.digest)
        if (kept.standing.head if kept is not None else 0) != expected:
            raise StaleWriter(f"session {standing.key!r} was changed by another writer")
        if kept is None:
            kept = self._sessions[standing.key] = _Kept(standing)
        kept.standing = standing
        kept.bodies += [(standing.updated, bytes(body)) for body in events]
        if once is not None:
            kept.inputs[once.id] = (expected + 1, once.digest)
        self.appends += 1

    async def load(self, key: str, bytes_max: int) -> Tail | None:
        kept = self._sessions.get(key)
        if kept is None:
            return None
        standing, bottom = kept.standing, 0
        if standing.fold:
            fold, bottom = _newest_fold(kept, standing.fold)
            standing = msgspec.structs.replace(standing, fold=fold)
        first, size = standing.head, 0
        while first > bottom and (standing.fold or size < bytes_max or first >= max(standing.floor, 1)):
            first -= 1
            size += len(kept.bodies[first][1])
        marks = sorted({seq for seq in (standing.fixed, standing.amended, standing.guested) if 0 < seq <= first})
        landmarks = [record for seq in marks for record in kept.records(seq - 1, seq)]
        return Tail(standing, kept.records(first, standing.head), first <= bottom, landmarks)

    async def read(self, key: str, after: int = 0, limit: int = 1000) -> list[Record]:
        kept = self._sessions.get(key)
        return kept.records(after, after + limit) if kept is not None else []

    async def seen(self, key: str, id: str) -> tuple[int, str] | None:
        kept = self._sessions.get(key)
        return kept.inputs.get(id) if kept is not None else None

    async def unfinished(self) -> list[str]:
        return [key for key, kept in self._sessions.items() if kept.standing.unfinished]

    async def sessions(self, *, limit: int = 100, offset: int = 0, include_deleted: bool = False) -> list[Standing]:
        found = [
            kept.standing for kept in self._sessions.values() if include_deleted or kept.standing.status != "deleted"
        ]
        found.reverse()
        found.sort(key=lambda standing: -standing.updated)
        return found[offset : offset + limit]

    async def get(self, key: str) -> Standing | None:
        kept = self._sessions.get(key)
        return kept.standing if kept is not None else None

    async def fork(self, source: str, upto: int, standing: Standing, event: bytes) -> None:
        if source not in self._sessions:
            raise SessionUnknown(f"there is no session {source!r}")
        if standing.key in self._sessions:
            raise StoreFailed(f"there is a session {standing.key!r} already")
        past, made = self._sessions[source], _Kept(standing)
        made.bodies = [*past.bodies[:upto], (standing.updated, event)]
        done = {one.event.result.call_id for one in made.records(0, upto) if isinstance(one.event, ToolFinished)}
        made.values = {ref: value for ref, value in past.values.items() if ref in done}
        self._sessions[standing.key] = made

    async def blank(self, key: str, at: int) -> None:
        kept = self._known(key)
        kept.bodies = [(when, BLANK) for when, _ in kept.bodies]
        kept.inputs.clear()
        kept.values.clear()
        kept.standing = Standing(
            key=key, head=kept.standing.head, status="deleted", turns=kept.standing.turns,
            prompt_tokens=kept.standing.prompt_tokens, completion_tokens=kept.standing.completion_tokens,
            cost=kept.standing.cost, created=kept.standing.created, updated=at,
        )  # fmt: skip

    async def unlearn(self, key: str, facts: Sequence[Fact]) -> None:
        kept = self._known(key)
        for record in kept.records(0, kept.standing.head):
            if isinstance(record.event, Folded):
                kept.bodies[record.seq - 1] = (record.at, encode(unlearned(record.event, facts)))

    async def redact(self, key: str, seqs: Sequence[int]) -> None:
        kept = self._known(key)
        found = sorted({seq for seq in seqs if 0 < seq <= kept.standing.head})
        for record in [one for seq in found for one in kept.records(seq - 1, seq)]:
            kept.bodies[record.seq - 1] = (record.at, encode(redacted(record.event)))
            if isinstance(record.event, ToolFinished):
                kept.values.pop(record.event.result.call_id, None)
        if found and kept.standing.fold:
            for record in kept.records(0, kept.standing.head):
                if isinstance(record.event, Folded) and record.event.upto >= found[0]:
                    kept.bodies[record.seq - 1] = (record.at, BLANK)
            fold, _ = _newest_fold(kept, kept.standing.head)
            kept.standing = msgspec.structs.replace(kept.standing, fold=fold)

    async def keep(self, key: str, ref: str, body: str) -> None:
        body.encode()  # what no disk could take is noticed here too
        self._known(key).values[ref] = body

    async def kept(self, key: str, ref: str, offset: int, limit: int) -> tuple[str, int] | None:
        found = self._sessions.get(key)
        value = found.values.get(ref) if found is not None else None
        return None if value is None else (value[max(offset, 0) :][: max(limit, 0)], len(value))

    async def heads(self) -> dict[str, int]:
        return {key: kept.standing.head for key, kept in self._sessions.items() if kept.standing.status != "deleted"}

    def _known(self, key: str) -> _Kept:
        if key not in self._sessions:
            raise SessionUnknown(f"there is no session {key!r}")
        return self._sessions[key]


def _newest_fold(kept: _Kept, seq: int) -> tuple[int, int]:
    """Where the newest fold up to `seq` stands, and up to where it folded."""
    folds = [record for record in kept.records(0, seq) if isinstance(record.event, Folded)]
    if not folds:
        return 0, 0
    last = folds[-1]
    assert isinstance(last.event, Folded)
    return last.seq, last.event.upto
