"""Where something was said on a chat platform, and by whom, as the platform knows them."""

from __future__ import annotations

import msgspec


class Address(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """A conversation on a channel. Without a thread: the room itself."""

    channel: str  # as it is configured
    room: str = ""
    thread: str = ""

    def __str__(self) -> str:
        """As people and tools write it; a session's key, where that is by thread (core/envelope)."""
        parts = (self.channel, self.room, self.thread) if self.thread else (self.channel, self.room)
        return ":".join(plain(part) for part in parts)

    @classmethod
    def parse(cls, text: str) -> Address | None:
        """None if that is none."""
        channel, _, rest = text.partition(":")
        room, _, thread = rest.partition(":")
        if not channel or not room or ":" in thread:
            return None
        return cls(*(named(part) for part in (channel, room, thread)))


class FileSaid(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """A file that came with a message: what it was called there, and where it is kept; empty: it could not be had."""

    original: str
    local: str = ""


class Heard(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """A message as its platform told it. What the agent made of it stands in the parts beside this."""

    address: Address
    message: str = ""  # its id there
    user: str = ""
    name: str = ""
    text: str = ""  # as it was written, where the parts say more
    at: int = 0  # ms
    files: tuple[FileSaid, ...] = ()
    direct: bool = False  # to us alone


def plain(part: str) -> str:
    """So that no two places have the same key, whatever their names contain."""
    return part.replace("%", "%25").replace(":", "%3A")


def named(part: str) -> str:
    """And back."""
    return part.replace("%3A", ":").replace("%25", "%")
