"""The search behind the `search_channel` tool: the platform's, else its history, else the workspace's journal."""

from __future__ import annotations

from collections.abc import Sequence

from mainstay.core.channels import ChannelError, ChatChannel
from mainstay.core.chat_addresses import ChatAddress
from mainstay.core.events import MessageAdded, Received
from mainstay.core.journal import Record
from mainstay.core.memory_tiers import SearchHit, parse_message_id
from mainstay.core.messages import parts_text
from mainstay.core.tool_ports import RoomMessage
from mainstay.gateway.channel_message_conversion import find_session_info
from mainstay.gateway.workspace import Workspace
from mainstay.operations.event_feed import read_records

HISTORY_MESSAGES_MAX = 500  # messages that are searched if the platform has no search of its own
HITS_MAX = 100  # hits of the memory search that are looked at
AGENT_NAME = "agent"  # the author of the agent's own messages, as in `log.jsonl`


class RoomSearch:
    """The `ChannelSearch` of one room. A hit contains every word of the query."""

    def __init__(self, channel: ChatChannel, address: ChatAddress, workspace: Workspace) -> None:
        self.name = channel.name
        self._channel = channel
        self._address = address
        self._workspace = workspace

    async def search(self, session: str, query: str, limit: int) -> list[RoomMessage]:
        try:
            if self._channel.capabilities.search:
                room = ChatAddress(self._address.channel, self._address.room)
                return list(await self._channel.search(room, query, limit))
            if self._channel.capabilities.history:
                return await self._search_history(query, limit)
        except ChannelError:  # search the journal instead
            pass
        return await self._search_journal(session, query, limit)

    async def _search_history(self, query: str, limit: int) -> list[RoomMessage]:
        """Search the messages of the room and of this thread, newest first."""
        places = dict.fromkeys((ChatAddress(self._address.channel, self._address.room), self._address))
        found = [message for at in places for message in await self._channel.history(at, 0, HISTORY_MESSAGES_MAX)]
        by_id = {message.id: message for message in found if _contains_words(message.full_text, query)}
        hits = sorted(by_id.values(), key=lambda message: message.at, reverse=True)
        return [
            RoomMessage(author=hit.name or hit.user, at=hit.at, text=hit.full_text, id=hit.id) for hit in hits[:limit]
        ]

    async def _search_journal(self, session: str, query: str, limit: int) -> list[RoomMessage]:
        """Find messages of this room by the memory search, and read them from the journal: the newest first. What the
        running turn has said so far is left out."""
        memory = (await self._workspace.runtime()).memory
        # this conversation by itself, so that others do not displace it
        found = [*(await memory.search(query, HITS_MAX, session=session)).hits]
        found += (await memory.search(query, HITS_MAX)).hits
        info = await find_session_info(self._workspace, session)
        running_turn = info.turns if info is not None and info.unfinished else 0
        hits: dict[str, RoomMessage] = {}
        for hit in found:
            record = await self._read_hit(hit) if hit.message_id not in hits else None
            if record is None or (hit.session == session and record.event.turn == running_turn != 0):
                continue
            message = _to_room_message(record)
            if message is not None and _contains_words(message.text, query):
                hits[hit.message_id] = message
        return sorted(hits.values(), key=lambda hit: hit.at, reverse=True)[:limit]

    async def _read_hit(self, hit: SearchHit) -> Record | None:
        """Return the record of a message of this room; None if the hit is something else."""
        room = f"{ChatAddress(self._address.channel, self._address.room)}:"
        position = parse_message_id(hit.message_id)
        if hit.kind != "message" or position is None or not hit.session.startswith(room):
            return None
        records: Sequence[Record] = await read_records(await self._workspace.runtime(), position[0], position[1] - 1, 1)
        return next((record for record in records if record.seq == position[1]), None)


def _to_room_message(record: Record) -> RoomMessage | None:
    """Return a message as it was sent in the room; None if the record is none, such as a tool's result."""
    match record.event:
        case Received(heard=heard, sender=sender) as event if heard is not None:
            author = heard.name or sender or heard.user
            text = heard.text or parts_text(event.parts)
            return RoomMessage(author=author, at=heard.at or record.at, text=text, id=heard.message)
        case MessageAdded(role="assistant", parts=parts):
            return RoomMessage(author=AGENT_NAME, at=record.at, text=parts_text(parts), id=str(record.seq))
    return None


def _contains_words(text: str, query: str) -> bool:
    text = text.casefold()
    return all(word in text for word in query.casefold().split())
