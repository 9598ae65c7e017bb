"""What was said before, page by page."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import AsyncIterator, Sequence

from mainstay.channels.slack.bounds import Bounds
from mainstay.channels.slack.events import Me, Message, incoming, is_own, message_of, milliseconds, people_of, seconds
from mainstay.channels.slack.files import mark
from mainstay.channels.slack.inbox import Names
from mainstay.channels.slack.mrkdwn import to_text
from mainstay.channels.slack.web import Refused, Web
from mainstay.core.addresses import Address
from mainstay.core.channels import Incoming, MaybeSent, Sent
from mainstay.core.outside import Said

EVENT_TYPE = "mainstay"  # of the metadata that our messages have
_JUST_NOW_S = 60.0


class History:
    def __init__(self, web: Web, me: Me, names: Names, bounds: Bounds) -> None:
        self._web = web
        self._me = me
        self._names = names
        self._bounds = bounds

    async def since(self, at: Address, after: int, limit: int) -> Sequence[Incoming]:
        """The newest of them if there are more, the oldest first."""
        found = await self._newest(at, after, limit)
        names = await self._names.of(id for one in found for id in people_of(one))
        return [incoming(one, at, self._me, names) for one in found]

    async def find(self, to: Address, key: str, *, just_now: bool = False) -> Sent | None:
        """Raises MaybeSent if there is more than can be looked through."""
        marked, unseen = mark(key), False
        after = int((time.time() - _JUST_NOW_S) * 1000) if just_now else 0
        async for page, more in self._pages(to, after):
            unseen = more
            for one in page:
                if _has(one, marked) and is_own(one, self._me):
                    return Sent(id=one.ts, thread=one.thread_ts or ("" if one.direct else one.ts))
        if unseen:
            raise MaybeSent("Too much was said there to find out whether it was posted.")
        return None

    async def search(self, at: Address, query: str, limit: int) -> Sequence[Said]:
        """In the room, as far as pages go, and in the thread itself. A bot may not use Slack's own search, and what is
        in the threads of a room is not in its history."""
        words = query.casefold().split()
        found: dict[str, Message] = {}
        for place in {Address(at.channel, at.room), at}:
            found |= {one.ts: one for one in await self._newest(place, 0, limit, words)}
        newest = sorted(found.values(), key=lambda one: (milliseconds(one.ts), one.ts), reverse=True)[:limit]
        names = await self._names.of(id for one in newest for id in people_of(one))
        told = [incoming(one, at, self._me, names) for one in newest]
        return [Said(author=one.name or one.user, at=one.at, text=one.text, id=one.id) for one in told]

    async def _newest(self, at: Address, after: int, limit: int, words: Sequence[str] = ()) -> Sequence[Message]:
        """Those that say all these words, the oldest first."""
        found: deque[Message] = deque(maxlen=max(limit, 1))
        async for page, _ in self._pages(at, after):
            fitting = [one for one in page if milliseconds(one.ts) >= after and _says(one, words)]
            if at.thread:
                found.extend(fitting)
                continue
            found.extendleft(fitting[: limit - len(found)])
            if len(found) >= limit:
                break
        return found

    async def _pages(self, at: Address, after: int) -> AsyncIterator[tuple[list[Message], bool]]:
        """Of a thread the oldest first, of a room the newest; and whether there are more. A thread that is not there
        has none."""
        arguments = {
            "channel": at.room,
            "ts": at.thread or None,
            "limit": self._bounds.page,
            "oldest": seconds(after) if after > 0 else None,
            "inclusive": True,
            "include_all_metadata": True,
        }
        method = "conversations.replies" if at.thread else "conversations.history"
        cursor = ""
        for _ in range(self._bounds.pages_max):
            try:
                answer = await self._web.call(method, arguments | {"cursor": cursor or None})
            except Refused as error:
                if error.code == "thread_not_found":
                    return
                raise
            told = answer.get("messages")
            beside = answer.get("response_metadata")
            further = beside.get("next_cursor") if isinstance(beside, dict) else None
            cursor = further if isinstance(further, str) else ""
            messages = [message_of(one, at.room) for one in told] if isinstance(told, list) else []
            yield [one for one in messages if one is not None], bool(cursor)
            if not cursor:
                return


def _says(message: Message, words: Sequence[str]) -> bool:
    text = to_text(message.text or "", {}).casefold() if words else ""
    return all(word in text for word in words)


def _has(message: Message, marked: str) -> bool:
    """In its metadata, or as the name of a block where it has none."""
    match message.metadata:
        case {"event_type": event, "event_payload": {"key": key}} if event == EVENT_TYPE and key == marked:
            return True
    match message.blocks:
        case [{"block_id": block}, *_]:
            return bool(block == marked)
    return False
