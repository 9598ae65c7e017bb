"""Message routing: which workspace a room of a channel belongs to, and which person a message is from."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import msgspec

from mainstay.core.channels import ChatChannel, IncomingMessage
from mainstay.core.chat_addresses import ChatAddress
from mainstay.core.people import Person
from mainstay.gateway.people import People

ROOMS_REMEMBERED_MAX = 100_000  # rooms that are remembered in each of the dictionaries below


class ChannelRoutingSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of a channel that the gateway needs."""

    workspace: str  # that its rooms belong to
    rooms: dict[str, str] = {}  # room id → workspace, for rooms that belong to another
    stream: bool = True  # show answers while they are generated, if the platform can edit messages
    backfill: int = 50  # maximal number of missed messages of a thread that are fetched before a prompt
    attachments: bool = True
    attachment_bytes_max: int = 20 * 1024 * 1024


class MessageRoute(msgspec.Struct, frozen=True):
    """The workspace and the person of a message."""

    workspace: str
    person: Person | None  # None: an unknown user, or a person without a role in the workspace


class ChannelRooms:
    """The connected channels and the workspaces of their rooms. Nothing of one workspace is ever received from or
    posted to a room of another."""

    def __init__(self, rules: Mapping[str, ChannelRoutingSettings], people: People) -> None:
        self._rules = dict(rules)
        self._people = people
        self._channels: dict[str, ChatChannel] = {}
        # direct rooms that belong to another workspace than the channel
        self._direct_rooms: dict[tuple[str, str], str] = {}
        self._direct_room_aliases: dict[tuple[str, str], str] = {}  # channel and normalised id of those → their id
        self._direct_people: dict[tuple[str, str], str] = {}  # room of direct messages → the person who writes there
        self._seen_rooms: dict[tuple[str, str], None] = {}  # rooms that messages came from

    def set_rules(self, name: str, rules: ChannelRoutingSettings) -> None:
        """Replace a channel's rules."""
        self._rules[name] = rules

    def add_channel(self, channel: ChatChannel) -> None:
        self._channels[channel.name] = channel

    def remove_channel(self, name: str) -> ChatChannel | None:
        return self._channels.pop(name, None)

    def list_channels(self) -> list[ChatChannel]:
        return list(self._channels.values())

    def get_channel(self, name: str) -> ChatChannel | None:
        return self._channels.get(name) if name in self._rules else None

    def get_rules(self, name: str) -> ChannelRoutingSettings:
        return self._rules[name]

    def has_channel(self, name: str) -> bool:
        return name in self._rules

    def list_workspaces(self) -> list[str]:
        """Return the workspaces that messages may come from or go to."""
        workspaces = [rules.workspace for rules in self._rules.values()]
        workspaces += [workspace for rules in self._rules.values() for workspace in rules.rooms.values()]
        for person in self._people.list_people():
            if any(account.channel in self._rules for account in self._people.list_accounts(person.name)):
                workspaces += person.roles
        return list(dict.fromkeys(workspaces))

    def route_message(self, message: IncomingMessage) -> MessageRoute:
        """Find the workspace and the person of a message. Direct messages of a person without a role in the channel's
        workspace go to the first of the person's own workspaces."""
        address, rules = message.address, self._rules[message.address.channel]
        self._seen_rooms[address.channel, address.room] = None
        _trim_oldest(self._seen_rooms)
        person = self._people.find_by_account(address.channel, message.user)
        workspace = rules.rooms.get(address.room) or rules.workspace
        if message.direct and person is not None and address.room not in rules.rooms:
            if workspace not in person.roles and person.roles:
                workspace = next(iter(person.roles))
            self.assign_direct_room(address, workspace)
        if message.direct:
            self._remember_direct_person(address, person)
        return MessageRoute(workspace, person if person is not None and workspace in person.roles else None)

    def _remember_direct_person(self, address: ChatAddress, person: Person | None) -> None:
        self._direct_people.pop((address.channel, address.room), None)
        if person is not None:
            self._direct_people[address.channel, address.room] = person.name
            _trim_oldest(self._direct_people)

    def find_direct_person(self, address: ChatAddress) -> str:
        """Return the name of the person whose direct messages a room has; "" if it is none, or had none yet."""
        return self._direct_people.get((address.channel, address.room), "")

    def owns_all_channels(self, workspace: str) -> bool:
        """True if all channels belong to this workspace, apart from single rooms."""
        return all(rules.workspace == workspace for rules in self._rules.values())

    def restore_direct_room(self, address: ChatAddress, user: str, workspace: str) -> None:
        """Restore the workspace of a direct room: the one that its user's messages are routed to now; this one if the
        user is not paired any more."""
        if self.route_message(IncomingMessage(id="", address=address, user=user, direct=True)).person is None:
            self.assign_direct_room(address, workspace)

    def assign_direct_room(self, address: ChatAddress, workspace: str) -> None:
        """Remember that the direct messages of a room belong to this workspace."""
        self._direct_rooms.pop((address.channel, address.room), None)
        if self._rules[address.channel].workspace != workspace:
            self._direct_rooms[address.channel, address.room] = workspace
            self._direct_room_aliases[address.channel, _normalise_room(address.room)] = address.room
            _trim_oldest(self._direct_rooms)
            _trim_oldest(self._direct_room_aliases)

    def workspace_of(self, address: ChatAddress) -> str | None:
        """Return the workspace that a room belongs to; None if it belongs to none or its channel is not connected."""
        rules = self._rules.get(address.channel)
        if rules is None or address.channel not in self._channels:
            return None
        assigned = rules.rooms.get(address.room) or self._direct_rooms.get((address.channel, address.room))
        return assigned or (None if self._is_alias(address, rules) else rules.workspace)

    def _is_alias(self, address: ChatAddress, rules: ChannelRoutingSettings) -> bool:
        """True if an id that no message came from may be another spelling of a room that is assigned to a workspace.

        Addresses also come from tools and session names, and some platforms take `1_2` for the room `12`. Such an id
        belongs to no workspace.
        """
        if (address.channel, address.room) in self._seen_rooms:
            return False
        form = _normalise_room(address.room)
        return (address.channel, form) in self._direct_room_aliases or any(
            _normalise_room(room) == form for room in rules.rooms
        )

    def session_address(self, workspace: str, session: str) -> ChatAddress | None:
        """Return the chat address in a session's key; None if it is no room of this workspace."""
        address = ChatAddress.parse(session)
        return address if address is not None and self.workspace_of(address) == workspace else None


@lru_cache(maxsize=4096)
def _normalise_room(room: str) -> str:
    """Return a room id as a lenient platform may read it: without differences in width, case, or a number's format."""
    plain = unicodedata.normalize("NFKC", room).casefold().strip()
    try:
        return str(int(plain))
    except ValueError:
        return plain


def _trim_oldest(rooms: dict[tuple[str, str], Any]) -> None:
    while len(rooms) > ROOMS_REMEMBERED_MAX:
        del rooms[next(iter(rooms))]
