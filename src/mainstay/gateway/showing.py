"""What the model is told of the channel it answers on, and how it looks through a room's history."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mainstay.core.addresses import Address
from mainstay.core.channels import ChannelError, ChatChannel, Shows
from mainstay.core.messages import Text
from mainstay.core.outside import Said
from mainstay.core.ports import Tool
from mainstay.core.recall import NOTE
from mainstay.gateway.office import Office

HISTORY_MAX = 500  # messages that are looked through where the platform has no search
HITS_MAX = 100

Where = Callable[[str], tuple[ChatChannel, Address] | None]  # the channel that a session is on, and its place there


def hints(shows: Shows) -> str:
    """What the channel can display, in a sentence or two."""
    match shows.markup:
        case "markdown":
            said = "Your answer is shown in a chat that renders Markdown."
        case "some":
            said = "Your answer is shown in a chat: bold, italic, code, lists and links are shown; keep tables small."
        case "plain":
            said = "Your answer is shown in a chat as plain text, without any formatting."
    said += f" A message has at most {shows.length} characters; longer answers are split."
    if not shows.files:
        said += " Files cannot be sent there."
    return said + " Answer [SILENT] alone to post nothing."


class ChannelHints:
    """The Contributor port: appended to each turn of a session that is on a channel."""

    def __init__(self, where: Where) -> None:
        self.tools: tuple[Tool, ...] = ()
        self._where = where

    def fixed(self, session: str) -> str:
        return ""

    def errand(self, session: str) -> str:
        return ""

    def brief(self, session: str) -> str:
        return ""

    def profile(self, session: str) -> str:
        return ""

    def turn(self, session: str, prompt: str) -> tuple[Text, ...]:
        found = self._where(session)
        return (Text(hints(found[0].shows), origin=f"{NOTE}:channel"),) if found is not None else ()


class RoomSearch:
    """The Channel port of `search_channel`: as the platform finds it, else in what it keeps, else in what we have."""

    def __init__(self, channel: ChatChannel, at: Address, office: Office) -> None:
        self.name = channel.name
        self._channel = channel
        self._at = at
        self._office = office

    async def search(self, session: str, query: str, limit: int) -> list[Said]:
        try:
            if self._channel.shows.search:
                room = Address(self._at.channel, self._at.room)
                return list(await self._channel.search(room, query, limit))
            if self._channel.shows.history:
                return await self._in_history(query, limit)
        except ChannelError:  # our own log is better than nothing
            pass
        return await self._in_our_log(query, limit)

    async def _in_history(self, query: str, limit: int) -> list[Said]:
        words = query.casefold().split()
        told = await self._channel.history(self._at, 0, HISTORY_MAX)
        found = [one for one in reversed(told) if all(word in one.text.casefold() for word in words)]
        return [Said(author=one.name or one.user, at=one.at, text=one.text, id=one.id) for one in found[:limit]]

    async def _in_our_log(self, query: str, limit: int) -> list[Said]:
        """Of this room alone."""
        room = f"{Address(self._at.channel, self._at.room)}:"
        hits: Sequence[Said] = [
            Said(author=hit.speaker, at=hit.at, text=hit.text, id=hit.message_id)
            for hit in await self._office.memory.search(query, HITS_MAX)
            if hit.session.startswith(room) and hit.kind == "message"
        ]
        return sorted(hits, key=lambda one: one.at, reverse=True)[:limit]
