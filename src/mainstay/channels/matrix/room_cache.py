"""Cache of the names and member counts of Matrix rooms, and of their members' display names."""

from __future__ import annotations

from collections import OrderedDict

from mainstay.channels.matrix.client import MatrixClient
from mainstay.channels.matrix.events import (
    MatrixEvent,
    MatrixJoinedRoom,
    MatrixMember,
    MatrixRoomName,
    MatrixRoomSummary,
    decode_events,
    decode_json,
    format_name,
)
from mainstay.core.channels import ChannelError, DeliveryRejected

ROOMS_CACHED_MAX = 1_000
NAMES_CACHED_MAX = 2_000


class _CachedMatrixRoom:
    __slots__ = ("joined_count", "names", "room_name")

    def __init__(self) -> None:
        self.room_name: str | None = None  # empty: it has none; None: not known
        self.joined_count: int | None = None  # number of members; None: not known
        self.names: OrderedDict[str, str] = OrderedDict()


class MatrixRoomCache:
    """Fetches a room's members once and then follows changes in sync responses. The least recently used rooms are
    evicted."""

    def __init__(self, client: MatrixClient) -> None:
        self._client = client
        self._rooms: OrderedDict[str, _CachedMatrixRoom] = OrderedDict()
        self.direct_rooms: frozenset[str] = frozenset()  # rooms that the account has marked as direct

    async def is_direct(self, room: str) -> bool:
        """Whether the room is a direct message: marked as such, or with exactly two members."""
        return room in self.direct_rooms or await self._member_count(room) == 2

    async def room_name(self, room: str) -> str:
        """Return the name of a room; empty if it has none, or it could not be fetched."""
        cached = self._cached_room(room)
        if cached.room_name is None:
            try:
                cached.room_name = format_name(await self._client.fetch_room_name(room))
            except ChannelError:  # the message is handled without it
                cached.room_name = ""
        return cached.room_name

    async def display_name(self, room: str, user: str) -> str:
        """Return the display name of a member; empty if there is none."""
        members = self._cached_room(room)
        if user not in members.names:
            await self._fetch_members(room, members)
            members.names.setdefault(user, "")  # no longer a member
        return members.names[user]

    def apply_sync(self, room: str, joined: MatrixJoinedRoom, timeline: list[MatrixEvent]) -> None:
        """Apply a sync response's changes of a room."""
        members = self._cached_room(room)
        count = decode_json(joined.summary, MatrixRoomSummary, MatrixRoomSummary()).joined_count
        for event in (*decode_events(joined.state.events), *timeline):
            if event.type == "m.room.member" and event.state_key:
                self._put_name(
                    members, event.state_key, decode_json(event.content, MatrixMember, MatrixMember()).displayname
                )
            elif event.type == "m.room.name" and event.state_key == "":
                members.room_name = format_name(decode_json(event.content, MatrixRoomName, MatrixRoomName()).name)
        if any(event.type == "m.room.member" for event in timeline):
            members.joined_count = None  # a member may have joined or left
        if count is not None:
            members.joined_count = count

    def forget(self, room: str) -> None:
        self._rooms.pop(room, None)

    async def _member_count(self, room: str) -> int:
        members = self._cached_room(room)
        if members.joined_count is None:
            await self._fetch_members(room, members)
        return members.joined_count or 0

    async def _fetch_members(self, room: str, cached: _CachedMatrixRoom) -> None:
        try:
            members = (await self._client.call_nio(self._client.nio_client.joined_members(room))).members
        except DeliveryRejected:  # the account is not in the room any more
            members = []
        cached.joined_count = len(members)
        for member in members[:NAMES_CACHED_MAX]:
            self._put_name(cached, member.user_id, member.display_name)

    def _put_name(self, cached: _CachedMatrixRoom, user: str, name: str | None) -> None:
        cached.names[user] = format_name(name)
        while len(cached.names) > NAMES_CACHED_MAX:
            cached.names.popitem(last=False)

    def _cached_room(self, room: str) -> _CachedMatrixRoom:
        cached = self._rooms.setdefault(room, _CachedMatrixRoom())
        self._rooms.move_to_end(room)
        while len(self._rooms) > ROOMS_CACHED_MAX:
            self._rooms.popitem(last=False)
        return cached
