"""Converts messages of chat platforms into input for the model and records for the journal."""

from __future__ import annotations

import re

from msgspec.structs import replace

from mainstay.core.channels import IncomingMessage, QuotedText
from mainstay.core.chat_addresses import ChatAddress, PlatformMessage, ReceivedFile
from mainstay.core.errors import SessionUnknown
from mainstay.core.memory_tiers import RUNTIME, format_origin
from mainstay.core.messages import AnyPart, Text
from mainstay.core.people import Person
from mainstay.core.ports import SessionInfo
from mainstay.core.quoted_lines import separate_quoted_lines
from mainstay.gateway.workspace import Workspace
from mainstay.guards.line_escaping import one_line
from mainstay.operations.caller import load_session_info

UNKNOWN_USER_ORIGIN = format_origin("channel", untrusted=True)  # the origin of text from users who are not paired
NAME_CHARS_MAX = 80
QUOTED_TEXTS_MAX = 10  # quoted texts per message; further ones are left out
QUOTED_CHARS_MAX = 20_000  # characters of each of them; the rest is cut off
UNKNOWN_USER_SUFFIX = ", a stranger"  # follows an unknown user's name, which may be the name of a paired person
_QUOTED_NOTES = {"forward": "forwarded message", "share": "shared content", "quote": "quoted text"}
_QUOTED_ORIGINS = {kind: format_origin(kind, untrusted=True) for kind in _QUOTED_NOTES}
_BRACKETS = str.maketrans("[]\uff3b\uff3d\u3010\u3011\u3014\u3015\u27e6\u27e7", "()" * 5)
# a line that looks like a note of the runtime ("[Ann]", "[attached: …]")
_NOTE_LINE = re.compile(
    r"^([ \t]*)(?=[\[\uff3b\u3010\u3014\u27e6][^\n]*[\]\uff3d\u3011\u3015\u27e7][ \t:]*$)", re.MULTILINE
)


def envelope_id(message: IncomingMessage) -> str:
    """Return the idempotency key of a message: the same for every repetition of it."""
    return f"{message.address.channel}:{message.address.room}:{message.id}"


def sanitise_message(message: IncomingMessage) -> IncomingMessage:
    """Return the message without lone surrogates, which cannot be stored, with a bounded name, and with its quoted
    lines in `quoted`: only what the sender typed is left in `text`."""
    names = (message.name[:NAME_CHARS_MAX], message.room_name[:NAME_CHARS_MAX])
    text, name, room_name, user, id = map(_replace_surrogates, (message.text, *names, message.user, message.id))
    files = tuple(
        replace(file, name=_replace_surrogates(file.name), ref=_replace_surrogates(file.ref)) for file in message.files
    )
    text, quoted_lines = separate_quoted_lines(text)
    quoted = (QuotedText(quoted_lines, "quote"), *message.quoted)
    bounded = tuple(_bound_quoted(entry) for entry in quoted if entry.text.strip())[:QUOTED_TEXTS_MAX]
    return replace(message, text=text, name=name, user=user, id=id, files=files, quoted=bounded, room_name=room_name)


def _bound_quoted(quoted: QuotedText) -> QuotedText:
    text, author = _replace_surrogates(quoted.text), _replace_surrogates(quoted.author[:NAME_CHARS_MAX])
    if len(text) > QUOTED_CHARS_MAX:
        text = text[: QUOTED_CHARS_MAX - 1] + "…"
    return replace(quoted, text=text, author=author)


def has_content(message: IncomingMessage) -> bool:
    return bool(message.text.strip() or message.files or message.quoted)


def _replace_surrogates(text: str) -> str:
    return text if text.isascii() else text.encode(errors="replace").decode()


def build_parts(message: IncomingMessage, person: Person | None, files_note: str = "") -> tuple[AnyPart, ...]:
    """Return a message as parts for the model; `files_note` is about files that are not downloaded. In a room
    the speaker's name is put before the text in a note that users cannot forge. Only what a paired person typed has no
    origin: quoted texts, and the text and name of an unknown user, are untrusted."""
    parts: list[Text] = []
    if person is None:
        name = format_speaker_name(message.name or message.user) + UNKNOWN_USER_SUFFIX
        parts.append(Text(f"[{name}]\n{escape_note_lines(message.text)}{files_note}", origin=UNKNOWN_USER_ORIGIN))
    else:
        if not message.direct:
            parts.append(Text(f"[{format_speaker_name(person.label)}]\n", origin=RUNTIME))
        if message.text.strip():
            parts.append(Text(message.text if message.direct else escape_note_lines(message.text)))
        if files_note:
            parts.append(Text(files_note, origin=RUNTIME))
    for quoted in message.quoted:
        is_line_open = bool(parts) and not parts[-1].text.endswith("\n")
        parts.append(Text("\n" * is_line_open + _format_quoted(quoted), origin=_QUOTED_ORIGINS[quoted.kind]))
    return tuple(parts)


def _format_quoted(quoted: QuotedText) -> str:
    """Return a quoted text below a note that says what it is, which the text cannot forge."""
    author = f" from {format_speaker_name(quoted.author)}" if quoted.author.strip() else ""
    return f"[{_QUOTED_NOTES[quoted.kind]}{author}]\n{escape_note_lines(quoted.text)}"


def format_speaker_name(name: str) -> str:
    return one_line(name)[:NAME_CHARS_MAX].translate(_BRACKETS)


def escape_note_lines(text: str) -> str:
    """Put a backslash before every line that could be taken for a note of the runtime."""
    return _NOTE_LINE.sub(r"\1\\", text)


def to_platform_message(message: IncomingMessage, files: tuple[ReceivedFile, ...] = ()) -> PlatformMessage:
    return PlatformMessage(
        message.address,
        message.id,
        message.user,
        message.name,
        message.full_text,
        message.at,
        files or tuple(ReceivedFile(file.name) for file in message.files),
        message.direct,
    )


def to_room_message(message: IncomingMessage) -> PlatformMessage:
    """Return the message as if it had been sent to the room itself, without its thread."""
    return replace(to_platform_message(message), address=ChatAddress(message.address.channel, message.address.room))


async def find_session_info(workspace: Workspace, session: str) -> SessionInfo | None:
    try:
        return await load_session_info(workspace, session)
    except SessionUnknown:
        return None


def is_in_followed_thread(message: IncomingMessage, info: SessionInfo | None) -> bool:
    """True if a message belongs to a thread in which the agent has answered. A room itself is never followed."""
    if info is None or info.status == "archived" or info.turns == 0:
        return False
    return bool(message.address.thread)
