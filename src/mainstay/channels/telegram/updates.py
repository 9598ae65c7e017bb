"""What Telegram tells, read into messages. Whatever is not shaped as it should be is nothing."""

from __future__ import annotations

import re
from collections import OrderedDict
from typing import Any

import msgspec

from mainstay.channels.layout import whole
from mainstay.channels.telegram.markup import slices
from mainstay.core.addresses import Address
from mainstay.core.channels import Attached, Incoming

TOPIC = "topic_"  # before the number of a forum's topic; other threads are named by the message they began with
THREADS_MAX = 10_000
ID_MAX = 2**53

_MENTION_ENDS = " \t\n,:"
_FILES = ("document", "audio", "video", "animation", "voice", "video_note")
_ENDINGS = {"audio": ".mp3", "video": ".mp4", "animation": ".mp4", "voice": ".ogg", "video_note": ".mp4"}
_COMMAND = re.compile(r"/([A-Za-z0-9_]{1,32})@([A-Za-z0-9_]{1,64})")


class User(msgspec.Struct, frozen=True):
    id: int
    first_name: str = ""
    last_name: str = ""
    username: str = ""
    can_read_all_group_messages: bool = False  # said of ourselves


class Chat(msgspec.Struct, frozen=True):
    id: int
    type: str
    title: str = ""


class Entity(msgspec.Struct, frozen=True):
    """A stretch of a text that means something; counted in UTF-16 units."""

    type: str
    offset: int
    length: int
    user: User | None = None


class File(msgspec.Struct, frozen=True):
    file_id: str
    file_unique_id: str = ""
    file_size: int = 0
    file_name: str = ""
    mime_type: str = ""
    width: int = 0
    height: int = 0


class Answered(msgspec.Struct, frozen=True, rename={"sender": "from"}):
    """A message that another one replies to."""

    message_id: int
    sender: User | None = None


class Message(msgspec.Struct, frozen=True, rename={"sender": "from"}):
    message_id: int
    date: int
    chat: Chat
    sender: User | None = None
    sender_chat: Chat | None = None  # somebody speaks as a group or a channel, not as themselves
    message_thread_id: int = 0
    is_topic_message: bool = False
    reply_to_message: Answered | None = None
    media_group_id: str = ""
    text: str = ""
    caption: str = ""
    entities: tuple[Entity, ...] = ()
    caption_entities: tuple[Entity, ...] = ()
    photo: tuple[File, ...] = ()
    document: File | None = None
    audio: File | None = None
    video: File | None = None
    animation: File | None = None
    voice: File | None = None
    video_note: File | None = None


class Update(msgspec.Struct, frozen=True):
    """One thing that Telegram tells. Without a message it is nothing to us, but is confirmed like the others."""

    id: int
    message: Incoming | None = None
    album: str = ""  # several messages of one are one to us


class Threads:
    """Which thread a message belongs to, as far as that was seen: basic groups do not tell it themselves."""

    def __init__(self) -> None:
        self._known: OrderedDict[tuple[str, str], str] = OrderedDict()

    def remember(self, room: str, message: str, thread: str) -> None:
        self._known[room, message] = thread
        self._known.move_to_end((room, message))
        if len(self._known) > THREADS_MAX:
            self._known.popitem(last=False)

    def of(self, message: Message, *, to_us: bool) -> str:
        """Empty: in none. What names us begins one."""
        room, id = str(message.chat.id), str(message.message_id)
        if message.is_topic_message and message.message_thread_id > 0:
            return f"{TOPIC}{message.message_thread_id}"
        if message.chat.type == "private":
            return ""
        if message.message_thread_id > 0:  # in large groups: what all of it replies to
            thread = str(message.message_thread_id)
        elif message.reply_to_message is not None:
            replied = str(message.reply_to_message.message_id)
            thread = self._known.get((room, replied), replied)
        elif to_us:
            thread = id
        else:
            return ""
        self.remember(room, id, thread)
        return thread


class Reader:
    """Reads what is told to one bot."""

    def __init__(self, channel: str, me: User, threads: Threads) -> None:
        self._channel = channel
        self._me = me
        self._threads = threads

    def read(self, raw: Any) -> Update | None:
        """None: it is nothing that could ever be confirmed."""
        if not isinstance(raw, dict):
            return None
        id = raw.get("update_id")
        if not isinstance(id, int) or isinstance(id, bool) or not 0 <= id < ID_MAX:
            return None
        try:
            message = msgspec.convert(raw.get("message"), Message | None)
        except (msgspec.MsgspecError, ValueError, OverflowError, RecursionError):
            return Update(id)
        if message is None or message.chat.type not in ("private", "group", "supergroup"):
            return Update(id)
        album = f"{message.chat.id}/{message.media_group_id}" if message.media_group_id else ""
        return Update(id, self._incoming(message), album)

    def _incoming(self, message: Message) -> Incoming | None:
        files = _files(message)
        text = message.text or message.caption
        # Anonymous administrators all share one account, so it is the group that speaks, and nobody can pair as it.
        user, name = _who(message)
        if not user or not (text or files):  # somebody came, left, pinned something
            return None
        mentioned, text = self._addressed(text, message.entities or message.caption_entities)
        reply = message.reply_to_message
        mentioned |= reply is not None and reply.sender is not None and reply.sender.id == self._me.id
        return Incoming(
            id=str(message.message_id),
            address=Address(self._channel, str(message.chat.id), self._threads.of(message, to_us=mentioned)),
            user=user,
            name=whole(name)[:200],
            text=text,
            at=min(max(message.date, 0), ID_MAX // 1000) * 1000,
            direct=message.chat.type == "private",
            mentioned=mentioned,
            own=message.sender is not None and message.sender.id == self._me.id,
            files=files,
        )

    def _addressed(self, text: str, entities: tuple[Entity, ...]) -> tuple[bool, str]:
        """Whether it names us, and what it says without that at its beginning."""
        ours = f"@{self._me.username}".lower()
        mentioned = False
        marked = slices(text, [(one.offset, one.length) for one in entities])
        for entity, said in zip(entities, marked, strict=True):
            if not said:
                continue
            to_us = entity.type == "mention" and said.lower() == ours
            to_us |= entity.type == "text_mention" and entity.user is not None and entity.user.id == self._me.id
            command = _COMMAND.fullmatch(said) if entity.type == "bot_command" else None
            if command is not None and f"@{command[2]}".lower() == ours:
                mentioned = True
                if entity.offset == 0:
                    text = f"/{command[1]}" + text[len(said) :]
            elif to_us:
                mentioned = True
                if text.startswith(said) and entity.offset == 0:
                    text = text[len(said) :].lstrip(_MENTION_ENDS)
        return mentioned, whole(text)


def _who(message: Message) -> tuple[str, str]:
    if message.sender_chat is not None:
        return str(message.sender_chat.id), message.sender_chat.title
    if message.sender is None:
        return "", ""
    sender = message.sender
    return str(sender.id), " ".join(filter(None, (sender.first_name, sender.last_name))) or sender.username


def _files(message: Message) -> tuple[Attached, ...]:
    found = []
    if message.photo:
        photo = max(message.photo, key=lambda one: (one.width * one.height, one.file_size))
        found.append(_attached(photo, f"photo_{message.message_id}.jpg", "image/jpeg"))
    for kind in _FILES:
        file: File | None = getattr(message, kind)
        if file is None or (kind == "document" and message.animation is not None):  # which is told as both
            continue
        found.append(_attached(file, f"{kind}_{message.message_id}{_ENDINGS.get(kind, '')}", ""))
    return tuple(found)


def _attached(file: File, name: str, mime: str) -> Attached:
    return Attached(
        ref=file.file_id,
        name=whole(file.file_name)[:255] or name,
        mime=whole(file.mime_type)[:100] or mime,
        size=max(file.file_size, 0),
    )
