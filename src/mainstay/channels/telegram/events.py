"""Decodes Telegram updates into incoming messages. Malformed updates are ignored."""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any, Literal

import msgspec

from mainstay.channels.mentions import is_typed
from mainstay.channels.styled_text import repair_surrogates
from mainstay.channels.telegram.markup import slice_utf16
from mainstay.core.channels import IncomingFile, IncomingMessage, QuotedText
from mainstay.core.chat_addresses import ChatAddress

TOPIC_PREFIX = (
    "topic_"  # prefix of a forum topic's number in a thread id; other threads have the id of their first message
)
THREADS_MAX = 10_000
ID_MAX = 2**53

_MENTION_ENDS = " \t\n,:"
_FILE_FIELDS = ("document", "audio", "video", "animation", "voice", "video_note")
_FILE_EXTENSIONS = {"audio": ".mp3", "video": ".mp4", "animation": ".mp4", "voice": ".ogg", "video_note": ".mp4"}
_BLOCKQUOTES = ("blockquote", "expandable_blockquote")
_QUOTE_MASK = "\ue000"  # replaces quoted characters until mentions, whose offsets must stay valid, are resolved
_ADDRESSED_COMMAND = re.compile(r"/([A-Za-z0-9_]{1,32})@([A-Za-z0-9_]{1,64})")


class TelegramUser(msgspec.Struct, frozen=True):
    id: int
    first_name: str = ""
    last_name: str = ""
    username: str = ""
    can_read_all_group_messages: bool = False  # only in the answer to getMe


class TelegramChat(msgspec.Struct, frozen=True):
    id: int
    type: str
    title: str = ""


class TelegramEntity(msgspec.Struct, frozen=True):
    """A mention, command or other marked range of a text. Offset and length are in UTF-16 code units."""

    type: str
    offset: int
    length: int
    user: TelegramUser | None = None


class TelegramFile(msgspec.Struct, frozen=True):
    file_id: str
    file_unique_id: str = ""
    file_size: int = 0
    file_name: str = ""
    mime_type: str = ""
    width: int = 0
    height: int = 0


class TelegramMessageOrigin(msgspec.Struct, frozen=True):
    """The source of a forwarded message, or of a reply to a message of another chat: a user, hidden or not, or a
    chat."""

    sender_user: TelegramUser | None = None
    sender_user_name: str = ""
    sender_chat: TelegramChat | None = None
    chat: TelegramChat | None = None

    @property
    def name(self) -> str:
        chat = self.sender_chat or self.chat
        return _user_name(self.sender_user) or self.sender_user_name or (chat.title if chat is not None else "")


class TelegramTextQuote(msgspec.Struct, frozen=True):
    """The part of a replied message that its reply quotes."""

    text: str


class TelegramExternalReply(msgspec.Struct, frozen=True):
    """A replied message of another chat or topic. Its text is only in the quote."""

    origin: TelegramMessageOrigin | None = None


class TelegramRepliedMessage(msgspec.Struct, frozen=True, rename={"sender": "from"}):
    """The message that another message replies to."""

    message_id: int
    sender: TelegramUser | None = None


class TelegramMessage(msgspec.Struct, frozen=True, rename={"sender": "from"}):
    message_id: int
    date: int
    chat: TelegramChat
    sender: TelegramUser | None = None
    sender_chat: TelegramChat | None = None  # set where a user posts in the name of a group or channel
    message_thread_id: int = 0
    is_topic_message: bool = False
    reply_to_message: TelegramRepliedMessage | None = None
    external_reply: TelegramExternalReply | None = None
    quote: TelegramTextQuote | None = None
    forward_origin: TelegramMessageOrigin | None = None
    forward_date: int = 0  # before Bot API 7, as the following fields
    forward_from: TelegramUser | None = None
    forward_from_chat: TelegramChat | None = None
    forward_sender_name: str = ""
    via_bot: TelegramUser | None = None  # the inline bot that wrote the message
    media_group_id: str = ""
    text: str = ""
    caption: str = ""
    entities: tuple[TelegramEntity, ...] = ()
    caption_entities: tuple[TelegramEntity, ...] = ()
    photo: tuple[TelegramFile, ...] = ()
    document: TelegramFile | None = None
    audio: TelegramFile | None = None
    video: TelegramFile | None = None
    animation: TelegramFile | None = None
    voice: TelegramFile | None = None
    video_note: TelegramFile | None = None

    @property
    def forwarded_from(self) -> TelegramMessageOrigin | None:
        """Return the origin of a forwarded message; None if its sender wrote it."""
        if self.forward_origin is not None:
            return self.forward_origin
        user, chat, name = self.forward_from, self.forward_from_chat, self.forward_sender_name
        if user is None and chat is None and not name and not self.forward_date:
            return None
        return TelegramMessageOrigin(user, name, chat)


class TelegramUpdate(msgspec.Struct, frozen=True):
    """A decoded update. One without a message is ignored, but confirmed like the others."""

    id: int
    message: IncomingMessage | None = None
    album: str = ""  # id of the album (media group); its messages are merged into one


class TelegramThreadCache:
    """Remembers which thread a message belongs to, because updates of basic groups do not say."""

    def __init__(self) -> None:
        self._thread_by_message: OrderedDict[tuple[str, str], str] = OrderedDict()

    def remember(self, room: str, message: str, thread: str) -> None:
        self._thread_by_message[room, message] = thread
        self._thread_by_message.move_to_end((room, message))
        if len(self._thread_by_message) > THREADS_MAX:
            self._thread_by_message.popitem(last=False)

    def find_thread(self, message: TelegramMessage, *, mentioned: bool) -> str:
        """Return the thread of a message; empty: none. A message that mentions the bot begins a thread."""
        room, id = str(message.chat.id), str(message.message_id)
        if message.is_topic_message and message.message_thread_id > 0:
            return f"{TOPIC_PREFIX}{message.message_thread_id}"
        if message.chat.type == "private":
            return ""
        if message.message_thread_id > 0:  # in supergroups: the first message of the chain of replies
            thread = str(message.message_thread_id)
        elif message.reply_to_message is not None:
            parent = str(message.reply_to_message.message_id)
            thread = self._thread_by_message.get((room, parent), parent)
        elif mentioned:
            thread = id
        else:
            return ""
        self.remember(room, id, thread)
        return thread


class TelegramUpdateDecoder:
    """Decodes the updates of one bot."""

    def __init__(self, channel: str, identity: TelegramUser, threads: TelegramThreadCache) -> None:
        self._channel = channel
        self._identity = identity
        self._threads = threads

    def decode(self, raw: Any) -> TelegramUpdate | None:
        """Return the update, or None if it has no valid id and so can never be confirmed."""
        if not isinstance(raw, dict):
            return None
        id = raw.get("update_id")
        if not isinstance(id, int) or isinstance(id, bool) or not 0 <= id < ID_MAX:
            return None
        try:
            message = msgspec.convert(raw.get("message"), TelegramMessage | None)
        except (msgspec.MsgspecError, ValueError, OverflowError, RecursionError):
            return TelegramUpdate(id)
        if message is None or message.chat.type not in ("private", "group", "supergroup"):
            return TelegramUpdate(id)
        album = f"{message.chat.id}/{message.media_group_id}" if message.media_group_id else ""
        return TelegramUpdate(id, self._decode_message(message), album)

    def _decode_message(self, message: TelegramMessage) -> IncomingMessage | None:
        files = _decode_attachments(message)
        text = message.text or message.caption
        # Anonymous administrators share one account, so the sender is the group, and no person can be paired with it.
        user, name = _sender_id_and_name(message)
        if not user or not (text or files):  # a service message: a member joined or left, a message was pinned
            return None
        typed, quoted = _separate_quoted(message, text)
        mentioned, typed = self._strip_mention(typed, message.entities or message.caption_entities)
        reply = message.reply_to_message
        mentioned |= reply is not None and reply.sender is not None and reply.sender.id == self._identity.id
        return IncomingMessage(
            id=str(message.message_id),
            address=ChatAddress(
                self._channel, str(message.chat.id), self._threads.find_thread(message, mentioned=mentioned)
            ),
            user=user,
            name=repair_surrogates(name)[:200],
            text=typed.replace(_QUOTE_MASK, "").strip("\n") if _QUOTE_MASK in typed else typed,
            at=min(max(message.date, 0), ID_MAX // 1000) * 1000,
            direct=message.chat.type == "private",
            mentioned=mentioned,
            own=message.sender is not None and message.sender.id == self._identity.id,
            files=files,
            quoted=quoted,
            room_name=repair_surrogates(message.chat.title)[:200],
        )

    def _strip_mention(self, text: str, entities: tuple[TelegramEntity, ...]) -> tuple[bool, str]:
        """Return whether the typed text mentions the bot, and the text without a leading mention."""
        mention, whole = f"@{self._identity.username}".lower(), text
        mentioned = False
        pieces = slice_utf16(text, [(entity.offset, entity.length) for entity in entities])
        for entity, piece in zip(entities, pieces, strict=True):
            if not piece or not _is_typed_entity(whole, entity, piece):
                continue
            is_bot = entity.type == "mention" and piece.lower() == mention
            is_bot |= entity.type == "text_mention" and entity.user is not None and entity.user.id == self._identity.id
            command = _ADDRESSED_COMMAND.fullmatch(piece) if entity.type == "bot_command" else None
            if command is not None and f"@{command[2]}".lower() == mention:
                mentioned = True
                if entity.offset == 0:
                    text = f"/{command[1]}" + text[len(piece) :]
            elif is_bot:
                mentioned = True
                if text.startswith(piece) and entity.offset == 0:
                    text = text[len(piece) :].lstrip(_MENTION_ENDS)
        return mentioned, repair_surrogates(text)


def _is_typed_entity(text: str, entity: TelegramEntity, piece: str) -> bool:
    """Return False for a mention in quoted text: a masked range, or a quoted line."""
    if _QUOTE_MASK in piece:
        return False
    start = len(slice_utf16(text, [(0, entity.offset)])[0])
    return is_typed(text, start, start + len(piece))


def _sender_id_and_name(message: TelegramMessage) -> tuple[str, str]:
    if message.sender_chat is not None:
        return str(message.sender_chat.id), message.sender_chat.title
    if message.sender is None:
        return "", ""
    return str(message.sender.id), _user_name(message.sender)


def _user_name(user: TelegramUser | None) -> str:
    if user is None:
        return ""
    return " ".join(filter(None, (user.first_name, user.last_name))) or user.username


def _separate_quoted(message: TelegramMessage, text: str) -> tuple[str, tuple[QuotedText, ...]]:
    """Return what the sender typed, with quoted ranges masked, and what the sender forwards or quotes. Of a forwarded
    message, and of one that an inline bot wrote, the sender typed nothing."""
    if (origin := message.forwarded_from) is not None:
        return "", _build_quoted(text, "forward", origin.name)
    if message.via_bot is not None:
        return "", _build_quoted(text, "share", message.via_bot.username or message.via_bot.first_name)
    quoted: tuple[QuotedText, ...] = ()
    if message.quote is not None:
        external, reply = message.external_reply, message.reply_to_message
        author = external.origin.name if external is not None and external.origin is not None else ""
        quoted = _build_quoted(message.quote.text, "quote", author or _user_name(reply.sender if reply else None))
    entities = message.entities or message.caption_entities
    ranges = [(entity.offset, entity.length) for entity in entities if entity.type in _BLOCKQUOTES]
    if not ranges:
        return text, quoted
    for piece in slice_utf16(text, ranges):
        quoted += _build_quoted(piece, "quote")
    return _mask_utf16(text, ranges), quoted


def _build_quoted(text: str, kind: Literal["forward", "share", "quote"], author: str = "") -> tuple[QuotedText, ...]:
    return (QuotedText(repair_surrogates(text), kind, repair_surrogates(author)[:200]),) if text.strip() else ()


def _mask_utf16(text: str, ranges: Sequence[tuple[int, int]]) -> str:
    """Replace the characters at these offsets and lengths, in UTF-16 code units, so that other offsets stay valid."""
    raw, mask = bytearray(text.encode("utf-16-le", "surrogatepass")), _QUOTE_MASK.encode("utf-16-le")
    for offset, length in ranges:
        start, end = 2 * offset, min(2 * (offset + length), len(raw))
        if 0 <= start < end:
            raw[start:end] = mask * ((end - start) // 2)
    return raw.decode("utf-16-le", "surrogatepass")


def _decode_attachments(message: TelegramMessage) -> tuple[IncomingFile, ...]:
    attachments = []
    if message.photo:
        photo = max(message.photo, key=lambda size: (size.width * size.height, size.file_size))
        attachments.append(_decode_attachment(photo, f"photo_{message.message_id}.jpg", "image/jpeg"))
    for kind in _FILE_FIELDS:
        file: TelegramFile | None = getattr(message, kind)
        if file is None or (kind == "document" and message.animation is not None):  # an animation is sent as both
            continue
        attachments.append(_decode_attachment(file, f"{kind}_{message.message_id}{_FILE_EXTENSIONS.get(kind, '')}", ""))
    return tuple(attachments)


def _decode_attachment(file: TelegramFile, name: str, mime: str) -> IncomingFile:
    return IncomingFile(
        ref=file.file_id,
        name=repair_surrogates(file.file_name)[:255] or name,
        mime=repair_surrogates(file.mime_type)[:100] or mime,
        size=max(file.file_size, 0),
    )
