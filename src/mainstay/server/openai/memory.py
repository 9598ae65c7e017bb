"""What is remembered of those who send their history instead of naming a session. Lost with the process: then a
conversation is told to a new session once more."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Sequence
from typing import Generic, TypeVar
from weakref import WeakValueDictionary

import msgspec

from mainstay.core.messages import AnyPart
from mainstay.gateway.visit import Ticket
from mainstay.server.openai.ids import Who
from mainstay.server.openai.wishes import Said, digest_of

CONVERSATIONS_MAX = 20_000
ATTEMPTS_MAX = 1_000

K = TypeVar("K")
V = TypeVar("V")


class Begun(msgspec.Struct, frozen=True, kw_only=True):
    """A turn that answers a request."""

    session: str
    ticket: Ticket
    call: str = ""  # it went on with this call's result
    results: dict[str, str] = {}  # and has these for calls that come next
    more: tuple[AnyPart, ...] = ()  # what was said beside the results
    again: bool = False  # somebody has listened to it before


class Newest(Generic[K, V]):
    """A dictionary that forgets the oldest."""

    def __init__(self, entries_max: int) -> None:
        self._max = entries_max
        self._held: OrderedDict[K, V] = OrderedDict()

    def __len__(self) -> int:
        return len(self._held)

    def put(self, key: K, value: V) -> None:
        self._held[key] = value
        self._held.move_to_end(key)
        if len(self._held) > self._max:
            self._held.popitem(last=False)

    def get(self, key: K) -> V | None:
        return self._held.get(key)

    def pop(self, key: K) -> V | None:
        return self._held.pop(key, None)


class Memory:
    """Everything in it belongs to somebody in a workspace, and is found by nobody else."""

    def __init__(self, conversations_max: int = CONVERSATIONS_MAX, attempts_max: int = ATTEMPTS_MAX) -> None:
        self._sessions: Newest[tuple[Who, bytes], str] = Newest(conversations_max)
        self._told: Newest[tuple[Who, str], bytes] = Newest(conversations_max)
        self._attempts: Newest[tuple[Who, bytes], Begun] = Newest(attempts_max)
        self._doors: WeakValueDictionary[tuple[Who, str], asyncio.Lock] = WeakValueDictionary()

    def door(self, who: Who, session: str) -> asyncio.Lock:
        """One request at a time begins in a session, so that its tools and its prompt come together."""
        return self._doors.setdefault((who, session), asyncio.Lock())

    # --- conversations by what was said in them --------------------------------------------------

    def keep(self, who: Who, messages: Sequence[Said], session: str) -> None:
        self._sessions.put((who, digest_of(messages)), session)

    def take(self, who: Who, messages: Sequence[Said]) -> str | None:
        """The session that stands where this history ends. It goes on from there, so it is found so only once:
        whoever tells the same history again (another branch, another client) gets a session of their own."""
        return self._sessions.pop((who, digest_of(messages))) if messages else None

    # --- what a session has been told ------------------------------------------------------------

    def knows(self, who: Who, session: str, system: bytes) -> bool:
        return self._told.get((who, session)) == system

    def told(self, who: Who, session: str, system: bytes) -> None:
        self._told.put((who, session), system)

    # --- requests that are made again ------------------------------------------------------------

    def attempted(self, who: Who, attempt: bytes) -> Begun | None:
        return self._attempts.get((who, attempt))

    def attempt(self, who: Who, attempt: bytes, begun: Begun) -> None:
        self._attempts.put((who, attempt), begun)
