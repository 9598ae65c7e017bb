"""Decodes Matrix sync responses and events, which other users may have malformed, into incoming messages.

Each event, and each part of its content, is decoded separately, so that a malformed one is ignored without affecting
the others.
"""

from __future__ import annotations

import re
import time
from typing import Any, TypeVar

import msgspec

from mainstay.core.channels import IncomingFile, IncomingMessage, QuotedText
from mainstay.core.chat_addresses import ChatAddress
from mainstay.core.quoted_lines import separate_quoted_lines

T = TypeVar("T")
NAME_CHARS_MAX = 100
ID_CHARS_MAX = 255
FILE_MESSAGE_TYPES = ("m.image", "m.file", "m.audio", "m.video")
USER_MESSAGE_TYPES = ("m.text", "m.emote", *FILE_MESSAGE_TYPES)
NOTICE_MESSAGE_TYPE = "m.notice"  # messages of bots, which must not be answered
MXC_URI = re.compile(r"mxc://([A-Za-z0-9.:\[\]-]{1,255})/([A-Za-z0-9_-]{1,255})")
_EMPTY_OBJECT = msgspec.Raw(b"{}")
_FALLBACK_AUTHOR = re.compile(r"(?:\* ?)?<([^<>\n]{1,255})> ?")


class MatrixEvent(msgspec.Struct, frozen=True, kw_only=True):
    """An event of a room. Its content is not decoded yet."""

    type: str
    event_id: str = ""
    sender: str = ""
    origin_server_ts: int = 0
    state_key: str | None = None
    content: msgspec.Raw = _EMPTY_OBJECT
    unsigned: msgspec.Raw = _EMPTY_OBJECT


class MatrixTimeline(msgspec.Struct, frozen=True, kw_only=True):
    events: list[msgspec.Raw] = []
    limited: bool = False  # the response omits earlier events
    prev_batch: str = ""


class MatrixEventList(msgspec.Struct, frozen=True, kw_only=True):
    events: list[msgspec.Raw] = []


class MatrixRoomSummary(msgspec.Struct, frozen=True, kw_only=True):
    joined_count: int | None = msgspec.field(default=None, name="m.joined_member_count")


class MatrixJoinedRoom(msgspec.Struct, frozen=True, kw_only=True):
    timeline: MatrixTimeline = MatrixTimeline()
    state: MatrixEventList = MatrixEventList()
    summary: msgspec.Raw = _EMPTY_OBJECT


class MatrixInvitedRoom(msgspec.Struct, frozen=True, kw_only=True):
    invite_state: MatrixEventList = MatrixEventList()


class MatrixSyncRooms(msgspec.Struct, frozen=True, kw_only=True):
    join: dict[str, MatrixJoinedRoom] = {}
    invite: dict[str, MatrixInvitedRoom] = {}
    leave: dict[str, msgspec.Raw] = {}


class MatrixSyncResponse(msgspec.Struct, frozen=True, kw_only=True):
    """The response of /sync."""

    next_batch: str
    rooms: MatrixSyncRooms = MatrixSyncRooms()
    account_data: MatrixEventList = MatrixEventList()


class MatrixEventPage(msgspec.Struct, frozen=True, kw_only=True):
    """The response of /messages and /relations."""

    chunk: list[msgspec.Raw] = []
    end: str = ""
    next_batch: str = ""


class MatrixMember(msgspec.Struct, frozen=True, kw_only=True):
    membership: str = ""
    displayname: str | None = None


class MatrixRoomName(msgspec.Struct, frozen=True, kw_only=True):
    name: str = ""


class MatrixIdentity(msgspec.Struct, frozen=True):
    """The user id and display name of the channel's own account."""

    user: str
    display_name: str = ""


class MatrixEventRoom(msgspec.Struct, frozen=True):
    """The room of an event."""

    channel: str
    room: str
    direct: bool = False
    name: str = ""


class _MatrixMessage(msgspec.Struct, frozen=True, kw_only=True):
    msgtype: str
    body: str = ""
    filename: msgspec.Raw = msgspec.Raw(b'""')
    url: msgspec.Raw = msgspec.Raw(b'""')
    info: msgspec.Raw = _EMPTY_OBJECT
    mentions: msgspec.Raw = msgspec.field(default=_EMPTY_OBJECT, name="m.mentions")
    relates_to: msgspec.Raw = msgspec.field(default=_EMPTY_OBJECT, name="m.relates_to")


class _MatrixFileInfo(msgspec.Struct, frozen=True, kw_only=True):
    mimetype: str = ""
    size: int = 0


class _MatrixMentions(msgspec.Struct, frozen=True, kw_only=True):
    user_ids: list[str] = []


class _MatrixReplyTo(msgspec.Struct, frozen=True, kw_only=True):
    event_id: str = ""


class _MatrixRelation(msgspec.Struct, frozen=True, kw_only=True):
    rel_type: str = ""
    event_id: str = ""
    is_falling_back: bool = False
    in_reply_to: _MatrixReplyTo = msgspec.field(default=_MatrixReplyTo(), name="m.in_reply_to")


class _MatrixEdit(msgspec.Struct, frozen=True, kw_only=True):
    content: msgspec.Raw = _EMPTY_OBJECT
    new_content: msgspec.Raw = msgspec.field(default=_EMPTY_OBJECT, name="m.new_content")


class _MatrixBundledRelations(msgspec.Struct, frozen=True, kw_only=True):
    replace: _MatrixEdit = msgspec.field(default=_MatrixEdit(), name="m.replace")


class _MatrixUnsigned(msgspec.Struct, frozen=True, kw_only=True):
    prev_content: msgspec.Raw = _EMPTY_OBJECT
    relations: msgspec.Raw = msgspec.field(default=_EMPTY_OBJECT, name="m.relations")


def decode_json(raw: msgspec.Raw | bytes, target_type: type[T], default: T) -> T:
    """Decode JSON, or return `default` if it does not have this type."""
    try:
        return msgspec.json.decode(raw, type=target_type)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return default


_NO_EVENT = MatrixEvent(type="")


def decode_events(raws: list[msgspec.Raw]) -> list[MatrixEvent]:
    """Decode events and skip malformed ones."""
    return [event for raw in raws if (event := decode_json(raw, MatrixEvent, _NO_EVENT)).type]


# --- messages ------------------------------------------------------------------------------------


def decode_message(
    event: MatrixEvent,
    identity: MatrixIdentity,
    location: MatrixEventRoom,
    name: str = "",
    *,
    include_notices: bool = False,
) -> IncomingMessage | None:
    """Return None for events that are not messages (an edit, a reaction, a redacted or malformed event). In a room a
    message that mentions the account begins a thread."""
    if event.type != "m.room.message" or not _is_event_id(event.event_id) or not event.sender:
        return None
    content = decode_json(_latest_content(event), _MatrixMessage, _MatrixMessage(msgtype=""))
    if content.msgtype not in USER_MESSAGE_TYPES and not (include_notices and content.msgtype == NOTICE_MESSAGE_TYPE):
        return None
    relates = decode_json(
        decode_json(event.content, _MatrixMessage, content).relates_to, _MatrixRelation, _MatrixRelation()
    )
    if relates.rel_type == "m.replace":
        return None
    text, files = _text_and_files(content)
    quoted: tuple[QuotedText, ...] = ()
    if relates.in_reply_to.event_id and not relates.is_falling_back:
        text, quoted = _separate_reply_fallback(text, identity)
    text, is_addressed = _strip_mention(text, identity)
    is_listed = identity.user in decode_json(content.mentions, _MatrixMentions, _MatrixMentions()).user_ids
    mentioned = is_addressed or (is_listed and not _is_mentioned_in_quote(text, quoted, identity))
    thread = relates.event_id if relates.rel_type == "m.thread" and _is_event_id(relates.event_id) else ""
    if not thread and mentioned and not location.direct:
        thread = event.event_id
    return IncomingMessage(
        id=event.event_id,
        address=ChatAddress(location.channel, location.room, thread),
        user=event.sender,
        name=format_name(name) or event.sender,
        text=text,
        at=event_time_ms(event),
        direct=location.direct,
        mentioned=mentioned,
        own=event.sender == identity.user,
        files=files,
        quoted=quoted,
        room_name=location.name,
    )


def find_thread_id(event: MatrixEvent) -> str:
    """Return the thread of an event; empty: none."""
    relates = decode_json(
        decode_json(event.content, _MatrixMessage, _MatrixMessage(msgtype="")).relates_to,
        _MatrixRelation,
        _MatrixRelation(),
    )
    return relates.event_id if relates.rel_type == "m.thread" else ""


def event_time_ms(event: MatrixEvent) -> int:
    """Return the event's time in ms. The sender's server sets it, so it is capped at the current time."""
    return max(0, min(event.origin_server_ts, int(time.time() * 1000)))


def _latest_content(event: MatrixEvent) -> msgspec.Raw:
    """Return the content of the latest edit if the homeserver included it, else the event's own."""
    unsigned = decode_json(event.unsigned, _MatrixUnsigned, _MatrixUnsigned())
    edited = decode_json(unsigned.relations, _MatrixBundledRelations, _MatrixBundledRelations()).replace.content
    new = decode_json(edited, _MatrixEdit, _MatrixEdit()).new_content
    return new if bytes(new) != b"{}" else event.content


def _text_and_files(content: _MatrixMessage) -> tuple[str, tuple[IncomingFile, ...]]:
    """Return the text and the attachment. A file's body is its name, or a caption if `filename` is another name."""
    if content.msgtype not in FILE_MESSAGE_TYPES:
        return content.body, ()
    ref, filename = decode_json(content.url, str, ""), decode_json(content.filename, str, "")
    text = content.body if filename and filename != content.body else ""
    if not MXC_URI.fullmatch(ref):
        return text, ()
    info = decode_json(content.info, _MatrixFileInfo, _MatrixFileInfo())
    name = (filename or content.body)[:ID_CHARS_MAX]
    return text, (IncomingFile(ref=ref, name=name, mime=info.mimetype[:ID_CHARS_MAX], size=max(0, info.size)),)


def _separate_reply_fallback(text: str, identity: MatrixIdentity) -> tuple[str, tuple[QuotedText, ...]]:
    """Separate the reply fallback: older clients put a quote of the replied message above a reply. A quote of the
    account's own message is left out, because the session has it."""
    if not text.startswith("> <") and not text.startswith("> * <"):
        return text, ()
    lines = text.split("\n")
    first_line = next((n for n, line in enumerate(lines) if not line.startswith(">")), len(lines))
    fallback = separate_quoted_lines("\n".join(lines[:first_line]))[1]
    author = _FALLBACK_AUTHOR.match(fallback)
    user, quoted = (author[1], fallback[author.end() :]) if author is not None else ("", fallback)
    rest = "\n".join(lines[first_line:]).removeprefix("\n")
    return rest, () if user == identity.user else (QuotedText(quoted, "quote", format_name(user)),)


def _is_mentioned_in_quote(text: str, quoted: tuple[QuotedText, ...], identity: MatrixIdentity) -> bool:
    """Return whether quoted text alone names the account. A reply to the account's message names it nowhere."""
    typed, quoted_lines = separate_quoted_lines(text)
    names = [
        identity.user,
        identity.user.partition(":")[0],
        *([identity.display_name] if identity.display_name else []),
    ]
    pattern = re.compile("|".join(rf"(?<!\w){re.escape(name)}(?!\w)" for name in names), re.IGNORECASE)
    quotes = "\n".join((quoted_lines, *(entry.text for entry in quoted)))
    return pattern.search(quotes) is not None and pattern.search(typed) is None


def _strip_mention(text: str, identity: MatrixIdentity) -> tuple[str, bool]:
    """Return the text without a leading mention of the account, and whether there was one."""
    local_part = identity.user.partition(":")[0]  # with its @
    ids = "|".join(re.escape(id) for id in (identity.user, local_part))
    link = rf"\[[^\]\n]{{0,200}}\]\(<?https://matrix\.to/#/{re.escape(identity.user)}>?\)"
    match = re.match(rf"\s*(?:{link}|(?:{ids})(?![\w.=/+-]))\s*[:,]?\s*", text, re.IGNORECASE)
    # a name may be an ordinary word: it is a mention only with @ or punctuation
    if match is None and identity.display_name:
        name = re.escape(identity.display_name)
        match = re.match(rf"\s*(?:@{name}(?!\w)\s*[:,]?|{name}\s*[:,])\s*", text, re.IGNORECASE)
    if match is None:
        return text, False
    return text[match.end() :], True


def _is_event_id(text: str) -> bool:
    return text.startswith("$") and len(text) <= ID_CHARS_MAX


def format_name(name: str | None) -> str:
    """Return the display name on one line, truncated to NAME_CHARS_MAX."""
    return " ".join((name or "").split())[:NAME_CHARS_MAX]


# --- rooms ---------------------------------------------------------------------------------------


def find_inviter(invited: MatrixInvitedRoom, identity: MatrixIdentity) -> str:
    """Return the user who invited the account; empty if there is no invitation."""
    for event in decode_events(invited.invite_state.events):
        if event.type == "m.room.member" and event.state_key == identity.user:
            return (
                event.sender if decode_json(event.content, MatrixMember, MatrixMember()).membership == "invite" else ""
            )
    return ""


def events_since_invite(events: list[MatrixEvent], identity: MatrixIdentity) -> tuple[list[MatrixEvent], bool]:
    """Return the events since the account was invited, and whether it joined among them. Earlier ones are skipped,
    because they were not addressed to it."""
    start, has_joined = 0, False
    invited_at: int | None = None
    for number, event in enumerate(events):
        if event.type != "m.room.member" or event.state_key != identity.user:
            continue
        membership = decode_json(event.content, MatrixMember, MatrixMember()).membership
        previous = decode_json(
            decode_json(event.unsigned, _MatrixUnsigned, _MatrixUnsigned()).prev_content, MatrixMember, MatrixMember()
        ).membership
        if membership == "invite":
            invited_at = number
        elif membership == "join" and previous != "join":
            start, has_joined = number if invited_at is None else invited_at, True
    return events[start:], has_joined


def decode_direct_rooms(event: MatrixEvent) -> frozenset[str]:
    """Return the rooms that the account has marked as direct messages (m.direct)."""
    by_user: dict[str, Any] = decode_json(event.content, dict[str, Any], {})
    return frozenset(
        room for rooms in by_user.values() if isinstance(rooms, list) for room in rooms if isinstance(room, str)
    )
