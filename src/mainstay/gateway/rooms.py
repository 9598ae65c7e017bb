"""Which room of a channel is whose: the workspace it belongs to, and who somebody is there."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import msgspec

from mainstay.core.addresses import Address
from mainstay.core.channels import ChatChannel, Incoming
from mainstay.core.people import Person
from mainstay.gateway.people import People

LEARNT_MAX = 100_000  # direct rooms of people who are not of their channel's own workspace; rooms that were heard of


class ChannelRules(msgspec.Struct, frozen=True, kw_only=True):
    """How a channel is used."""

    workspace: str  # whose its rooms are
    rooms: dict[str, str] = {}  # but for these, by their ids
    stream: bool = True  # an answer is shown while it is written, where messages can be edited
    backfill: int = 50  # messages of a thread that are caught up with at most
    attachments: bool = True
    attachment_bytes_max: int = 20 * 1024 * 1024


class Place(msgspec.Struct, frozen=True):
    """Where a message belongs, and who said it; None: a stranger, there."""

    workspace: str
    person: Person | None


class Rooms:
    """The connected channels. Nothing of one workspace is ever heard or posted in a room of another."""

    def __init__(self, rules: Mapping[str, ChannelRules], people: People) -> None:
        self._rules = dict(rules)
        self._people = people
        self._channels: dict[str, ChatChannel] = {}
        self._learnt: dict[tuple[str, str], str] = {}
        self._forms: dict[tuple[str, str], str] = {}  # of those: how they are written, by what it comes to
        self._heard: dict[tuple[str, str], None] = {}  # rooms that the platforms themselves have named

    def use(self, name: str, rules: ChannelRules) -> None:
        """From now on these."""
        self._rules[name] = rules

    def connect(self, channel: ChatChannel) -> None:
        self._channels[channel.name] = channel

    def disconnect(self, name: str) -> ChatChannel | None:
        return self._channels.pop(name, None)

    def channels(self) -> list[ChatChannel]:
        return list(self._channels.values())

    def channel(self, name: str) -> ChatChannel | None:
        return self._channels.get(name) if name in self._rules else None

    def rules(self, name: str) -> ChannelRules:
        return self._rules[name]

    def known(self, name: str) -> bool:
        return name in self._rules

    def workspaces(self) -> list[str]:
        """Those that something may come from or go to."""
        found = [rules.workspace for rules in self._rules.values()]
        found += [room for rules in self._rules.values() for room in rules.rooms.values()]
        for person in self._people.everybody():
            if any(one.channel in self._rules for one in self._people.accounts_of(person.name)):
                found += person.roles
        return list(dict.fromkeys(found))

    def place(self, message: Incoming) -> Place:
        """A person's direct messages go to their own first workspace, if they are not of the channel's."""
        at, rules = message.address, self._rules[message.address.channel]
        self._heard[at.channel, at.room] = None
        _bound(self._heard)
        person = self._people.who(at.channel, message.user)
        workspace = rules.rooms.get(at.room) or rules.workspace
        if message.direct and person is not None and at.room not in rules.rooms:
            if workspace not in person.roles and person.roles:
                workspace = next(iter(person.roles))
            self.learn(at, workspace)
        return Place(workspace, person if person is not None and workspace in person.roles else None)

    def has_all(self, workspace: str) -> bool:
        """Whatever room nobody else has is this workspace's."""
        return all(rules.workspace == workspace for rules in self._rules.values())

    def recall(self, at: Address, user: str, workspace: str) -> None:
        """Somebody of this workspace has spoken to us alone in this room."""
        if self.place(Incoming(id="", address=at, user=user, direct=True)).person is None:
            self.learn(at, workspace)

    def learn(self, at: Address, workspace: str) -> None:
        """What is said to us alone in this room is of this workspace."""
        self._learnt.pop((at.channel, at.room), None)
        if self._rules[at.channel].workspace != workspace:
            self._learnt[at.channel, at.room] = workspace
            self._forms[at.channel, _form(at.room)] = at.room
            _bound(self._learnt)
            _bound(self._forms)

    def whose(self, at: Address) -> str | None:
        """The workspace that this room belongs to; None: nobody's, or the channel is not connected."""
        rules = self._rules.get(at.channel)
        if rules is None or at.channel not in self._channels:
            return None
        known = rules.rooms.get(at.room) or self._learnt.get((at.channel, at.room))
        return known or (None if self._is_alias(at, rules) else rules.workspace)

    def _is_alias(self, at: Address, rules: ChannelRules) -> bool:
        """An address may be a tool's word, or a session's name. To some platforms `1_2` is the room `12`: what only
        comes to a room that is another's is nobody's."""
        if (at.channel, at.room) in self._heard:
            return False
        form = _form(at.room)
        return (at.channel, form) in self._forms or any(_form(room) == form for room in rules.rooms)

    def address(self, workspace: str, session: str) -> Address | None:
        """Where a session of this workspace is, by its key; None: nowhere that it could be answered."""
        at = Address.parse(session)
        return at if at is not None and self.whose(at) == workspace else None


@lru_cache(maxsize=4096)
def _form(room: str) -> str:
    """What a platform may make of it that reads it with an open mind: width, case, signs and zeros of a number."""
    plain = unicodedata.normalize("NFKC", room).casefold().strip()
    try:
        return str(int(plain))
    except ValueError:
        return plain


def _bound(kept: dict[tuple[str, str], Any]) -> None:
    while len(kept) > LEARNT_MAX:
        del kept[next(iter(kept))]
