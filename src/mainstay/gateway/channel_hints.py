"""Hints for the model about the channel it answers on, and the search behind the `search_channel` tool."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mainstay.core.channels import ChannelCapabilities, ChannelError, ChatChannel
from mainstay.core.chat_addresses import ChatAddress
from mainstay.core.memory_tiers import CONTEXT_ORIGIN
from mainstay.core.messages import Text
from mainstay.core.ports import Tool
from mainstay.core.tool_ports import RoomMessage
from mainstay.gateway.workspace import Workspace

HISTORY_MESSAGES_MAX = 500  # messages that are searched if the platform has no search of its own
HITS_MAX = 100

# session → its channel and address; None: on no channel
SessionLocator = Callable[[str], tuple[ChatChannel, ChatAddress] | None]


def build_hints(capabilities: ChannelCapabilities) -> str:
    """Return sentences for the model about what the channel can display."""
    match capabilities.markup:
        case "markdown":
            text = "Your answer is shown in a chat that renders Markdown."
        case "some":
            text = "Your answer is shown in a chat: bold, italic, code, lists and links are shown; keep tables small."
        case "plain":
            text = "Your answer is shown in a chat as plain text, without any formatting."
    text += f" A message has at most {capabilities.length_max} characters; longer answers are split."
    if not capabilities.files:
        text += " Files cannot be sent there."
    return text + " Answer [SILENT] alone to post nothing."


class ChannelHintContributor:
    """A `ContextContributor` that adds a note about the channel to each turn of a session on a channel."""

    def __init__(self, locate_session: SessionLocator) -> None:
        self.tools: tuple[Tool, ...] = ()
        self._locate_session = locate_session

    def fixed_section(self, session: str) -> str:
        return ""

    def sub_agent_section(self, session: str) -> str:
        return ""

    def small_model_section(self, session: str) -> str:
        return ""

    def profile_section(self, session: str) -> str:
        return ""

    def turn_notes(self, session: str, prompt: str) -> tuple[Text, ...]:
        location = self._locate_session(session)
        return (
            (Text(build_hints(location[0].capabilities), origin=f"{CONTEXT_ORIGIN}:channel"),)
            if location is not None
            else ()
        )


class RoomSearch:
    """The `ChannelSearch` of one room: uses the platform's search, else its history, else the workspace's journal."""

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
        return await self._search_memory(query, limit)

    async def _search_history(self, query: str, limit: int) -> list[RoomMessage]:
        words = query.casefold().split()
        history = await self._channel.history(self._address, 0, HISTORY_MESSAGES_MAX)
        hits = [message for message in reversed(history) if all(word in message.full_text.casefold() for word in words)]
        return [
            RoomMessage(author=hit.name or hit.user, at=hit.at, text=hit.full_text, id=hit.id) for hit in hits[:limit]
        ]

    async def _search_memory(self, query: str, limit: int) -> list[RoomMessage]:
        """Search the workspace's memory for messages of this room, the newest first."""
        room = f"{ChatAddress(self._address.channel, self._address.room)}:"
        hits: Sequence[RoomMessage] = [
            RoomMessage(author=hit.speaker, at=hit.at, text=hit.text, id=hit.message_id)
            for hit in (await (await self._workspace.runtime()).memory.search(query, HITS_MAX)).hits
            if hit.session.startswith(room) and hit.kind == "message"
        ]
        return sorted(hits, key=lambda hit: hit.at, reverse=True)[:limit]
