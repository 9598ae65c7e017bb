"""In-memory Store: a test double, and the store of agents that keep nothing on disk."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence
from typing import Literal

import msgspec

from mainstay.core.component_options import StoreOptions
from mainstay.core.errors import DuplicateInput, SessionUnknown, StaleWriter, StoreFailed
from mainstay.core.events import Folded, ToolFinished
from mainstay.core.journal import BLANKED_BODY, Record, decode_event, encode_event, redact_event, remove_facts
from mainstay.core.memory_tiers import Fact
from mainstay.core.ports import IdempotencyKey, SessionInfo, SessionTail
from mainstay.core.store_components import StoreLocation


class _StoredSession:
    def __init__(self, info: SessionInfo) -> None:
        self.info = info
        self.bodies: list[tuple[int, bytes]] = []  # at, body; the sequence is the position + 1
        self.inputs: dict[str, tuple[int, str]] = {}
        self.values: dict[str, str] = {}  # values too large for the history, by reference

    def records(self, after: int, upto: int) -> list[Record]:
        rows = self.bodies[after:upto]
        return [Record(after + n, at, decode_event(body)) for n, (at, body) in enumerate(rows, start=1)]


class MemoryStore:
    """Encodes and decodes everything as a real store does, so that tests notice what cannot be stored.

    Every append raises `fail` while it is set.
    """

    ends_with_process: Literal[True] = True

    def __init__(self) -> None:
        self._sessions: dict[str, _StoredSession] = {}
        self.fail: Exception | None = None
        self.appends = 0

    async def open(self) -> None: ...

    async def close(self) -> None: ...

    def append(
        self,
        info: SessionInfo,
        expected: int,
        events: Sequence[bytes],
        idempotency_key: IdempotencyKey | None = None,
        *,
        synced: bool = True,
    ) -> Awaitable[None]:
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        try:
            self._append(info, expected, events, idempotency_key)
        except Exception as error:  # raised where the append is awaited
            done.set_exception(error)
        else:
            done.set_result(None)
        return done

    def _append(
        self, info: SessionInfo, expected: int, events: Sequence[bytes], idempotency_key: IdempotencyKey | None
    ) -> None:
        if self.fail is not None:
            raise self.fail
        stored = self._sessions.get(info.key)
        if idempotency_key is not None and stored is not None and (known := stored.inputs.get(idempotency_key.id)):
            raise DuplicateInput(known[0], same=known[1] == idempotency_key.digest)
        if (stored.info.head if stored is not None else 0) != expected:
            raise StaleWriter(f"session {info.key!r} was changed by another writer")
        if stored is None:
            stored = self._sessions[info.key] = _StoredSession(info)
        stored.info = info
        stored.bodies += [(info.updated, bytes(body)) for body in events]
        if idempotency_key is not None:
            stored.inputs[idempotency_key.id] = (expected + 1, idempotency_key.digest)
        self.appends += 1

    async def load_tail(self, key: str, bytes_max: int) -> SessionTail | None:
        stored = self._sessions.get(key)
        if stored is None:
            return None
        info, bottom = stored.info, 0
        if info.fold:
            fold, bottom = _newest_fold(stored, info.fold)
            info = msgspec.structs.replace(info, fold=fold)
        first, size = info.head, 0
        while first > bottom and (info.fold or size < bytes_max or first >= max(info.floor, 1)):
            first -= 1
            size += len(stored.bodies[first][1])
        pinned = sorted({seq for seq in (info.fixed, info.amended, info.client_tools_seq) if 0 < seq <= first})
        pinned_records = [record for seq in pinned for record in stored.records(seq - 1, seq)]
        return SessionTail(info, stored.records(first, info.head), first <= bottom, pinned_records)

    async def read_records(self, key: str, after: int = 0, limit: int = 1000) -> list[Record]:
        stored = self._sessions.get(key)
        return stored.records(after, after + limit) if stored is not None else []

    async def find_input(self, key: str, id: str) -> tuple[int, str] | None:
        stored = self._sessions.get(key)
        return stored.inputs.get(id) if stored is not None else None

    async def list_unfinished(self) -> list[str]:
        return [key for key, stored in self._sessions.items() if stored.info.unfinished]

    async def list_sessions(
        self, *, limit: int = 100, offset: int = 0, include_deleted: bool = False
    ) -> list[SessionInfo]:
        infos = [
            stored.info for stored in self._sessions.values() if include_deleted or stored.info.status != "deleted"
        ]
        infos.reverse()
        infos.sort(key=lambda info: -info.updated)
        return infos[offset : offset + limit]

    async def get_session(self, key: str) -> SessionInfo | None:
        stored = self._sessions.get(key)
        return stored.info if stored is not None else None

    async def fork_session(self, source: str, upto: int, info: SessionInfo, event: bytes) -> None:
        if source not in self._sessions:
            raise SessionUnknown(f"there is no session {source!r}")
        if info.key in self._sessions:
            raise StoreFailed(f"there is a session {info.key!r} already")
        original, copy = self._sessions[source], _StoredSession(info)
        copy.bodies = [*original.bodies[:upto], (info.updated, event)]
        done = {
            record.event.result.call_id for record in copy.records(0, upto) if isinstance(record.event, ToolFinished)
        }
        copy.values = {ref: value for ref, value in original.values.items() if ref in done}
        self._sessions[info.key] = copy

    async def blank_session(self, key: str, at: int) -> None:
        stored = self._get_existing(key)
        stored.bodies = [(when, BLANKED_BODY) for when, _ in stored.bodies]
        stored.inputs.clear()
        stored.values.clear()
        stored.info = SessionInfo(
            key=key, head=stored.info.head, status="deleted", turns=stored.info.turns,
            prompt_tokens=stored.info.prompt_tokens, completion_tokens=stored.info.completion_tokens,
            cost=stored.info.cost, created=stored.info.created, updated=at,
        )  # fmt: skip

    async def remove_facts(self, key: str, facts: Sequence[Fact]) -> None:
        stored = self._get_existing(key)
        for record in stored.records(0, stored.info.head):
            if isinstance(record.event, Folded):
                stored.bodies[record.seq - 1] = (record.at, encode_event(remove_facts(record.event, facts)))

    async def redact_records(self, key: str, seqs: Sequence[int]) -> None:
        stored = self._get_existing(key)
        wanted = sorted({seq for seq in seqs if 0 < seq <= stored.info.head})
        for record in [record for seq in wanted for record in stored.records(seq - 1, seq)]:
            stored.bodies[record.seq - 1] = (record.at, encode_event(redact_event(record.event)))
            if isinstance(record.event, ToolFinished):
                stored.values.pop(record.event.result.call_id, None)
        if wanted and stored.info.fold:
            for record in stored.records(0, stored.info.head):
                if isinstance(record.event, Folded) and record.event.upto >= wanted[0]:
                    stored.bodies[record.seq - 1] = (record.at, BLANKED_BODY)
            fold, _ = _newest_fold(stored, stored.info.head)
            stored.info = msgspec.structs.replace(stored.info, fold=fold)

    async def save_value(self, key: str, ref: str, body: str) -> None:
        body.encode()  # raises for text that a real store could not write
        self._get_existing(key).values[ref] = body

    async def read_value(self, key: str, ref: str, offset: int, limit: int) -> tuple[str, int] | None:
        stored = self._sessions.get(key)
        value = stored.values.get(ref) if stored is not None else None
        return None if value is None else (value[max(offset, 0) :][: max(limit, 0)], len(value))

    async def list_heads(self) -> dict[str, int]:
        return {key: stored.info.head for key, stored in self._sessions.items() if stored.info.status != "deleted"}

    def _get_existing(self, key: str) -> _StoredSession:
        if key not in self._sessions:
            raise SessionUnknown(f"there is no session {key!r}")
        return self._sessions[key]


def build_store(options: StoreOptions, location: StoreLocation) -> MemoryStore:
    return MemoryStore()


def _newest_fold(stored: _StoredSession, seq: int) -> tuple[int, int]:
    """Return the sequence of the newest fold up to `seq` and the last one that it folded; (0, 0) if there is none."""
    folds = [record for record in stored.records(0, seq) if isinstance(record.event, Folded)]
    if not folds:
        return 0, 0
    last = folds[-1]
    assert isinstance(last.event, Folded)
    return last.seq, last.event.upto
