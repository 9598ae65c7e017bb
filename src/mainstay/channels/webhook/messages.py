"""JSON messages of the webhook channel, in both directions.

received {"id", "room", "thread", "user", "name", "text", "at", "direct", "mentioned", "files": [{"url", "name"}],
         "quoted": [{"text", "kind", "author"}]} of which room and user are required, and text, files or quoted
sent     {"key", "room", "thread", "text", "files": [{"name", "mime", "data"}]}, the data in base64; an empty thread:
         the room itself. The response may be {"id", "thread"}: the id of the message at its receiver, and the thread
         for answers to it; both default to the key.
"""

from __future__ import annotations

import msgspec

from mainstay.core.channels import IncomingFile, IncomingMessage, QuotedText, SentMessage
from mainstay.core.chat_addresses import ChatAddress
from mainstay.core.errors import InputRefused
from mainstay.core.surrogates import describe_json_error

NAME_CHARS_MAX = 200  # of ids, rooms, threads and users, which become session keys
FILES_MAX = 20
QUOTED_TEXTS_MAX = 20
_TIME_MAX_MS = 1 << 53  # ms


class WebhookIncomingFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    url: str
    name: str = ""


class WebhookIncomingMessage(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A message that a client posts to us."""

    room: str
    user: str
    id: str = ""  # empty: derived from the signed content
    thread: str = ""
    name: str = ""
    text: str = ""
    at: int = 0  # ms; 0: the time of the signature
    direct: bool = False
    mentioned: bool = False
    files: tuple[WebhookIncomingFile, ...] = ()
    quoted: tuple[QuotedText, ...] = ()  # what the user did not type


class WebhookOutgoingFile(msgspec.Struct, frozen=True):
    name: str
    mime: str
    data: bytes


class WebhookOutgoingMessage(msgspec.Struct, frozen=True, kw_only=True):
    """A message that we post."""

    key: str
    room: str
    thread: str
    text: str
    files: tuple[WebhookOutgoingFile, ...] = ()


class WebhookReceipt(msgspec.Struct, frozen=True):
    """The optional response to a message that we posted."""

    id: str = ""
    thread: str = ""


_incoming_decoder = msgspec.json.Decoder(WebhookIncomingMessage)
_receipt_decoder = msgspec.json.Decoder(WebhookReceipt)


def decode_incoming(channel: str, body: bytes, *, signed_at: int, nonce: str) -> IncomingMessage:
    """Decode and check a received message. Raises InputRefused."""
    try:
        message = _incoming_decoder.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InputRefused(f"the body is not a valid message: {describe_json_error(body, error)}") from None
    for field in ("room", "user", "id", "thread", "name"):
        _check_name(field, getattr(message, field))
    if not message.room or not message.user:
        raise InputRefused("a message needs a room and a user")
    if not message.text.strip() and not message.files and not message.quoted:
        raise InputRefused("the message is empty")
    if len(message.files) > FILES_MAX or not 0 <= message.at <= _TIME_MAX_MS:
        raise InputRefused(f"a message may have at most {FILES_MAX} files, and its time must be in ms since 1970")
    if len(message.quoted) > QUOTED_TEXTS_MAX:
        raise InputRefused(f"a message may have at most {QUOTED_TEXTS_MAX} quoted texts")
    id = message.id or f"hash:{nonce}"
    thread = message.thread or ("" if message.direct else id)  # a message in a room may begin a thread
    return IncomingMessage(
        id=id,
        address=ChatAddress(channel, message.room, thread),
        user=message.user,
        name=message.name,
        text=message.text,
        at=message.at or signed_at,
        direct=message.direct,
        mentioned=message.mentioned,
        files=tuple(IncomingFile(ref=file.url, name=file.name) for file in message.files),
        quoted=message.quoted,
    )


def decode_receipt(body: bytes, message: WebhookOutgoingMessage) -> SentMessage:
    """Decode the response to a posted message. One in another format still counts as accepted."""
    try:
        receipt = _receipt_decoder.decode(body)
        _check_name("id", receipt.id)
        _check_name("thread", receipt.thread)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, InputRefused):
        receipt = WebhookReceipt()
    id = receipt.id or message.key
    return SentMessage(id=id, thread=receipt.thread or message.thread or id)


def _check_name(field: str, name: str) -> None:
    if len(name) > NAME_CHARS_MAX or not name.isprintable() or name != name.strip():
        raise InputRefused(
            f"{field} may have at most {NAME_CHARS_MAX} characters, no line breaks, and no spaces at its ends"
        )
