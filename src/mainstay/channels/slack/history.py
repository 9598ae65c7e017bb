"""Reads, searches and looks up messages in the history of a Slack room or thread."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import AsyncIterator, Sequence

from mainstay.channels.slack.attachments import hash_key
from mainstay.channels.slack.client import SlackClient, SlackRequestRefused
from mainstay.channels.slack.event_dispatcher import SlackNameCache
from mainstay.channels.slack.events import (
    SlackIdentity,
    SlackMessage,
    collect_user_ids,
    decode_message,
    is_own,
    ms_to_ts,
    to_incoming,
    ts_to_ms,
)
from mainstay.channels.slack.limits import SlackLimits
from mainstay.channels.slack.markup import mrkdwn_to_text
from mainstay.core.channels import DeliveryUnknown, IncomingMessage, SentMessage
from mainstay.core.chat_addresses import ChatAddress
from mainstay.core.tool_ports import RoomMessage

EVENT_TYPE = "mainstay"  # event type of the metadata of our messages
_RECENT_S = 60.0
_CLOCK_MARGIN_MS = 60_000  # by which Slack's clock may be behind ours


class SlackHistory:
    def __init__(
        self, client: SlackClient, identity: SlackIdentity, names: SlackNameCache, limits: SlackLimits
    ) -> None:
        self._client = client
        self._identity = identity
        self._names = names
        self._limits = limits

    async def fetch_since(self, at: ChatAddress, after: int, limit: int) -> Sequence[IncomingMessage]:
        """Return the newest messages since `after` (ms), at most `limit`, oldest first."""
        messages = await self._fetch_newest(at, after, limit)
        names = await self._names.look_up(id for message in messages for id in collect_user_ids(message))
        return [to_incoming(message, at, self._identity, names) for message in messages]

    async def find(self, to: ChatAddress, key: str, *, recent_only: bool = False) -> SentMessage | None:
        """Return the message posted under this key, or None. Raises DeliveryUnknown if the history is too long."""
        marked, has_more = hash_key(key), False
        after = int((time.time() - _RECENT_S) * 1000) if recent_only else 0
        async for page, more in self._fetch_pages(to, after):
            has_more = more
            for message in page:
                if _has_key_hash(message, marked) and is_own(message, self._identity):
                    return SentMessage(
                        id=message.ts, thread=message.thread_ts or ("" if message.is_direct else message.ts)
                    )
        if has_more:
            raise DeliveryUnknown("The room has too many newer messages to find out whether it was posted.")
        return None

    async def find_unfinished(self, to: ChatAddress, since: int) -> SentMessage | None:
        """Return our newest message since that time (ms) without metadata: a stream that was not finished. All other
        messages of ours have metadata, or are files."""
        found: SlackMessage | None = None
        async for page, _ in self._fetch_pages(to, max(since - _CLOCK_MARGIN_MS, 1)):
            for message in page:
                is_stream = not (message.metadata or message.files) and is_own(message, self._identity)
                if is_stream and (found is None or ts_to_ms(message.ts) > ts_to_ms(found.ts)):
                    found = message
        if found is None:
            return None
        return SentMessage(id=found.ts, thread=found.thread_ts or ("" if found.is_direct else found.ts))

    async def search(self, at: ChatAddress, query: str, limit: int) -> Sequence[RoomMessage]:
        """Search the newest pages of the room, and the thread itself. Bots may not use Slack's own search, and a room's
        history does not contain its threads."""
        words = query.casefold().split()
        matches: dict[str, SlackMessage] = {}
        for address in {ChatAddress(at.channel, at.room), at}:
            matches |= {match.ts: match for match in await self._fetch_newest(address, 0, limit, words)}
        newest = sorted(matches.values(), key=lambda match: (ts_to_ms(match.ts), match.ts), reverse=True)[:limit]
        names = await self._names.look_up(id for match in newest for id in collect_user_ids(match))
        hits = [to_incoming(match, at, self._identity, names) for match in newest]
        return [RoomMessage(author=hit.name or hit.user, at=hit.at, text=hit.full_text, id=hit.id) for hit in hits]

    async def _fetch_newest(
        self, at: ChatAddress, after: int, limit: int, words: Sequence[str] = ()
    ) -> Sequence[SlackMessage]:
        """Return the newest messages that contain all these words, oldest first."""
        newest: deque[SlackMessage] = deque(maxlen=max(limit, 1))
        async for page, _ in self._fetch_pages(at, after):
            matching = [
                message for message in page if ts_to_ms(message.ts) >= after and _contains_words(message, words)
            ]
            if at.thread:
                newest.extend(matching)
                continue
            newest.extendleft(matching[: limit - len(newest)])
            if len(newest) >= limit:
                break
        return newest

    async def _fetch_pages(self, at: ChatAddress, after: int) -> AsyncIterator[tuple[list[SlackMessage], bool]]:
        """Yield pages and whether more follow: a thread's messages oldest first, a room's newest first. A missing
        thread has no pages."""
        arguments = {
            "channel": at.room,
            "ts": at.thread or None,
            "limit": self._limits.page_messages,
            "oldest": ms_to_ts(after) if after > 0 else None,
            "inclusive": True,
            "include_all_metadata": True,
        }
        method = "conversations.replies" if at.thread else "conversations.history"
        cursor = ""
        for _ in range(self._limits.history_pages_max):
            try:
                answer = await self._client.call(method, arguments | {"cursor": cursor or None})
            except SlackRequestRefused as error:
                if error.code == "thread_not_found":
                    return
                raise
            raw = answer.get("messages")
            metadata = answer.get("response_metadata")
            next_cursor = metadata.get("next_cursor") if isinstance(metadata, dict) else None
            cursor = next_cursor if isinstance(next_cursor, str) else ""
            messages = [decode_message(entry, at.room) for entry in raw] if isinstance(raw, list) else []
            yield [message for message in messages if message is not None], bool(cursor)
            if not cursor:
                return


def _contains_words(message: SlackMessage, words: Sequence[str]) -> bool:
    text = mrkdwn_to_text(message.text or "", {}).casefold() if words else ""
    return all(word in text for word in words)


def _has_key_hash(message: SlackMessage, key_hash: str) -> bool:
    """Whether the hash is in the message's metadata or is the id of its first block."""
    match message.metadata:
        case {"event_type": event, "event_payload": {"key": key}} if event == EVENT_TYPE and key == key_hash:
            return True
    match message.blocks:
        case [{"block_id": block}, *_]:
            return bool(block == key_hash)
    return False
