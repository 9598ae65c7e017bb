"""Decodes Telegram updates into incoming messages. Malformed updates are ignored."""

from __future__ import annotations

import re
from collections import OrderedDict
from typing import Any

import msgspec

from mainstay.channels.styled_text import repair_surrogates
from mainstay.channels.telegram.markup import slice_utf16
from mainstay.core.channels import IncomingFile, IncomingMessage
from mainstay.core.chat_addresses import ChatAddress

TOPIC_PREFIX = (
    "topic_"  # prefix of a forum topic's number in a thread id; other threads have the id of their first message
)
THREADS_MAX = 10_000
ID_MAX = 2**53

_MENTION_ENDS = " \t\n,:"
_FILE_FIELDS = ("document", "audio", "video", "animation", "voice", "video_note")
_FILE_EXTENSIONS = {"audio": ".mp3", "video": ".mp4", "animation": ".mp4", "voice": ".ogg", "video_note": ".mp4"}
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
        mentioned, text = self._strip_mention(text, message.entities or message.caption_entities)
        reply = message.reply_to_message
        mentioned |= reply is not None and reply.sender is not None and reply.sender.id == self._identity.id
        return IncomingMessage(
            id=str(message.message_id),
            address=ChatAddress(
                self._channel, str(message.chat.id), self._threads.find_thread(message, mentioned=mentioned)
            ),
            user=user,
            name=repair_surrogates(name)[:200],
            text=text,
            at=min(max(message.date, 0), ID_MAX // 1000) * 1000,
            direct=message.chat.type == "private",
            mentioned=mentioned,
            own=message.sender is not None and message.sender.id == self._identity.id,
            files=files,
        )

    def _strip_mention(self, text: str, entities: tuple[TelegramEntity, ...]) -> tuple[bool, str]:
        """Return whether the text mentions the bot, and the text without a leading mention."""
        mention = f"@{self._identity.username}".lower()
        mentioned = False
        pieces = slice_utf16(text, [(entity.offset, entity.length) for entity in entities])
        for entity, piece in zip(entities, pieces, strict=True):
            if not piece:
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


def _sender_id_and_name(message: TelegramMessage) -> tuple[str, str]:
    if message.sender_chat is not None:
        return str(message.sender_chat.id), message.sender_chat.title
    if message.sender is None:
        return "", ""
    sender = message.sender
    return str(sender.id), " ".join(filter(None, (sender.first_name, sender.last_name))) or sender.username


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
