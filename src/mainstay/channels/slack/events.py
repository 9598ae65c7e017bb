"""What Slack tells us, decoded once, and what that is to us."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

import msgspec

from mainstay.channels.slack.mrkdwn import names_at_beginning, people_in, to_text
from mainstay.core.addresses import Address
from mainstay.core.channels import Attached, Incoming

T = TypeVar("T")

TEXT_CHARS_MAX = 100_000  # Slack itself cuts at 40,000
FILES_MAX = 20
NAMED_MAX = 20  # people in one message whose names are looked up
COMMANDS = ("stop", "steer")

_TS = re.compile(r"([0-9]{1,12})\.([0-9]{1,9})")
_ID = re.compile(r"[A-Za-z0-9]{1,64}")
# The others tell of something that happened to a room or to another message.
_SPOKEN = (None, "", "file_share", "thread_broadcast", "bot_message", "me_message")
_NOBODY = "USLACKBOT"  # the platform's own voice


class Me(msgspec.Struct, frozen=True):
    """Who we are there (auth.test)."""

    user_id: str
    bot_id: str = ""
    user: str = ""  # our name


class File(msgspec.Struct, frozen=True):
    id: str = ""
    name: str | None = ""
    title: str | None = ""
    mimetype: str | None = ""
    size: int | None = 0
    url_private: str | None = ""
    url_private_download: str | None = ""
    mode: str | None = ""
    file_access: str | None = ""


class Message(msgspec.Struct, frozen=True):
    """An event `message` or `app_mention`, or a message of a history."""

    type: str = ""
    subtype: str | None = None
    channel: str = ""
    channel_type: str | None = ""
    user: str | None = ""
    bot_id: str | None = ""
    username: str | None = ""  # of bots that choose one
    text: str | None = ""
    ts: str = ""
    thread_ts: str | None = ""
    files: Any = None
    metadata: Any = None
    blocks: Any = None

    @property
    def spoken(self) -> bool:
        """Somebody said this, and it is whole."""
        return (
            self.type in ("message", "app_mention")
            and self.subtype in _SPOKEN
            and _TS.fullmatch(self.ts) is not None
            and (not self.thread_ts or _TS.fullmatch(self.thread_ts) is not None)
            and _ID.fullmatch(self.said_by) is not None
            and self.said_by != _NOBODY
        )

    @property
    def said_by(self) -> str:
        return self.user or self.bot_id or ""

    @property
    def direct(self) -> bool:
        return self.channel_type == "im" or self.channel.startswith("D")


class Command(msgspec.Struct, frozen=True):
    """A slash command."""

    command: str
    channel_id: str
    user_id: str
    trigger_id: str
    text: str | None = ""
    user_name: str | None = ""


class Callback(msgspec.Struct, frozen=True):
    """What comes with an event, by either way."""

    type: str = ""
    event: Any = None
    challenge: str | None = ""


def decoded(told: Any, kind: type[T]) -> T | None:
    """None if it is no such thing."""
    try:
        return msgspec.convert(told, kind)
    except (msgspec.ValidationError, UnicodeError):  # half a character where a name should be
        return None


def message_of(told: Any, channel: str = "") -> Message | None:
    """None if it is none, or nothing that anybody said."""
    message = decoded(told, Message)
    if message is None:
        return None
    if channel and not message.channel:  # in a history nobody repeats where it is
        message = msgspec.structs.replace(message, channel=channel)
    return message if message.spoken and _ID.fullmatch(message.channel) else None


def command_of(told: Any) -> Command | None:
    command = decoded(told, Command)
    if command is None:
        return None
    whole = command.command.startswith("/") and 0 < len(command.trigger_id) <= 200
    named = _ID.fullmatch(command.channel_id) and _ID.fullmatch(command.user_id)
    return command if whole and named else None


def address_of(message: Message, name: str) -> Address:
    """In a room everything is in a thread, if only one that it begins. Between two it is one conversation, and a
    thread only where somebody makes one."""
    thread = message.thread_ts or ("" if message.direct else message.ts)
    return Address(name, message.channel, thread)


def people_of(message: Message) -> list[str]:
    """Whose names are needed to tell of it."""
    return [message.said_by, *people_in((message.text or "")[:TEXT_CHARS_MAX])[:NAMED_MAX]]


def incoming(message: Message, address: Address, me: Me, names: Mapping[str, str]) -> Incoming:
    raw = message.text or ""
    begins = names_at_beginning(raw, me.user_id)
    text = to_text(raw[begins : begins + TEXT_CHARS_MAX], {**names, me.user_id: me.user})
    return Incoming(
        id=message.ts,
        address=address,
        user=message.said_by,
        name=_keepable(names.get(message.said_by) or message.username or ""),
        text=_keepable(f"{text} …" if len(raw) - begins > TEXT_CHARS_MAX else text),
        at=milliseconds(message.ts),
        direct=message.direct,
        mentioned=message.type == "app_mention" or begins > 0 or me.user_id in people_in(raw[:TEXT_CHARS_MAX]),
        own=is_own(message, me),
        files=tuple(_attached(message.files)),
    )


def is_own(message: Message, me: Me) -> bool:
    return message.user == me.user_id or bool(me.bot_id and message.bot_id == me.bot_id)


def commanded(command: Command, name: str, at: int) -> Incoming:
    """As if it had been written: `/mainstay stop now` and `/stop now` are `/stop now`. Slack says of no thread."""
    word, text = command.command[1:], (command.text or "")[:TEXT_CHARS_MAX].strip()
    if word not in COMMANDS:
        first, _, rest = text.partition(" ")
        word, text = (first, rest.strip()) if first in COMMANDS else ("", text)
    return Incoming(
        id=f"command:{command.trigger_id}",
        address=Address(name, command.channel_id),
        user=command.user_id,
        name=_keepable(command.user_name or ""),
        text=_keepable(f"/{word} {text}".rstrip() if word else to_text(text, {})),
        at=at,
        direct=command.channel_id.startswith("D"),
        mentioned=True,
    )


def _attached(files: Any) -> Iterable[Attached]:
    for told in files[:FILES_MAX] if isinstance(files, list) else ():
        file = decoded(told, File)
        if file is None:
            continue
        # Of a file shared from another company there is only the id yet; of a deleted one nothing is left.
        ref = file.url_private_download or file.url_private or file.id
        if file.file_access == "check_file_info":
            ref = file.id
        if ref and file.mode not in ("tombstone", "hidden_by_limit"):
            yield Attached(
                ref=_keepable(ref),
                name=_keepable(file.name or file.title or file.id)[:255],
                mime=_keepable(file.mimetype or "")[:100],
                size=max(file.size or 0, 0),
            )


def _keepable(text: str) -> str:
    """Without half characters, which JSON can hold and a disk cannot."""
    return text if text.isascii() else text.encode(errors="replace").decode()


def milliseconds(ts: str) -> int:
    seconds, _, rest = ts.partition(".")
    return int(seconds) * 1000 + int(rest.ljust(3, "0")[:3] or 0)


def seconds(at: int) -> str:
    """As Slack writes a time."""
    return f"{at // 1000}.{at % 1000:03d}000"
