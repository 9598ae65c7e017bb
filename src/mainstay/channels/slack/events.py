"""Decodes Slack events and slash commands into incoming messages."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeVar

import msgspec

from mainstay.channels.slack.markup import find_mentioned_users, leading_mention_length, mrkdwn_to_text
from mainstay.core.channels import IncomingFile, IncomingMessage, QuotedText
from mainstay.core.chat_addresses import ChatAddress
from mainstay.core.quoted_lines import separate_quoted_lines

T = TypeVar("T")

TEXT_CHARS_MAX = 100_000  # Slack itself cuts at 40,000
FILES_MAX = 20
ATTACHMENTS_MAX = 20  # shared messages and link previews per message
ATTACHMENT_CHARS_MAX = 40_000  # characters of each, as mrkdwn
BLOCKS_DEPTH_MAX = 20  # nested blocks of a shared message whose text is read
MENTIONED_USERS_MAX = 20  # mentioned users per message whose names are looked up
COMMANDS = ("stop", "steer")

_TS = re.compile(r"([0-9]{1,12})\.([0-9]{1,9})")
_ID = re.compile(r"[A-Za-z0-9]{1,64}")
# Other subtypes report changes of a room or of another message.
_USER_MESSAGE_SUBTYPES = (None, "", "file_share", "thread_broadcast", "bot_message", "me_message")
_QUOTE_MARK, _QUOTE_BLOCK_MARK = "&gt;", "&gt;&gt;&gt;"  # the latter quotes the rest of the message
_SLACKBOT_ID = "USLACKBOT"  # the platform's own notifications


class SlackIdentity(msgspec.Struct, frozen=True):
    """The bot's own account (auth.test)."""

    user_id: str
    bot_id: str = ""
    user: str = ""  # name
    team_id: str = ""


class SlackFile(msgspec.Struct, frozen=True):
    id: str = ""
    name: str | None = ""
    title: str | None = ""
    mimetype: str | None = ""
    size: int | None = 0
    url_private: str | None = ""
    url_private_download: str | None = ""
    mode: str | None = ""
    file_access: str | None = ""


class SlackMessageAttachment(msgspec.Struct, frozen=True):
    """A shared message, a link preview, or what an app adds to its message."""

    author_name: str | None = ""
    service_name: str | None = ""
    pretext: str | None = ""
    title: str | None = ""
    text: str | None = ""
    fallback: str | None = ""
    message_blocks: Any = None

    @property
    def mrkdwn(self) -> str:
        """Return the whole content. Slack repeats the text in the blocks and, shortened, in the fallback."""
        own = "\n".join(filter(None, (self.pretext, self.title, self.text)))
        return own or "".join(_block_texts(self.message_blocks, BLOCKS_DEPTH_MAX)).strip() or self.fallback or ""


class SlackMessage(msgspec.Struct, frozen=True):
    """A `message` or `app_mention` event, or a message of a history."""

    type: str = ""
    subtype: str | None = None
    channel: str = ""
    channel_type: str | None = ""
    user: str | None = ""
    bot_id: str | None = ""
    username: str | None = ""  # set by bots that choose their own
    text: str | None = ""
    ts: str = ""
    thread_ts: str | None = ""
    files: Any = None
    attachments: Any = None
    metadata: Any = None
    blocks: Any = None

    @property
    def is_user_message(self) -> bool:
        """Whether this is a complete message that a user or bot wrote."""
        return (
            self.type in ("message", "app_mention")
            and self.subtype in _USER_MESSAGE_SUBTYPES
            and _TS.fullmatch(self.ts) is not None
            and (not self.thread_ts or _TS.fullmatch(self.thread_ts) is not None)
            and _ID.fullmatch(self.author_id) is not None
            and self.author_id != _SLACKBOT_ID
        )

    @property
    def author_id(self) -> str:
        return self.user or self.bot_id or ""

    @property
    def is_direct(self) -> bool:
        return self.channel_type == "im" or self.channel.startswith("D")


class SlackCommand(msgspec.Struct, frozen=True):
    """A slash command."""

    command: str
    channel_id: str
    user_id: str
    trigger_id: str
    text: str | None = ""
    user_name: str | None = ""


class SlackEventCallback(msgspec.Struct, frozen=True):
    """The payload around an event, in Socket Mode and the Events API."""

    type: str = ""
    event: Any = None
    challenge: str | None = ""


def decode_as(data: Any, target_type: type[T]) -> T | None:
    """Return None if the data does not have this type."""
    try:
        return msgspec.convert(data, target_type)
    except (msgspec.ValidationError, UnicodeError):  # an unpaired surrogate in a key
        return None


def decode_message(data: Any, channel: str = "") -> SlackMessage | None:
    """Return None unless this is a message that a user or bot wrote."""
    message = decode_as(data, SlackMessage)
    if message is None:
        return None
    if channel and not message.channel:  # messages of a history do not name their channel
        message = msgspec.structs.replace(message, channel=channel)
    return message if message.is_user_message and _ID.fullmatch(message.channel) else None


def decode_command(data: Any) -> SlackCommand | None:
    command = decode_as(data, SlackCommand)
    if command is None:
        return None
    is_complete = command.command.startswith("/") and 0 < len(command.trigger_id) <= 200
    has_ids = _ID.fullmatch(command.channel_id) and _ID.fullmatch(command.user_id)
    return command if is_complete and has_ids else None


def message_address(message: SlackMessage, channel_name: str) -> ChatAddress:
    """Return the message's address. In a room every message belongs to a thread, if only the one that it begins. A
    direct message is in a thread only if its sender chose one."""
    thread = message.thread_ts or ("" if message.is_direct else message.ts)
    return ChatAddress(channel_name, message.channel, thread)


def collect_user_ids(message: SlackMessage) -> list[str]:
    """Return the ids of the sender and the mentioned users, whose names are needed to decode the message."""
    return [message.author_id, *find_mentioned_users((message.text or "")[:TEXT_CHARS_MAX])[:MENTIONED_USERS_MAX]]


def to_incoming(
    message: SlackMessage, address: ChatAddress, identity: SlackIdentity, names: Mapping[str, str]
) -> IncomingMessage:
    raw = message.text or ""
    start = leading_mention_length(raw, identity.user_id)
    all_names = {**names, identity.user_id: identity.user}
    # before names are put in, which may contain line breaks
    typed, quoted_lines = separate_quoted_lines(
        raw[start : start + TEXT_CHARS_MAX], mark=_QUOTE_MARK, block_mark=_QUOTE_BLOCK_MARK
    )
    text = mrkdwn_to_text(typed, all_names)
    return IncomingMessage(
        id=message.ts,
        address=address,
        user=message.author_id,
        name=_replace_surrogates(names.get(message.author_id) or message.username or ""),
        text=_replace_surrogates(f"{text} …" if len(raw) - start > TEXT_CHARS_MAX else text),
        at=ts_to_ms(message.ts),
        direct=message.is_direct,
        mentioned=start > 0
        or identity.user_id in find_mentioned_users(typed)
        # Slack says so also if the only mention is in quoted lines
        or (message.type == "app_mention" and identity.user_id not in find_mentioned_users(quoted_lines)),
        own=is_own(message, identity),
        files=tuple(_decode_attachments(message.files)),
        quoted=tuple(_collect_quoted(quoted_lines, message.attachments, all_names)),
    )


def _collect_quoted(quoted_lines: str, attachments: Any, names: Mapping[str, str]) -> Iterable[QuotedText]:
    if quoted_lines:
        yield QuotedText(_replace_surrogates(mrkdwn_to_text(quoted_lines, names)), "quote")
    for entry in attachments[:ATTACHMENTS_MAX] if isinstance(attachments, list) else ():
        attachment = decode_as(entry, SlackMessageAttachment)
        if attachment is not None and (mrkdwn := attachment.mrkdwn[:ATTACHMENT_CHARS_MAX]):
            author = attachment.author_name or attachment.service_name or ""
            yield QuotedText(
                _replace_surrogates(mrkdwn_to_text(mrkdwn, names)), "share", _replace_surrogates(author[:200])
            )


def _block_texts(blocks: Any, depth: int) -> Iterator[str]:
    """Yield the texts and addresses in nested blocks, each section on its own line."""
    match blocks:
        case _ if depth <= 0:
            return
        case list():
            for block in blocks:
                yield from _block_texts(block, depth - 1)
        case {"type": "text" | "link" | "mrkdwn" | "plain_text", **fields}:
            label, url = fields.get("text"), fields.get("url")
            yield " ".join(text for text in (label, url) if isinstance(text, str))
        case {"type": "user", "user_id": str(user)}:
            yield f"<@{user}>"
        case dict():
            for key in ("message", "blocks", "elements", "text", "fields"):
                yield from _block_texts(blocks.get(key), depth - 1)
            if str(blocks.get("type", "")).startswith(("rich_text_", "section", "header", "context")):
                yield "\n"


def is_own(message: SlackMessage, identity: SlackIdentity) -> bool:
    return message.user == identity.user_id or bool(identity.bot_id and message.bot_id == identity.bot_id)


def command_to_incoming(command: SlackCommand, channel_name: str, at: int) -> IncomingMessage:
    """Convert to the message `/stop now`, from `/mainstay stop now` as well as `/stop now`. It has no thread, since
    Slack does not send one."""
    word, text = command.command[1:], (command.text or "")[:TEXT_CHARS_MAX].strip()
    if word not in COMMANDS:
        first, _, rest = text.partition(" ")
        word, text = (first, rest.strip()) if first in COMMANDS else ("", text)
    return IncomingMessage(
        id=f"command:{command.trigger_id}",
        address=ChatAddress(channel_name, command.channel_id),
        user=command.user_id,
        name=_replace_surrogates(command.user_name or ""),
        text=_replace_surrogates(f"/{word} {text}".rstrip() if word else mrkdwn_to_text(text, {})),
        at=at,
        direct=command.channel_id.startswith("D"),
        mentioned=True,
    )


def _decode_attachments(files: Any) -> Iterable[IncomingFile]:
    for entry in files[:FILES_MAX] if isinstance(files, list) else ():
        file = decode_as(entry, SlackFile)
        if file is None:
            continue
        # A file shared from another organisation has only an id at first; of a deleted file nothing is left.
        ref = file.url_private_download or file.url_private or file.id
        if file.file_access == "check_file_info":
            ref = file.id
        if ref and file.mode not in ("tombstone", "hidden_by_limit"):
            yield IncomingFile(
                ref=_replace_surrogates(ref),
                name=_replace_surrogates(file.name or file.title or file.id)[:255],
                mime=_replace_surrogates(file.mimetype or "")[:100],
                size=max(file.size or 0, 0),
            )


def _replace_surrogates(text: str) -> str:
    """Replace unpaired surrogates, which JSON can contain and UTF-8 cannot."""
    return text if text.isascii() else text.encode(errors="replace").decode()


def ts_to_ms(ts: str) -> int:
    seconds, _, rest = ts.partition(".")
    return int(seconds) * 1000 + int(rest.ljust(3, "0")[:3] or 0)


def ms_to_ts(at: int) -> str:
    """Format a time in ms as a Slack timestamp (seconds with fraction)."""
    return f"{at // 1000}.{at % 1000:03d}000"
