"""Messages of Discord's, as the library has them, and as a channel tells them."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from mainstay.core.addresses import Address
from mainstay.core.channels import Attached, Incoming

THREADS = (10, 11, 12)  # types of channels that are threads
DIRECT = 1
SAYING = (0, 19)  # types of messages: somebody says something, or answers
FILES_MAX = 20
NAME_CHARS_MAX = 100


class Place(msgspec.Struct, frozen=True):
    """A channel of Discord's: a room, a thread in one, or a talk of two."""

    room: str
    thread: str = ""
    direct: bool = False


def place_of(id: int, kind: int | None, parent: int | None) -> Place:
    if kind in THREADS and parent:
        return Place(str(parent), str(id))
    return Place(str(id), direct=kind == DIRECT)


def message_of(message: Any, us: int, channel: str, place: Place) -> Incoming | None:
    """None for what nobody said: that somebody came, that a thread was begun. In a room a message that names us begins
    a thread of its own: Discord gives a thread the id of the message that it begins with."""
    if message.type.value not in SAYING:
        return None
    text, called = without_mention(str(message.content or ""), us)
    mentioned = called or any(one.id == us for one in message.mentions)
    thread = place.thread
    if not thread and mentioned and not place.direct:
        thread = str(message.id)
    return Incoming(
        id=str(message.id),
        address=Address(channel, place.room, thread),
        user=str(message.author.id),
        name=" ".join(str(message.author.display_name).split())[:NAME_CHARS_MAX],
        text=text,
        at=int(message.created_at.timestamp() * 1000),
        direct=place.direct,
        mentioned=mentioned,
        own=message.author.id == us,
        files=tuple(_attached(one) for one in message.attachments[:FILES_MAX]),
    )


def _attached(file: Any) -> Attached:
    return Attached(
        ref=str(file.url), name=str(file.filename), mime=file.content_type or "", size=max(0, file.size or 0)
    )


def without_mention(text: str, us: int) -> tuple[str, bool]:
    """The text without our name at its beginning, and whether it was there."""
    found = re.match(rf"\s*<@!?{us}>\s*[:,]?\s*", text)
    return (text[found.end() :], True) if found else (text, False)
