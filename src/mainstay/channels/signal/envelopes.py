"""What signal-cli tells, read into messages. Whatever is not shaped as it should be is nothing."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from mainstay.channels.layout import whole
from mainstay.core.addresses import Address
from mainstay.core.channels import Attached, Incoming

TIME_MAX = 2**53
_MENTION_ENDS = " \t\n,:"
_FILE_ID = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9_.-]{0,199}")


class Account(msgspec.Struct):
    """Who we are: a number, an id, or both, as far as we know."""

    number: str = ""
    uuid: str = ""

    def has(self, number: str | None, uuid: str | None) -> bool:
        return bool(number and number == self.number) or bool(uuid and uuid.lower() == self.uuid.lower())


class Mention(msgspec.Struct, frozen=True):
    """A place in a text, in UTF-16 units, where somebody is named."""

    start: int
    length: int
    name: str | None = None
    number: str | None = None
    uuid: str | None = None


class File(msgspec.Struct, frozen=True, rename="camel"):
    id: str | None = None
    filename: str | None = None
    content_type: str | None = None
    size: int | None = None


class Quote(msgspec.Struct, frozen=True, rename="camel"):
    author_number: str | None = None
    author_uuid: str | None = None


class Group(msgspec.Struct, frozen=True, rename="camel"):
    group_id: str


class Data(msgspec.Struct, frozen=True, rename="camel"):
    timestamp: int
    message: str | None = None
    group_info: Group | None = None
    mentions: tuple[Mention, ...] | None = None
    attachments: tuple[File, ...] | None = None
    quote: Quote | None = None


class Letter(msgspec.Struct, frozen=True, rename="camel"):
    """An envelope. Those without a message (receipts, somebody types, what our other devices do) are nothing to us."""

    timestamp: int
    source: str | None = None
    source_number: str | None = None
    source_uuid: str | None = None
    source_name: str | None = None
    data_message: Data | None = None


class Told(msgspec.Struct, frozen=True):
    envelope: Letter
    account: str | None = None


class Subscribed(msgspec.Struct, frozen=True):
    """The same, where it was asked for."""

    result: Told


def read(channel: str, me: Account, params: Any) -> Incoming | None:
    told = _told(params)
    if told is None or (told.account and me.number and told.account not in (me.number, me.uuid)):
        return None  # a daemon with several accounts tells of the others too
    letter, data = told.envelope, told.envelope.data_message
    user = letter.source_uuid or letter.source_number or letter.source
    if data is None or not user or not 0 < data.timestamp < TIME_MAX:
        return None
    files = tuple(
        _attached(file, data.timestamp) for file in data.attachments or () if _FILE_ID.fullmatch(file.id or "")
    )
    if not (data.message or files):  # a reaction, a deletion, a change of the group
        return None
    group = data.group_info
    mentioned, text = _text(data.message or "", data.mentions or (), me)
    return Incoming(
        id=f"{whole(user)}.{data.timestamp}",
        address=Address(channel, whole(group.group_id if group else user)),
        user=whole(user),
        name=whole(letter.source_name or "")[:200],
        text=text,
        at=data.timestamp,
        direct=group is None,
        mentioned=mentioned or (data.quote is not None and me.has(data.quote.author_number, data.quote.author_uuid)),
        own=me.has(letter.source_number, letter.source_uuid),
        files=files,
    )


def _told(params: Any) -> Told | None:
    try:
        if isinstance(params, dict) and "result" in params:
            return msgspec.convert(params, Subscribed).result
        return msgspec.convert(params, Told)
    except (msgspec.MsgspecError, ValueError, OverflowError, RecursionError):
        return None


def _text(text: str, mentions: tuple[Mention, ...], me: Account) -> tuple[bool, str]:
    """Whether it names us, and what it says: with the names that stand for themselves in it, without ours at its
    beginning."""
    raw = text.encode("utf-16-le", "surrogatepass")
    mentioned = False
    end = len(raw)
    for mention in sorted(mentions, key=lambda one: one.start, reverse=True):
        start, stop = 2 * mention.start, 2 * (mention.start + mention.length)
        if not 0 <= start < stop <= end:  # it is not in the text, or in another mention
            continue
        to_us = me.has(mention.number, mention.uuid)
        mentioned |= to_us
        name = f"@{mention.name or mention.number or mention.uuid or '?'}"
        rest = raw[stop:]
        if to_us and not raw[:start].decode("utf-16-le", "replace").strip():
            rest = rest.decode("utf-16-le", "surrogatepass").lstrip(_MENTION_ENDS).encode("utf-16-le", "surrogatepass")
            name, start = "", 0
        raw = raw[:start] + name.encode("utf-16-le", "surrogatepass") + rest
        end = start
    return mentioned, raw.decode("utf-16-le", "replace")


def _attached(file: File, timestamp: int) -> Attached:
    return Attached(
        ref=file.id or "",
        name=whole(file.filename or "")[:255] or f"file_{timestamp}",
        mime=whole(file.content_type or "")[:100],
        size=max(file.size or 0, 0),
    )
