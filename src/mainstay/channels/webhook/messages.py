"""What is posted, both ways.

to us    {"id", "room", "thread", "user", "name", "text", "at", "direct", "mentioned", "files": [{"url", "name"}]}
         of which room and user must be there, and text or files
by us    {"key", "room", "thread", "text", "files": [{"name", "mime", "data"}]}, the data in base64; an empty thread:
         the room itself. The answer may be {"id", "thread"}: what the message is called there, and where answers to
         it belong; both are the key, if nothing is said.
"""

from __future__ import annotations

import msgspec

from mainstay.core.addresses import Address
from mainstay.core.channels import Attached, Incoming, Sent
from mainstay.core.errors import InputRefused

NAME_CHARS_MAX = 200  # of ids, rooms, threads and people: they name sessions
FILES_MAX = 20
_AT_MAX = 1 << 53  # ms


class GivenFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    url: str
    name: str = ""


class Given(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What somebody posts to us."""

    room: str
    user: str
    id: str = ""  # empty: the same signed content is the same message
    thread: str = ""
    name: str = ""
    text: str = ""
    at: int = 0  # ms; 0: when it was signed
    direct: bool = False
    mentioned: bool = False
    files: tuple[GivenFile, ...] = ()


class File(msgspec.Struct, frozen=True):
    name: str
    mime: str
    data: bytes


class Posted(msgspec.Struct, frozen=True, kw_only=True):
    """What we post."""

    key: str
    room: str
    thread: str
    text: str
    files: tuple[File, ...] = ()


class Taken(msgspec.Struct, frozen=True):
    """What may be answered to that."""

    id: str = ""
    thread: str = ""


_given = msgspec.json.Decoder(Given)
_taken = msgspec.json.Decoder(Taken)


def read_given(channel: str, body: bytes, *, signed_at: int, nonce: str) -> Incoming:
    """Raises InputRefused."""
    try:
        given = _given.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InputRefused(f"this is not a message: {error}") from None
    for what in ("room", "user", "id", "thread", "name"):
        _check_name(what, getattr(given, what))
    if not given.room or not given.user:
        raise InputRefused("a message needs a room and a user")
    if not given.text.strip() and not given.files:
        raise InputRefused("the message is empty")
    if len(given.files) > FILES_MAX or not 0 <= given.at <= _AT_MAX:
        raise InputRefused(f"a message has at most {FILES_MAX} files, and was said at some time since 1970")
    id = given.id or f"hash:{nonce}"
    thread = given.thread or ("" if given.direct else id)  # what is said in a room may begin a thread
    return Incoming(
        id=id,
        address=Address(channel, given.room, thread),
        user=given.user,
        name=given.name,
        text=given.text,
        at=given.at or signed_at,
        direct=given.direct,
        mentioned=given.mentioned,
        files=tuple(Attached(ref=one.url, name=one.name) for one in given.files),
    )


def read_taken(body: bytes, posted: Posted) -> Sent:
    """Whoever answers in another way than ours has taken it all the same."""
    try:
        taken = _taken.decode(body)
        _check_name("id", taken.id)
        _check_name("thread", taken.thread)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, InputRefused):
        taken = Taken()
    id = taken.id or posted.key
    return Sent(id=id, thread=taken.thread or posted.thread or id)


def _check_name(what: str, name: str) -> None:
    if len(name) > NAME_CHARS_MAX or not name.isprintable() or name != name.strip():
        raise InputRefused(f"{what} has at most {NAME_CHARS_MAX} characters, no line breaks, and no spaces at its ends")
