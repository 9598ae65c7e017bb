"""A Store that keeps nothing: the double for tests, and for agents that need no memory."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence

import msgspec

from mainstay.core.errors import DuplicateInput, SessionUnknown, StaleWriter, StoreFailed
from mainstay.core.events import Folded
from mainstay.core.journal import BLANK, Record, decode
from mainstay.core.ports import Once, Standing, Tail


class _Kept:
    def __init__(self, standing: Standing) -> None:
        self.standing = standing
        self.bodies: list[tuple[int, bytes]] = []  # at, body; the sequence is the position + 1
        self.inputs: dict[str, tuple[int, str]] = {}

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
        self, standing: Standing, expected: int, events: Sequence[bytes], once: Once | None = None
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
        bottom = 0
        if kept.standing.fold:
            fold = decode(kept.bodies[kept.standing.fold - 1][1])
            assert isinstance(fold, Folded)
            bottom = fold.upto
        first, size = kept.standing.head, 0
        while first > bottom and (size < bytes_max or first >= max(kept.standing.floor, 1)):
            first -= 1
            size += len(kept.bodies[first][1])
        return Tail(kept.standing, kept.records(first, kept.standing.head), complete=first <= bottom)

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
        made = self._sessions[standing.key] = _Kept(standing)
        made.bodies = [*self._sessions[source].bodies[:upto], (standing.updated, event)]

    async def blank(self, key: str, at: int) -> None:
        kept = self._sessions.get(key)
        if kept is None:
            raise SessionUnknown(f"there is no session {key!r}")
        kept.bodies = [(when, BLANK) for when, _ in kept.bodies]
        kept.inputs.clear()
        kept.standing = msgspec.structs.replace(
            kept.standing, status="deleted", unfinished=False, fold=0, floor=0, messages=0, updated=at,
            title="", parent="", model="", instructions="", metadata={},
        )  # fmt: skip
