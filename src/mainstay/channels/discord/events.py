"""Decodes discord.py messages into incoming messages."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import chain, islice
from typing import Any

import msgspec

from mainstay.core.channels import IncomingFile, IncomingMessage, QuotedText
from mainstay.core.chat_addresses import ChatAddress
from mainstay.core.quoted_lines import separate_quoted_lines

THREAD_CHANNEL_TYPES = (10, 11, 12)  # channel types of threads
DIRECT_CHANNEL_TYPE = 1  # channel type of direct messages
USER_MESSAGE_TYPES = (0, 19)  # message types: default and reply
FILES_MAX = 20
NAME_CHARS_MAX = 100
QUOTE_BLOCK_MARK = ">>> "  # quotes the rest of the message


class DiscordRoomAndThread(msgspec.Struct, frozen=True):
    """The room and thread of a Discord channel: a room, a thread in one, or a direct message."""

    room: str
    thread: str = ""
    direct: bool = False


def locate_channel(id: int, channel_type: int | None, parent_id: int | None) -> DiscordRoomAndThread:
    if channel_type in THREAD_CHANNEL_TYPES and parent_id:
        return DiscordRoomAndThread(str(parent_id), str(id))
    return DiscordRoomAndThread(str(id), direct=channel_type == DIRECT_CHANNEL_TYPE)


def decode_message(message: Any, bot_id: int, channel: str, location: DiscordRoomAndThread) -> IncomingMessage | None:
    """Return None for system messages (a member joined, a thread was created). In a room a message that mentions the
    bot begins a thread: Discord gives a thread the id of its first message. A forwarded message has no text of its own,
    but a snapshot of the original, without its author."""
    if message.type.value not in USER_MESSAGE_TYPES:
        return None
    text, is_addressed = strip_mention(str(message.content or ""), bot_id)
    text, quoted_lines = separate_quoted_lines(text, block_mark=QUOTE_BLOCK_MARK)
    snapshots = getattr(message, "message_snapshots", ())  # discord.py 2.4 does not have them
    mention = re.compile(rf"<@!?{bot_id}>")
    # a reply mentions its author without a text; a mention in quoted lines alone does not address the bot
    is_listed = any(user.id == bot_id for user in message.mentions) and not mention.search(quoted_lines)
    mentioned = is_addressed or is_listed or mention.search(text) is not None
    attachments = chain(message.attachments, *(snapshot.attachments for snapshot in snapshots))
    thread = location.thread
    if not thread and mentioned and not location.direct:
        thread = str(message.id)
    return IncomingMessage(
        id=str(message.id),
        address=ChatAddress(channel, location.room, thread),
        user=str(message.author.id),
        name=" ".join(str(message.author.display_name).split())[:NAME_CHARS_MAX],
        text=text,
        at=int(message.created_at.timestamp() * 1000),
        direct=location.direct,
        mentioned=mentioned,
        own=message.author.id == bot_id,
        files=tuple(_decode_attachment(file) for file in islice(attachments, FILES_MAX)),
        quoted=tuple(_collect_quoted(quoted_lines, snapshots)),
        room_name="" if location.direct else _find_room_name(message.channel),
    )


def _find_room_name(channel: Any) -> str:
    """Return the name of a channel, or of the channel of a thread; empty if the library does not know it."""
    room = getattr(channel, "parent", channel)
    return str(getattr(room, "name", None) or "")[:NAME_CHARS_MAX]


def _collect_quoted(quoted_lines: str, snapshots: Any) -> Iterator[QuotedText]:
    if quoted_lines:
        yield QuotedText(quoted_lines, "quote")
    for snapshot in snapshots:
        if snapshot.content:
            yield QuotedText(str(snapshot.content), "forward")


def _decode_attachment(file: Any) -> IncomingFile:
    return IncomingFile(
        ref=str(file.url), name=str(file.filename), mime=file.content_type or "", size=max(0, file.size or 0)
    )


def strip_mention(text: str, bot_id: int) -> tuple[str, bool]:
    """Return the text without a leading mention of the bot, and whether there was one."""
    match = re.match(rf"\s*<@!?{bot_id}>\s*[:,]?\s*", text)
    return (text[match.end() :], True) if match else (text, False)
