"""Limits what memory shows to a person: only an admin of the workspace reads what comes from sessions of other people,
and that without secrets. Everybody else reads what comes from their own sessions, as over the API."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

import msgspec

from mainstay.core.memory_tiers import SearchHit, Summary
from mainstay.core.ports import Store
from mainstay.memory.types import PAGE_CHARS_MAX, MemoryPage

HIDDEN_CHARS_MAX = 1_000_000  # of a text of another person; its end cannot be read

ItemT = TypeVar("ItemT", SearchHit, Summary)
ReadPage = Callable[[int, int], Awaitable[MemoryPage]]  # takes offset and limit


class SecretHiding:
    """Hides secrets in items of other people's sessions, and from all but admins these items. `redact` removes secrets
    from a text; `can_read_all` takes a person and the session that reads, and is True for an admin of the workspace."""

    def __init__(self, store: Store) -> None:
        self.redact: Callable[[str], str] = str
        self.can_read_all: Callable[[str, str], bool] = lambda person, session: True
        self._store = store

    def is_limited(self, person: str, session: str) -> bool:
        """Return whether this person, in this session, reads only what comes from their own sessions."""
        return bool(person) and not self.can_read_all(person, session)

    async def is_own(self, session: str, person: str, current_session: str = "") -> bool:
        """Return True if the session is this person's, or the one that reads. An item of no session is the owner's."""
        if not session:
            return not person
        if session == current_session:
            return True
        info = await self._store.get_session(session)
        return info is not None and info.person == person

    async def hide(self, items: Sequence[ItemT], person: str, current_session: str = "") -> list[ItemT]:
        if self.is_limited(person, current_session):
            return [item for item in items if await self.is_own(item.session, person, current_session)]
        return [
            item
            if await self.is_own(item.session, person, current_session)
            else msgspec.structs.replace(item, text=self.redact(item.text))
            for item in items
        ]


async def read_hidden_page(read: ReadPage, redact: Callable[[str], str], offset: int, limit: int) -> MemoryPage:
    """Read a page of a text without its secrets: the whole text is redacted first, because half a secret would not be
    recognised at the border of a page."""
    page = await read(0, PAGE_CHARS_MAX)
    texts = [page.text]
    for start in range(PAGE_CHARS_MAX, min(page.total, HIDDEN_CHARS_MAX), PAGE_CHARS_MAX):
        texts.append((await read(start, PAGE_CHARS_MAX)).text)
    text = redact("".join(texts))
    return msgspec.structs.replace(page, text=text[offset : offset + limit], offset=offset, total=len(text))
