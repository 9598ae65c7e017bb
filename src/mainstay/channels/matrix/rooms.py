"""Who is in a room, as far as we have to know: how many, and what those who speak are called."""

from __future__ import annotations

from collections import OrderedDict

from mainstay.channels.matrix.events import Event, Joined, Member, Summary, events_of, read, shown_name
from mainstay.channels.matrix.homeserver import Homeserver
from mainstay.core.channels import NeverSent

ROOMS_MAX = 1_000
NAMES_MAX = 2_000


class _Room:
    __slots__ = ("joined", "names")

    def __init__(self) -> None:
        self.joined: int | None = None  # not known
        self.names: OrderedDict[str, str] = OrderedDict()


class Rooms:
    """Asked once, and then as the homeserver tells of changes. What was not used for long is forgotten."""

    def __init__(self, homeserver: Homeserver) -> None:
        self._homeserver = homeserver
        self._rooms: OrderedDict[str, _Room] = OrderedDict()
        self.marked: frozenset[str] = frozenset()  # our account has put these down as direct

    async def is_direct(self, room: str) -> bool:
        """Only one other is there."""
        return room in self.marked or await self._count(room) == 2

    async def name(self, room: str, user: str) -> str:
        """What somebody there is called; empty if they have no name."""
        found = self._room(room)
        if user not in found.names:
            await self._ask(room, found)
            found.names.setdefault(user, "")  # they have left
        return found.names[user]

    def take(self, room: str, joined: Joined, timeline: list[Event]) -> None:
        """What a sync tells of it."""
        found = self._room(room)
        count = read(joined.summary, Summary, Summary()).joined
        for event in (*events_of(joined.state.events), *timeline):
            if event.type == "m.room.member" and event.state_key:
                self._put(found, event.state_key, read(event.content, Member, Member()).displayname)
        if any(event.type == "m.room.member" for event in timeline):
            found.joined = None  # somebody came or went, perhaps
        if count is not None:
            found.joined = count

    def forget(self, room: str) -> None:
        self._rooms.pop(room, None)

    async def _count(self, room: str) -> int:
        found = self._room(room)
        if found.joined is None:
            await self._ask(room, found)
        return found.joined or 0

    async def _ask(self, room: str, found: _Room) -> None:
        try:
            members = (await self._homeserver.say(self._homeserver.client.joined_members(room))).members
        except NeverSent:  # it is no room of ours any more
            members = []
        found.joined = len(members)
        for member in members[:NAMES_MAX]:
            self._put(found, member.user_id, member.display_name)

    def _put(self, found: _Room, user: str, name: str | None) -> None:
        found.names[user] = shown_name(name)
        while len(found.names) > NAMES_MAX:
            found.names.popitem(last=False)

    def _room(self, room: str) -> _Room:
        found = self._rooms.setdefault(room, _Room())
        self._rooms.move_to_end(room)
        while len(self._rooms) > ROOMS_MAX:
            self._rooms.popitem(last=False)
        return found
