"""In-memory cache that maps the history a client sends to its session, and recognises retried requests.

It is lost with the process; then the history is imported into a new session.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Sequence
from typing import Generic, TypeVar
from weakref import WeakValueDictionary

import msgspec

from mainstay.core.messages import AnyPart
from mainstay.lane.replies import PendingReply
from mainstay.operations.event_feed import Subscription
from mainstay.server.openai.common_request import ClientMessage, history_digest
from mainstay.server.openai.ids import WorkspacePerson

CONVERSATIONS_MAX = 20_000
REQUESTS_MAX = 1_000

KeyT = TypeVar("KeyT")
ValueT = TypeVar("ValueT")


class StartedTurn(msgspec.Struct, frozen=True, kw_only=True):
    """The turn that answers a request."""

    session: str
    pending: PendingReply
    subscription: Subscription | None = None  # to the live events of its session, from before it was accepted
    call_id: str = ""  # id of the tool call whose result continued the turn
    results: dict[str, str] = {}  # of calls that come next: call id → result
    user_parts: tuple[AnyPart, ...] = ()  # user messages that came with the results
    is_retry: bool = False  # a retry: earlier events of the turn may have been missed


class BoundedCache(Generic[KeyT, ValueT]):
    """A dictionary of bounded size; the entry written longest ago is dropped first."""

    def __init__(self, entries_max: int) -> None:
        self._entries_max = entries_max
        self._entries: OrderedDict[KeyT, ValueT] = OrderedDict()

    def __len__(self) -> int:
        return len(self._entries)

    def put(self, key: KeyT, value: ValueT) -> None:
        self._entries[key] = value
        self._entries.move_to_end(key)
        if len(self._entries) > self._entries_max:
            self._entries.popitem(last=False)

    def get(self, key: KeyT) -> ValueT | None:
        return self._entries.get(key)

    def pop(self, key: KeyT) -> ValueT | None:
        return self._entries.pop(key, None)


class ConversationCache:
    """Cache of all clients. Every entry belongs to one person in one workspace."""

    def __init__(self, conversations_max: int = CONVERSATIONS_MAX, requests_max: int = REQUESTS_MAX) -> None:
        self._sessions: BoundedCache[tuple[WorkspacePerson, bytes], str] = BoundedCache(conversations_max)
        self._system_digests: BoundedCache[tuple[WorkspacePerson, str], bytes] = BoundedCache(conversations_max)
        self._requests: BoundedCache[tuple[WorkspacePerson, bytes], StartedTurn] = BoundedCache(requests_max)
        self._locks: WeakValueDictionary[tuple[WorkspacePerson, str], asyncio.Lock] = WeakValueDictionary()

    def session_lock(self, owner: WorkspacePerson, session: str) -> asyncio.Lock:
        """Return a session's lock: one request at a time starts a turn, so that its tools and prompt stay together."""
        return self._locks.setdefault((owner, session), asyncio.Lock())

    # --- sessions by the digest of their history --------------------------------------------------

    def save_session(self, owner: WorkspacePerson, messages: Sequence[ClientMessage], session: str) -> None:
        self._sessions.put((owner, history_digest(messages)), session)

    def take_session(self, owner: WorkspacePerson, messages: Sequence[ClientMessage]) -> str | None:
        """Remove and return the session that ends with this history. The session continues from there, so it is found
        once: the same history sent again (another branch, another client) gets a session of its own."""
        return self._sessions.pop((owner, history_digest(messages))) if messages else None

    # --- system messages of sessions -------------------------------------------------------------

    def has_system(self, owner: WorkspacePerson, session: str, digest: bytes) -> bool:
        return self._system_digests.get((owner, session)) == digest

    def save_system(self, owner: WorkspacePerson, session: str, digest: bytes) -> None:
        self._system_digests.put((owner, session), digest)

    # --- retried requests ------------------------------------------------------------------------

    def find_request(self, owner: WorkspacePerson, digest: bytes) -> StartedTurn | None:
        return self._requests.get((owner, digest))

    def save_request(self, owner: WorkspacePerson, digest: bytes, started: StartedTurn) -> None:
        self._requests.put((owner, digest), started)
