"""Addresses of conversations on chat platforms, and the platform's description of a received message."""

from __future__ import annotations

import msgspec


class ChatAddress(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """A conversation on a channel: a thread, or without one the room itself."""

    channel: str  # its name in the configuration
    room: str = ""
    thread: str = ""

    def __str__(self) -> str:
        """Return `channel:room[:thread]`: the form users write. It is also the session key under the `thread` policy,
        which has a colon at its end if there is no thread."""
        parts = (self.channel, self.room, self.thread) if self.thread else (self.channel, self.room)
        return ":".join(escape_part(part) for part in parts)

    @classmethod
    def parse(cls, text: str) -> ChatAddress | None:
        """Return the address that `str` produced, or None if the text is not one."""
        channel, _, rest = text.partition(":")
        room, _, thread = rest.partition(":")
        if not channel or not room or ":" in thread:
            return None
        return cls(*(unescape_part(part) for part in (channel, room, thread)))


class ReceivedFile(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """A file that was attached to a received message."""

    original: str  # its name on the platform
    local: str = ""  # path of the downloaded copy; empty: it could not be downloaded


class PlatformMessage(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """A message as its platform delivered it; what the model sees of it is in the parts of the same `Received`."""

    address: ChatAddress
    message: str = ""  # its id on the platform
    user: str = ""  # the sender's id on the platform
    name: str = ""  # the sender's display name
    text: str = ""  # all of it, followed by quoted and forwarded texts: not only the sender's own words
    at: int = 0  # ms
    files: tuple[ReceivedFile, ...] = ()
    direct: bool = False  # a direct message to the agent


WEB_CHANNEL = "web"  # the channel part of session keys that belong to people with an API key
PERSONAL_CHANNELS = (WEB_CHANNEL, "user")  # begin the keys of sessions that belong to one person


def is_room_key(session: str) -> bool:
    """Return True if answers of a session of this name may be posted to a chat room."""
    address = ChatAddress.parse(session)
    return address is not None and address.channel not in PERSONAL_CHANNELS


def escape_part(part: str) -> str:
    """Escape `%` and `:` so that different addresses never have the same key."""
    return part.replace("%", "%25").replace(":", "%3A")


def unescape_part(part: str) -> str:
    """Undo `escape_part`."""
    return part.replace("%3A", ":").replace("%25", "%")
