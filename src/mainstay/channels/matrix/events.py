"""What a homeserver tells, decoded: events of others, who may write into them whatever they like.

Each event is decoded alone and each part of its content too, so that a bad one is left out and spoils nothing else.
"""

from __future__ import annotations

import re
import time
from typing import Any, TypeVar

import msgspec

from mainstay.core.addresses import Address
from mainstay.core.channels import Attached, Incoming

T = TypeVar("T")
NAME_CHARS_MAX = 100
ID_CHARS_MAX = 255
FILES = ("m.image", "m.file", "m.audio", "m.video")
SAYING = ("m.text", "m.emote", *FILES)
NOTICE = "m.notice"  # what programs say; nobody should answer it
MXC = re.compile(r"mxc://([A-Za-z0-9.:\[\]-]{1,255})/([A-Za-z0-9_-]{1,255})")
_EMPTY = msgspec.Raw(b"{}")


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """An event of a room; only its frame is checked yet."""

    type: str
    event_id: str = ""
    sender: str = ""
    origin_server_ts: int = 0
    state_key: str | None = None
    content: msgspec.Raw = _EMPTY
    unsigned: msgspec.Raw = _EMPTY


class Timeline(msgspec.Struct, frozen=True, kw_only=True):
    events: list[msgspec.Raw] = []
    limited: bool = False  # there was more than is told
    prev_batch: str = ""


class Events(msgspec.Struct, frozen=True, kw_only=True):
    events: list[msgspec.Raw] = []


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    joined: int | None = msgspec.field(default=None, name="m.joined_member_count")


class Joined(msgspec.Struct, frozen=True, kw_only=True):
    timeline: Timeline = Timeline()
    state: Events = Events()
    summary: msgspec.Raw = _EMPTY


class Invited(msgspec.Struct, frozen=True, kw_only=True):
    invite_state: Events = Events()


class SyncedRooms(msgspec.Struct, frozen=True, kw_only=True):
    join: dict[str, Joined] = {}
    invite: dict[str, Invited] = {}
    leave: dict[str, msgspec.Raw] = {}


class Synced(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to /sync."""

    next_batch: str
    rooms: SyncedRooms = SyncedRooms()
    account_data: Events = Events()


class Page(msgspec.Struct, frozen=True, kw_only=True):
    """The answers to /messages and /relations."""

    chunk: list[msgspec.Raw] = []
    end: str = ""
    next_batch: str = ""


class Member(msgspec.Struct, frozen=True, kw_only=True):
    membership: str = ""
    displayname: str | None = None


class Us(msgspec.Struct, frozen=True):
    """Who we are on this homeserver."""

    user: str
    called: str = ""


class Place(msgspec.Struct, frozen=True):
    """The room that something was said in."""

    channel: str
    room: str
    direct: bool = False


class _Message(msgspec.Struct, frozen=True, kw_only=True):
    msgtype: str
    body: str = ""
    filename: msgspec.Raw = msgspec.Raw(b'""')
    url: msgspec.Raw = msgspec.Raw(b'""')
    info: msgspec.Raw = _EMPTY
    mentions: msgspec.Raw = msgspec.field(default=_EMPTY, name="m.mentions")
    relates: msgspec.Raw = msgspec.field(default=_EMPTY, name="m.relates_to")


class _Info(msgspec.Struct, frozen=True, kw_only=True):
    mimetype: str = ""
    size: int = 0


class _Mentions(msgspec.Struct, frozen=True, kw_only=True):
    user_ids: list[str] = []


class _ReplyTo(msgspec.Struct, frozen=True, kw_only=True):
    event_id: str = ""


class _Relates(msgspec.Struct, frozen=True, kw_only=True):
    rel_type: str = ""
    event_id: str = ""
    is_falling_back: bool = False
    reply: _ReplyTo = msgspec.field(default=_ReplyTo(), name="m.in_reply_to")


class _Edited(msgspec.Struct, frozen=True, kw_only=True):
    content: msgspec.Raw = _EMPTY
    new: msgspec.Raw = msgspec.field(default=_EMPTY, name="m.new_content")


class _Relations(msgspec.Struct, frozen=True, kw_only=True):
    replace: _Edited = msgspec.field(default=_Edited(), name="m.replace")


class _Unsigned(msgspec.Struct, frozen=True, kw_only=True):
    prev_content: msgspec.Raw = _EMPTY
    relations: msgspec.Raw = msgspec.field(default=_EMPTY, name="m.relations")


def read(raw: msgspec.Raw | bytes, into: type[T], otherwise: T) -> T:
    """What it says, or `otherwise` if that is not of this shape."""
    try:
        return msgspec.json.decode(raw, type=into)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return otherwise


_NONE = Event(type="")


def events_of(raws: list[msgspec.Raw]) -> list[Event]:
    """Those that are events."""
    return [event for raw in raws if (event := read(raw, Event, _NONE)).type]


# --- messages ------------------------------------------------------------------------------------


def message_of(event: Event, us: Us, place: Place, name: str = "", *, notices: bool = False) -> Incoming | None:
    """None for what is no message: an edit, a reaction, something that was taken back or makes no sense. In a room a
    message that names us begins a thread of its own."""
    if event.type != "m.room.message" or not _is_id(event.event_id) or not event.sender:
        return None
    content = read(_newest(event), _Message, _Message(msgtype=""))
    if content.msgtype not in SAYING and not (notices and content.msgtype == NOTICE):
        return None
    relates = read(read(event.content, _Message, content).relates, _Relates, _Relates())
    if relates.rel_type == "m.replace":
        return None
    text, files = _parts(content)
    if relates.reply.event_id and not relates.is_falling_back:
        text = _without_quote(text)
    text, called = _without_mention(text, us)
    mentioned = called or us.user in read(content.mentions, _Mentions, _Mentions()).user_ids
    thread = relates.event_id if relates.rel_type == "m.thread" and _is_id(relates.event_id) else ""
    if not thread and mentioned and not place.direct:
        thread = event.event_id
    return Incoming(
        id=event.event_id,
        address=Address(place.channel, place.room, thread),
        user=event.sender,
        name=shown_name(name) or event.sender,
        text=text,
        at=time_of(event),
        direct=place.direct,
        mentioned=mentioned,
        own=event.sender == us.user,
        files=files,
    )


def thread_of(event: Event) -> str:
    """The thread that an event says it is in."""
    relates = read(read(event.content, _Message, _Message(msgtype="")).relates, _Relates, _Relates())
    return relates.event_id if relates.rel_type == "m.thread" else ""


def time_of(event: Event) -> int:
    """When it was said, in ms: by the word of whoever's server sent it, so never later than now."""
    return max(0, min(event.origin_server_ts, int(time.time() * 1000)))


def _newest(event: Event) -> msgspec.Raw:
    """Its content, as it was last edited where the homeserver tells that along."""
    unsigned = read(event.unsigned, _Unsigned, _Unsigned())
    edited = read(unsigned.relations, _Relations, _Relations()).replace.content
    new = read(edited, _Edited, _Edited()).new
    return new if bytes(new) != b"{}" else event.content


def _parts(content: _Message) -> tuple[str, tuple[Attached, ...]]:
    """What is said, and the file that it comes with. A file's body is its name, unless it has another beside it."""
    if content.msgtype not in FILES:
        return content.body, ()
    ref, filename = read(content.url, str, ""), read(content.filename, str, "")
    text = content.body if filename and filename != content.body else ""
    if not MXC.fullmatch(ref):
        return text, ()
    info = read(content.info, _Info, _Info())
    name = (filename or content.body)[:ID_CHARS_MAX]
    return text, (Attached(ref=ref, name=name, mime=info.mimetype[:ID_CHARS_MAX], size=max(0, info.size)),)


def _without_quote(text: str) -> str:
    """Older clients put what a reply answers to above it, as a quotation of their own making."""
    if not text.startswith("> <") and not text.startswith("> * <"):
        return text
    lines = text.split("\n")
    quoted = next((n for n, line in enumerate(lines) if not line.startswith(">")), len(lines))
    return "\n".join(lines[quoted:]).removeprefix("\n")


def _without_mention(text: str, us: Us) -> tuple[str, bool]:
    """The text without our name at its beginning, and whether it was there."""
    local = us.user.partition(":")[0]  # with its @
    ids = "|".join(re.escape(one) for one in (us.user, local))
    link = rf"\[[^\]\n]{{0,200}}\]\(<?https://matrix\.to/#/{re.escape(us.user)}>?\)"
    found = re.match(rf"\s*(?:{link}|(?:{ids})(?![\w.=/+-]))\s*[:,]?\s*", text, re.IGNORECASE)
    if found is None and us.called:  # a name can be a word like others: it is ours if it is followed like one
        name = re.escape(us.called)
        found = re.match(rf"\s*(?:@{name}(?!\w)\s*[:,]?|{name}\s*[:,])\s*", text, re.IGNORECASE)
    if found is None:
        return text, False
    return text[found.end() :], True


def _is_id(text: str) -> bool:
    return text.startswith("$") and len(text) <= ID_CHARS_MAX


def shown_name(name: str | None) -> str:
    """On one line, and not too long."""
    return " ".join((name or "").split())[:NAME_CHARS_MAX]


# --- rooms ---------------------------------------------------------------------------------------


def inviter_of(invited: Invited, us: Us) -> str:
    """Who asks us to come; empty if nobody does."""
    for event in events_of(invited.invite_state.events):
        if event.type == "m.room.member" and event.state_key == us.user:
            return event.sender if read(event.content, Member, Member()).membership == "invite" else ""
    return ""


def since_we_came(events: list[Event], us: Us) -> tuple[list[Event], bool]:
    """Those from when we were asked to come, and whether we came among them: what was said before was not for us."""
    start, came = 0, False
    asked: int | None = None
    for number, event in enumerate(events):
        if event.type != "m.room.member" or event.state_key != us.user:
            continue
        now = read(event.content, Member, Member()).membership
        before = read(read(event.unsigned, _Unsigned, _Unsigned()).prev_content, Member, Member()).membership
        if now == "invite":
            asked = number
        elif now == "join" and before != "join":
            start, came = number if asked is None else asked, True
    return events[start:], came


def direct_rooms(event: Event) -> frozenset[str]:
    """Rooms that our account has put down as talks with one other."""
    by_user: dict[str, Any] = read(event.content, dict[str, Any], {})
    return frozenset(
        room for rooms in by_user.values() if isinstance(rooms, list) for room in rooms if isinstance(room, str)
    )
