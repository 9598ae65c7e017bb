"""Decodes signal-cli notifications into incoming messages. Malformed ones are ignored."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from mainstay.channels.mentions import format_mention, is_typed
from mainstay.channels.styled_text import repair_surrogates
from mainstay.core.channels import IncomingFile, IncomingMessage
from mainstay.core.chat_addresses import ChatAddress

TIMESTAMP_MAX = 2**53
_MENTION_ENDS = " \t\n,:"
_FILE_ID = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9_.-]{0,199}")


class SignalIdentity(msgspec.Struct):
    """The channel's own account: a phone number, an id, or both, as far as known."""

    number: str = ""
    uuid: str = ""

    def matches(self, number: str | None, uuid: str | None) -> bool:
        return bool(number and number == self.number) or bool(uuid and uuid.lower() == self.uuid.lower())


class SignalMention(msgspec.Struct, frozen=True):
    """A mention in a text. Start and length are in UTF-16 code units."""

    start: int
    length: int
    name: str | None = None
    number: str | None = None
    uuid: str | None = None


class SignalAttachment(msgspec.Struct, frozen=True, rename="camel"):
    id: str | None = None
    filename: str | None = None
    content_type: str | None = None
    size: int | None = None


class SignalQuote(msgspec.Struct, frozen=True, rename="camel"):
    """The message that another message replies to. Its text is not decoded: the sender did not type it."""

    author_number: str | None = None
    author_uuid: str | None = None


class SignalGroup(msgspec.Struct, frozen=True, rename="camel"):
    group_id: str
    group_name: str | None = None  # older versions of signal-cli do not send it


class SignalDataMessage(msgspec.Struct, frozen=True, rename="camel"):
    timestamp: int
    message: str | None = None
    group_info: SignalGroup | None = None
    mentions: tuple[SignalMention, ...] | None = None
    attachments: tuple[SignalAttachment, ...] | None = None
    quote: SignalQuote | None = None


class SignalEnvelope(msgspec.Struct, frozen=True, rename="camel"):
    """An envelope. Those without a message (receipts, typing indicators, sync of our other devices) are ignored."""

    timestamp: int
    source: str | None = None
    source_number: str | None = None
    source_uuid: str | None = None
    source_name: str | None = None
    data_message: SignalDataMessage | None = None


class SignalNotification(msgspec.Struct, frozen=True):
    envelope: SignalEnvelope
    account: str | None = None


class SignalSubscriptionNotification(msgspec.Struct, frozen=True):
    """A notification of a subscription, which wraps the ordinary one."""

    result: SignalNotification


def decode_message(channel: str, identity: SignalIdentity, params: Any) -> IncomingMessage | None:
    event = _decode_notification(params)
    if event is None or (event.account and identity.number and event.account not in (identity.number, identity.uuid)):
        return None  # a daemon with several accounts also notifies about the others
    envelope, data = event.envelope, event.envelope.data_message
    user = envelope.source_uuid or envelope.source_number or envelope.source
    if data is None or not user or not 0 < data.timestamp < TIMESTAMP_MAX:
        return None
    files = tuple(
        _decode_attachment(file, data.timestamp) for file in data.attachments or () if _FILE_ID.fullmatch(file.id or "")
    )
    if not (data.message or files):  # a reaction, a deletion or a group update
        return None
    group = data.group_info
    mentioned, text = _resolve_mentions(data.message or "", data.mentions or (), identity)
    return IncomingMessage(
        id=f"{repair_surrogates(user)}.{data.timestamp}",
        address=ChatAddress(channel, repair_surrogates(group.group_id if group else user)),
        user=repair_surrogates(user),
        name=repair_surrogates(envelope.source_name or "")[:200],
        text=text,
        at=data.timestamp,
        direct=group is None,
        mentioned=mentioned
        or (data.quote is not None and identity.matches(data.quote.author_number, data.quote.author_uuid)),
        own=identity.matches(envelope.source_number, envelope.source_uuid),
        files=files,
        room_name=repair_surrogates((group.group_name if group else None) or "")[:200],
    )


def _decode_notification(params: Any) -> SignalNotification | None:
    try:
        if isinstance(params, dict) and "result" in params:
            return msgspec.convert(params, SignalSubscriptionNotification).result
        return msgspec.convert(params, SignalNotification)
    except (msgspec.MsgspecError, ValueError, OverflowError, RecursionError):
        return None


def _resolve_mentions(text: str, mentions: tuple[SignalMention, ...], identity: SignalIdentity) -> tuple[bool, str]:
    """Return whether the account is mentioned, and the text: with names in place of mentions, and without a leading
    mention of the account."""
    raw = text.encode("utf-16-le", "surrogatepass")
    mentioned = False
    end = len(raw)
    for mention in sorted(mentions, key=lambda entry: entry.start, reverse=True):
        start, stop = 2 * mention.start, 2 * (mention.start + mention.length)
        if not 0 <= start < stop <= end:  # out of range, or overlaps another mention
            continue
        is_own = identity.matches(mention.number, mention.uuid)
        at, after = (len(raw[:offset].decode("utf-16-le", "surrogatepass")) for offset in (start, stop))
        mentioned |= is_own and is_typed(raw.decode("utf-16-le", "surrogatepass"), at, after)
        account = mention.number or mention.uuid or "?"
        name = format_mention(mention.name) if mention.name and mention.name != mention.number else f"@{account}"
        rest = raw[stop:]
        if is_own and not raw[:start].decode("utf-16-le", "replace").strip():
            rest = rest.decode("utf-16-le", "surrogatepass").lstrip(_MENTION_ENDS).encode("utf-16-le", "surrogatepass")
            name, start = "", 0
        raw = raw[:start] + name.encode("utf-16-le", "surrogatepass") + rest
        end = start
    return mentioned, raw.decode("utf-16-le", "replace")


def _decode_attachment(file: SignalAttachment, timestamp: int) -> IncomingFile:
    return IncomingFile(
        ref=file.id or "",
        name=repair_surrogates(file.filename or "")[:255] or f"file_{timestamp}",
        mime=repair_surrogates(file.content_type or "")[:100],
        size=max(file.size or 0, 0),
    )
